package bridge

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// costlyChecks are schemas with the argument that makes each of them work most.
func costlyChecks() map[string][2]string {
	repeat := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, strings.ReplaceAll(format, "%d", strconv.Itoa(i)))
		}
		return strings.Join(list, ",")
	}
	mega := `"` + strings.Repeat("x", 1000_000) + `"`
	keys := `{` + repeat(9000, `"`+strings.Repeat("k", 90)+`%d":1`) + `}`
	deep := strings.Repeat(`{"n":`, 60) + `{}` + strings.Repeat(`}`, 60)
	branch := `{"type":"object","properties":{"n":{"anyOf":[{"allOf":[{"$ref":"#"},{"required":["x"]}]},{"allOf":[{"$ref":"#"},{"required":["y"]}]}]}}}`
	numbers := "[" + strings.Repeat("1e999999999,", 9000) + "1e-999999999]"
	digits := "[" + strings.Repeat(strings.Repeat("9", 4000)+",", 240) + "1]"
	return map[string][2]string{
		"branching recursion":       {branch, deep},
		"large texts in enums":      {`{"anyOf":[` + repeat(2000, `{"enum":["%d`+strings.Repeat("y", 100)+`"]}`) + `]}`, mega},
		"long enum of long texts":   {`{"enum":[` + repeat(1000, `"`+strings.Repeat("x", 990)+`%d"`) + `]}`, mega},
		"objects in enums":          {`{"anyOf":[` + repeat(2000, `{"enum":[{"a":%d},[%d]]}`) + `]}`, keys},
		"enum at every level":       {`{"enum":[{"z":1},1],"$defs":{"n":{"not":{"enum":[{"z":1}]},"additionalProperties":{"$ref":"#/$defs/n"}}},"additionalProperties":{"$ref":"#/$defs/n"}}`, deep},
		"const of a long list":      {`{"anyOf":[` + repeat(500, `{"const":[%d]}`) + `]}`, "[" + repeat(9000, `"`+strings.Repeat("v", 100)+`"`) + "]"},
		"a counted pattern":         {`{"pattern":"x.{0,1000}z"}`, mega},
		"many patterns":             {`{"anyOf":[` + repeat(100, `{"pattern":"%d(x+x+)+y"}`) + `]}`, mega},
		"patterns of many names":    {`{"patternProperties":{` + repeat(200, `"k+k+%dz":{}`) + `}}`, keys},
		"pattern on every item":     {`{"items":{"pattern":"(x|xx|xxx)*$"}}`, "[" + repeat(900, `"`+strings.Repeat("x", 1000)+`"`) + "]"},
		"unique long texts":         {`{"anyOf":[` + repeat(300, `{"uniqueItems":true,"contains":{"const":%d}}`) + `,{"uniqueItems":true,"minItems":99999}]}`, "[" + repeat(9000, `"`+strings.Repeat("v", 90)+`%d"`) + "]"},
		"many branches, many names": {`{"anyOf":[` + repeat(500, `{"propertyNames":{"maxLength":200},"properties":{"q%d":{}},"required":["q%d"]}`) + `]}`, keys},
		"required of many":          {`{"anyOf":[` + repeat(300, `{"required":[`+strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("k", 90)+`1",`, 300), ",")+`,"q%d"]}`) + `]}`, keys},
		"huge exponents":            {`{"uniqueItems":true,"items":{"anyOf":[{"maximum":5,"type":"integer"},{"minimum":6},true]}}`, numbers},
		"huge exponents, fitting":   {`{"items":{"multipleOf":1e-999999999,"minimum":-1}}`, numbers},
		"huge numbers":              {`{"anyOf":[` + repeat(100, `{"items":{"multipleOf":3,"minimum":-1e5000},"minItems":%d}`) + `]}`, digits},
		"count at every branch":     {`{"anyOf":[` + repeat(1000, `{"minLength":900000,"maxLength":%d}`) + `]}`, mega},
		"base64 at every branch":    {`{"anyOf":[` + repeat(1000, `{"type":"string","contentEncoding":"base64","enum":[%d]},{"type":"string","contentEncoding":"base64","maxLength":1}`) + `]}`, `{"$sbx":"bytes","v":` + mega + `}`},
		"deep chains":               {`{"$ref":"#/$defs/d0","$defs":{` + repeat(2500, `"d%d":{"anyOf":[{"$ref":"#/$defs/e%d"}]}`) + `,` + repeat(2499, `"e%d":{"allOf":[{"$ref":"#/$defs/f%d"}]}`) + `,"e2499":{"not":{}},` + chainTail(2499) + `}}`, `{}`},
		"oneOf of oneOf":            {`{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{` + doubling(18) + `}}`, `{}`},
		"contains":                  {`{"anyOf":[` + repeat(500, `{"contains":{"type":"string"},"minItems":%d}`) + `]}`, "[" + repeat(9000, "1") + "]"},
	}
}

// chainTail links f0 to d1 and so on.
func chainTail(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"f%d":{"$ref":"#/$defs/d%d"}`, i, i+1))
	}
	return strings.Join(list, ",")
}

// doubling is a chain of definitions of which each applies the next one twice.
func doubling(n int) string {
	list := []string{`"a":{"$ref":"#/$defs/a0"}`, fmt.Sprintf(`"a%d":{}`, n)}
	for i := range n {
		list = append(list, fmt.Sprintf(`"a%d":{"oneOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1))
	}
	return strings.Join(list, ",")
}

// Whatever a schema and an argument make of each other, one check costs little.
func TestSchemaCheckIsBounded(t *testing.T) {
	most := 40 * time.Millisecond
	if raceSlack > 100*time.Millisecond { // the race detector runs
		most = 20 * most
	}
	for name, c := range costlyChecks() {
		begin := cpuTime()
		s, err := compileSchema(json.RawMessage(c[0]))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		load := cpuTime() - begin
		v := decode(t, c[1])
		best := time.Hour
		var f *argFault
		for range 3 {
			begin = cpuTime()
			f = s.check(v, nil)
			best = min(best, cpuTime()-begin)
		}
		if best > most || load > time.Second+raceSlack {
			t.Errorf("%s: %s CPU, load %s (%v)", name, best, load, f)
		}
		t.Logf("%-26s check %s, load %s: %.90v", name, best, load, f)
	}
}

// Ordinary arguments are far from the bound.
func TestSchemaCheckTakesLargeArguments(t *testing.T) {
	item := `{"id":12345,"name":"a name of ordinary length","tags":["a","b"],"at":1.5}`
	rows := "[" + strings.TrimSuffix(strings.Repeat(item+",", 1400), ",") + "]" // 9,800 values
	mega := `"` + strings.Repeat("x", 1000_000) + `"`
	for _, c := range [][2]string{
		{`{"items":{"type":"object","properties":{"id":{"type":"integer","minimum":1,"maximum":99999999},"name":{"type":"string","minLength":1,"maxLength":200,"pattern":"^[a-z ]+$"},
		  "tags":{"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true},"at":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"}]}},"required":["id","name"],"additionalProperties":false}}`, rows},
		{`{"type":"string","minLength":1,"maxLength":2000000}`, mega},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, mega},
		{`{"type":"string","pattern":"^[a-z]"}`, `"` + strings.Repeat("x", 100_000) + `"`},
		{`{"type":"string","contentEncoding":"base64"}`, `{"$sbx":"bytes","v":"` + strings.Repeat("AAAA", 250_000) + `"}`},
	} {
		s, err := compileSchema(json.RawMessage(c[0]))
		if err != nil {
			t.Fatal(err)
		}
		if f := s.check(decode(t, c[1]), nil); f != nil {
			t.Errorf("%.80s: %v", c[0], f)
		}
	}
}

// A check ends with the run, and a costly one is a refusal.
func TestSchemaCheckEndsWithTheRun(t *testing.T) {
	c := costlyChecks()["branching recursion"]
	s, err := compileSchema(json.RawMessage(c[0]))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	close(stop)
	v := decode(t, c[1])
	full, cut := time.Hour, time.Hour
	for range 3 {
		begin := cpuTime()
		s.check(v, nil)
		full = min(full, cpuTime()-begin)
		begin = cpuTime()
		if f := s.check(v, stop); f == nil {
			t.Error("a stopped check fits")
		}
		cut = min(cut, cpuTime()-begin)
	}
	if cut > full/3 {
		t.Errorf("stopped after %s, whole in %s", cut, full)
	}
	heavy := echoTool()
	heavy.Name, heavy.InputSchema = "heavy", json.RawMessage(c[0])
	r := newRig(t, Config{MaxCalls: 10, Limits: Limits{Flood: 10}}, heavy, echoTool())
	for i := range 9 {
		if got := r.ask(seq(i), `{"tool":"heavy","args":`+strings.Repeat(`{"n":`, 50)+`{}`+strings.Repeat(`}`, 50)+`}`); got.Code != InvalidArgs || !strings.Contains(got.Error, "costly") {
			t.Fatalf("got %+v", got)
		}
	}
	r.works("between")
	r.put("last", `{"tool":"heavy","args":`+strings.Repeat(`{"n":`, 50)+`{}`+strings.Repeat(`}`, 50)+`}`)
	<-r.flooded
	begin := time.Now()
	r.srv.Close()
	if took := time.Since(begin); took > 100*time.Millisecond+raceSlack {
		t.Errorf("Close took %s", took)
	}
}

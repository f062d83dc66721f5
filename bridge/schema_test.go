package bridge

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func decode(t testing.TB, s string) any {
	t.Helper()
	v, err := newStrictJSON([]byte(s), 200, 1<<20, true).document()
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

// Each row: schema, then values that fit ("+") and that do not ("-path").
func TestSchemaCheck(t *testing.T) {
	for _, c := range [][]string{
		{`{}`, "+", `1`, "+", `null`},
		{`{"type":"integer"}`, "+", `1`, "+", `1.0`, "+", `1e2`, "+", `123456789012345678901234567890`, "-", `1.5`, "-", `"1"`, "-", `1e-999999999`, "-", `true`},
		{`{"type":["string","null"]}`, "+", `"a"`, "+", `null`, "-", `1`},
		{`{"type":"number"}`, "+", `1`, "+", `1e999999999`, "+", `{"$sbx":"float","v":"nan"}`, "-", `{"$sbx":"float","v":"x"}`, "-", `{"$sbx":"bytes","v":""}`},
		{`{"type":"number","minimum":0}`, "+", `0`, "-", `-1e999999999`, "-", `{"$sbx":"float","v":"nan"}`, "+", `1e400`, "+", `1e-400`},
		{`{"maximum":9007199254740992}`, "+", `9007199254740992`, "-", `9007199254740993`, "+", `"x"`},
		{`{"exclusiveMinimum":1,"exclusiveMaximum":2}`, "+", `1.5`, "-", `1`, "-", `2`},
		{`{"multipleOf":0.1}`, "+", `0.3`, "-", `0.35`},
		{`{"enum":["a",1,null,{"x":[1]}]}`, "+", `"a"`, "+", `1.0`, "+", `null`, "+", `{"x":[1]}`, "-", `"b"`},
		{`{"const":{"a":1,"b":2}}`, "+", `{"b":2,"a":1.0}`, "-", `{"a":1}`},
		{`{"minLength":2,"maxLength":3}`, "+", `"ab"`, "+", `"\ud800\ud800"`, "-", `"a"`, "-", `"abcd"`, "+", `"😀😀😀"`},
		{`{"pattern":"^a+$"}`, "+", `"aa"`, "-", `"b"`, "+", `5`},
		{`{"type":"string","contentEncoding":"base64"}`, "+", `{"$sbx":"bytes","v":"AA=="}`, "+", `"AA=="`},
		{`{"type":"string"}`, "-", `{"$sbx":"bytes","v":"AA=="}`},
		{`{"type":"object"}`, "-", `{"$sbx":"float","v":"nan"}`, "+", `{"$sbx":"float","v":"nan","w":1}`},
		{`{"items":{"type":"string"},"minItems":1,"maxItems":2}`, "+", `["a"]`, "-", `[]`, "-", `["a","b","c"]`, "-[1]", `["a",1]`},
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, "+", `["a",1]`, "-[0]", `[1]`, "-[1]", `["a","b"]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, "+", `["a"]`, "-[1]", `["a",1]`},
		{`{"uniqueItems":true}`, "+", `[1,2,"1"]`, "-", `[1,1.0]`, "-", `[{"a":1,"b":2},{"b":2,"a":1}]`},
		{`{"contains":{"type":"integer"},"maxContains":2}`, "+", `["a",1]`, "-", `["a"]`, "-", `[1,2,3]`},
		{`{"required":["a"],"properties":{"a":{"type":"object","properties":{"b c":{"type":"array","items":{"type":"integer"}}}}}}`,
			"+", `{"a":{}}`, "-a", `{}`, `-a["b c"][1]`, `{"a":{"b c":[1,"x"]}}`},
		{`{"properties":{"a":{}},"additionalProperties":false}`, "+", `{"a":1}`, "-b", `{"b":1}`},
		{`{"properties":{"a":{}},"patternProperties":{"^x":{"type":"string"}},"additionalProperties":{"type":"integer"}}`, "+", `{"a":null,"x1":"s","z":1}`, "-x1", `{"x1":1}`, "-z", `{"z":"s"}`},
		{`{"propertyNames":{"maxLength":2},"minProperties":1,"maxProperties":2}`, "+", `{"ab":1}`, "-abc", `{"abc":1}`, "-", `{}`, "-", `{"a":1,"b":1,"c":1}`},
		{`{"dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"required":["d"]}}}`, "+", `{"a":1,"b":1}`, "-b", `{"a":1}`, "-d", `{"c":1}`},
		{`{"allOf":[{"required":["a"]},{"required":["b"]}]}`, "+", `{"a":1,"b":1}`, "-b", `{"a":1}`},
		{`{"anyOf":[{"type":"string"},{"properties":{"a":{"type":"integer"}},"type":"object"}]}`, "+", `"x"`, "+", `{"a":1}`, "-a", `{"a":"x"}`, "-", `5`},
		{`{"oneOf":[{"type":"integer"},{"minimum":5}]}`, "+", `1`, "+", `5.5`, "-", `6`},
		{`{"not":{"type":"string"}}`, "+", `1`, "-", `"a"`},
		{`{"if":{"type":"string"},"then":{"minLength":2},"else":{"type":"integer"}}`, "+", `"ab"`, "-", `"a"`, "+", `1`, "-", `null`},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`, "+", `{"next":{"next":{}}}`, "-next.next", `{"next":{"next":1}}`},
		{`{"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"string"}}}`, "+", `"x"`, "-", `1`},
		{`{"properties":{"a":{"$ref":"#/properties/b/items"},"b":{"items":{"type":"string"}}}}`, "+", `{"a":"x"}`, "-a", `{"a":1}`},
		{`{"properties":{"a":false}}`, "+", `{}`, "-a", `{"a":1}`},
		// Left to the library: it names no place.
		{`{"properties":{"a":{"$ref":"#x"},"z":{"$anchor":"x","type":"integer"}}}`, "+", `{"a":1}`, "-", `{"a":"x"}`},
		{`{"properties":{"a":{"type":"number"}},"unevaluatedProperties":false}`, "+", `{"a":1.5}`, "-", `{"b":1}`},
		{`{"anyOf":[{"type":"string"},{"$ref":"#/anyOf/0"}]}`, "+", `"a"`, "-", `1`},
	} {
		s, err := compileSchema(json.RawMessage(c[0]))
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		for i := 1; i < len(c); i += 2 {
			f := s.check(decode(t, c[i+1]))
			want, bad := strings.CutPrefix(c[i], "-")
			if (f != nil) != bad || bad && f.path != want {
				t.Errorf("%s: %s: got %+v, want %s", c[0], c[i+1], f, c[i])
			}
			if s.fallback != nil {
				continue
			}
			// The library agrees wherever it can take part: it knows no tags, and
			// numbers only as machine numbers.
			lib, err := compileLibrary(c[0])
			if err != nil {
				t.Fatal(err)
			}
			if v := c[i+1]; !strings.Contains(v, "$sbx") && !strings.ContainsAny(v, "e") && !strings.Contains(v, "ud800") && len(v) < 16 && !strings.Contains(c[0], "multipleOf") {
				if err := lib.Validate(plainNumbers(decode(t, v))); (err != nil) != bad {
					t.Errorf("%s: %s: the library says %v", c[0], v, err)
				}
			}
		}
	}
}

// A schema that branches and recurses costs a bounded time at any depth.
func TestSchemaCheckIsBounded(t *testing.T) {
	s, err := compileSchema(json.RawMessage(`{"type":"object","properties":{"n":{"anyOf":[{"allOf":[{"$ref":"#"},{"required":["x"]}]},{"allOf":[{"$ref":"#"},{"required":["y"]}]}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	f := s.check(decode(t, strings.Repeat(`{"n":`, 60)+`{}`+strings.Repeat(`}`, 60)))
	if f == nil || !strings.Contains(f.text, "costly") || time.Since(begin) > 2*time.Second+raceSlack {
		t.Errorf("%v after %s", f, time.Since(begin))
	}
	loop, err := compileSchema(json.RawMessage(`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if f := loop.check(decode(t, `{}`)); f == nil {
		t.Error("a circular reference fits")
	}
	num, err := compileSchema(json.RawMessage(`{"items":{"type":"integer","maximum":5,"enum":[1]},"uniqueItems":true}`))
	if err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	num.check(decode(t, "["+strings.Repeat("1e999999999,", 9000)+"1e-999999999]"))
	num.check(decode(t, "["+strings.Repeat(strings.Repeat("9", 4000)+",", 200)+"1]"))
	if took := time.Since(begin); took > time.Second+raceSlack {
		t.Errorf("numbers took %s", took)
	}
}

package bridge

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequestID(t *testing.T) {
	for name, want := range map[string]string{
		"req_a.json": "a", "req_" + strings.Repeat("Z", 64) + ".json": strings.Repeat("Z", 64), "req_-_9.json": "-_9",
		"req_.json": "", "req_a.json\n": "", "req_a\x00.json": "", "req_a.b.json": "", "req_" + strings.Repeat("a", 65) + ".json": "",
		"req_é.json": "", "rep_a.json": "", "": "", "req_": "", ".json": "", "req_.jso": "",
	} {
		if got, ok := requestID(name); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v", name, got, ok)
		}
	}
}

func TestStrictJSONValues(t *testing.T) {
	raw := []byte(` {"a":[1,-0.5e+3,true,false,null,{}],"\u0061b":"x\n\u00e9\ud83d\ude00\ud800","c":""} `)
	p := newStrictJSON(raw, 10, 100, true)
	v, err := p.document()
	if err != nil || !p.lone {
		t.Fatal(err, p.lone)
	}
	want := map[string]any{
		"a":  []any{json.Number("1"), json.Number("-0.5e+3"), true, false, nil, map[string]any{}},
		"ab": "x\né😀\xed\xa0\x80", "c": "",
	}
	if d := cmp.Diff(want, v); d != "" {
		t.Error(d)
	}
	if err := checkJSON([]byte(`{"\ud800":1,"\ud801":2}`), 9, 9); err != nil {
		t.Errorf("two different lone surrogates are two keys: %v", err)
	}
	for _, bad := range []string{
		``, ` `, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `[1,]`, `[`, `[1`, `tru`, `nul`, `01`, `-`, `1.`, `.5`, `1e`, `+1`, `NaN`, `Infinity`,
		`"`, `"\`, `"\u`, `"\u12"`, `"\u12G4"`, `"\x"`, "\"\n\"", "\"\x80\"", "\"a\\n\x80\"", "\"\xed\xa0\x80\"", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{a:1}`, `{'a':1}`,
		`1 2`, `{}x`, `[1 2]`, `{"a" 1}`, `{,}`, "\ufeff{}", `// c`, strings.Repeat("[", 10), strings.Repeat("1", maxNumberDigits+1),
	} {
		if err := checkJSON([]byte(bad), 9, 1000); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}

func FuzzStrictJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"\ud800\u00e9",null,true]}`, `[[[[]]]]`, `"x`, `{"a":1,"a":2}`, "\"\xff\"", `-0`, `1e999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := newStrictJSON(raw, DefaultDepth, DefaultNodes, true)
		v, err := p.document()
		if kept := checkJSON(raw, DefaultDepth, DefaultNodes); (kept == nil) != (err == nil) {
			t.Fatalf("with and without building differ: %v, %v", err, kept)
		}
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q is not JSON for the standard library", raw)
		}
		if p.lone {
			return // the standard library replaces these
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, v); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzRequestName(f *testing.F) {
	for _, s := range []string{"req_a.json", "req_.json", "req_a\n.json", "req_\xff.json", "result.json"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		id, ok := requestID(name)
		if ok && ("req_"+id+".json" != name || strings.ContainsAny(id, "./\x00\n") || len(id) > 64 || len(id) == 0) {
			t.Fatalf("%q gives %q", name, id)
		}
	})
}

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"tool":"echo","args":{"a":[1]},"timeout_ms":5,"bell":3}`, `{"tool":"x","args":{}}`, `[]`, `5`, `null`, `{"tool":1}`,
		`{"tool":"a","tool":"b"}`, `{"Tool":"a"}`, `{"tool":"a","args":{"$sbx":"float","v":"nan"}}`, `{"tool":"a"} x`,
	} {
		f.Add([]byte(s))
	}
	lim := Limits{}.withDefaults()
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parseRequest(raw, lim)
		if r.bell < -1 || r.bell >= maxSlots || r.timeout < 0 {
			t.Fatalf("%+v", r)
		}
		if err == nil && (!json.Valid(r.args) || r.args[0] != '{') {
			t.Fatalf("args %q", r.args)
		}
		if err != nil {
			if body := refuse(BadRequest, err.Error()).body("x"); !json.Valid(body) {
				t.Fatalf("reply %q", body)
			}
		}
	})
}

func FuzzToolsFile(f *testing.F) {
	for _, s := range []string{
		`{"tools":[{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"x":{"$ref":"#"}}},"command":["cat"],"timeout":"1s","maxCalls":1,"concurrency":1,"env":{"A":"b"}}]}`,
		`{"tools":[]}`, `{}`, `{"tools":[{"name":"a"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tools, err := parseTools(raw, "/")
		if err != nil {
			return
		}
		set, err := NewSet(tools)
		if err == nil && !json.Valid(set.JSON()) {
			t.Fatalf("tools.json %q", set.JSON())
		}
	})
}

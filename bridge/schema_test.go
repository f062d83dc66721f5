package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
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
		{`{"type":"object"}`, "+", `{"$sbx":"float","v":"nan"}`, "+", `{"$sbx":"float","v":"nan","w":1}`},
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
		{`{"anyOf":[{"type":"string"},{"$ref":"#/anyOf/0"}]}`, "+", `"a"`, "-", `1`},
		{`{"$ref":"#/allOf/1/properties/x%20y","allOf":[true,{"properties":{"x y":{"type":"string"}}}]}`, "+", `"a"`, "-", `1`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"},{"$ref":"#/items/0"}]}`, "+", `["a","b"]`, "-[1]", `["a",1]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#/definitions/s","maxLength":1}},"definitions":{"s":{"type":"string"}}}`, "+", `{"a":"xx"}`, "-a", `{"a":1}`},
		{`{"properties":{"a":{"$ref":"#/$defs/s","maxLength":1}},"$defs":{"s":{"type":"string"}}}`, "+", `{"a":"x"}`, "-a", `{"a":"xx"}`},
		{`{"enum":[1,2],"const":2}`, "+", `2`, "-", `1`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"c":{"required":["d"]}}}`, "+", `{"a":1,"b":1}`, "-b", `{"a":1}`, "-d", `{"c":1}`},
	} {
		s, err := compileSchema(json.RawMessage(c[0]))
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		for i := 1; i < len(c); i += 2 {
			f := s.check(decode(t, c[i+1]), nil)
			want, bad := strings.CutPrefix(c[i], "-")
			if (f != nil) != bad || bad && f.at.String() != want {
				t.Errorf("%s: %s: got %+v, want %s", c[0], c[i+1], f, c[i])
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

// Numbers keep the value that their text has, in the schema as in the arguments.
func TestSchemaNumbersAreExact(t *testing.T) {
	for _, c := range [][]string{
		{`{"enum":[9007199254740993]}`, "+", `9007199254740993`, "-", `9007199254740992`, "+", `9007199254740993.0`},
		{`{"const":0.1}`, "+", `0.1`, "+", `1e-1`, "-", `0.1000000000000000055`},
		{`{"minimum":9007199254740993}`, "-", `9007199254740992`, "+", `9007199254740993`},
		{`{"maximum":9223372036854775807}`, "+", `9223372036854775807`, "-", `9223372036854775808`},
		{`{"exclusiveMinimum":0.3}`, "-", `0.3`, "-", `0.29999999999999999`, "+", `0.30000000000000000001`},
		{`{"exclusiveMaximum":-1e400}`, "-", `-1e400`, "+", `-1.1e400`},
		{`{"maximum":1e999999999999999999999}`, "+", `1e99999999`},
		{`{"multipleOf":0.01}`, "+", `19.99`, "-", `19.999`, "+", `1e999999999`, "-", `1e-999999999`, "+", `0`, "+", `-0.05`},
		{`{"multipleOf":7}`, "+", `7e99`, "+", `123456789012345678901234567890`, "-", `123456789012345678901234567891`, "-", `1e50`},
		{`{"multipleOf":3e2}`, "+", `900`, "-", `90`},
		{`{"enum":[0]}`, "+", `-0`, "+", `0.0e5`, "-", `1e-9`},
		{`{"minLength":3.0}`, "+", `"abc"`, "-", `"ab"`},
		{`{"maxItems":99999999999999999999}`, "+", `[1]`},
	} {
		checkRows(t, c)
	}
}

// checkRows checks a schema against values, written as in TestSchemaCheck.
func checkRows(t *testing.T, c []string) {
	t.Helper()
	s, err := compileSchema(json.RawMessage(c[0]))
	if err != nil {
		t.Errorf("%s: %v", c[0], err)
		return
	}
	for i := 1; i < len(c); i += 2 {
		f := s.check(decode(t, c[i+1]), nil)
		want, bad := strings.CutPrefix(c[i], "-")
		if (f != nil) != bad || bad && f.at.String() != want {
			t.Errorf("%s: %.80s: got %+v, want %s", c[0], c[i+1], f, c[i])
		}
	}
}

// A tagged value counts as a number or as bytes only where the schema says so.
func TestTagsDoNotEvadeSchemas(t *testing.T) {
	const nan, bytes, long = `{"$sbx":"float","v":"nan"}`, `{"$sbx":"bytes","v":"AA=="}`, `{"$sbx":"bytes","v":"AAAAAAAA"}`
	for _, c := range [][]string{
		{`{"type":"object","required":["id"]}`, "-id", nan, "-id", bytes},
		{`{"required":["id"]}`, "-id", nan, "-id", bytes},
		{`{"properties":{"v":{"type":"integer"}},"additionalProperties":false}`, "-$sbx]", nan},
		{`{"additionalProperties":{"type":"integer"}}`, `-["$sbx"]`, nan, `-["$sbx"]`, bytes},
		{`{"maxProperties":1}`, "-", nan, "-", bytes},
		{`{"type":"number"}`, "+", nan, "-", bytes},
		{`{"type":"integer"}`, "-", nan},
		{`{"type":"number","enum":[1]}`, "-", nan},
		{`{"type":"string"}`, "-", nan, "-", bytes},
		{`{"type":"string","contentEncoding":"base64"}`, "+", bytes, "-", `{"$sbx":"bytes","v":"A"}`, "-", `{"$sbx":"bytes","v":"!!!!"}`, "-", `{"$sbx":"bytes","v":"AAAA\n"}`, "-", `{"$sbx":"bytes","v":"AB=="}`},
		{`{"type":"string","contentEncoding":"base64","maxLength":4}`, "+", bytes, "-", long},
		{`{"type":"string","contentEncoding":"base64","minLength":5}`, "-", bytes, "+", long},
		{`{"type":"string","contentEncoding":"base64","pattern":"^A+$"}`, "-", bytes, "+", long},
		{`{"type":"string","contentEncoding":"base64","enum":["AA=="]}`, "-", bytes, "+", `"AA=="`},
		{`{"type":"object","properties":{"$sbx":{"const":"float"},"v":{}},"additionalProperties":false}`, "+", nan},
	} {
		for i := range c {
			c[i] = strings.Replace(c[i], `-$sbx]`, `-["$sbx"]`, 1)
		}
		checkRows(t, c)
	}
}

// What the checker cannot check is refused when the tools are loaded, by the
// names of tool and keyword.
func TestSchemaRefusals(t *testing.T) {
	nest := func(s string) string {
		return `{"type":"object","properties":{"deep":{"anyOf":[{"items":` + s + `}]}}}`
	}
	for in, want := range map[string]string{
		nest(`{"unevaluatedProperties":false}`):       "unevaluatedProperties",
		nest(`{"unevaluatedItems":false}`):            "unevaluatedItems",
		nest(`{"$dynamicRef":"#x"}`):                  "$dynamicRef",
		nest(`{"$dynamicAnchor":"x"}`):                "$dynamicAnchor",
		nest(`{"$recursiveRef":"#"}`):                 "$recursiveRef",
		nest(`{"$anchor":"x"}`):                       "$anchor",
		nest(`{"$id":"https://x.test/a"}`):            "$id",
		nest(`{"$vocabulary":{}}`):                    "$vocabulary",
		nest(`{"$ref":"https://x.test/a"}`):           "$ref",
		nest(`{"$ref":"#name"}`):                      "anchors",
		nest(`{"$ref":"#/properties/nope"}`):          "leads nowhere",
		nest(`{"$ref":"#/properties/deep/anyOf/1"}`):  "leads nowhere",
		nest(`{"$ref":"#/properties/deep/anyOf/00"}`): "leads nowhere",
		nest(`{"items":[{}]}`):                        "prefixItems",
		nest(`{"additionalItems":false}`):             "additionalItems",
		nest(`{"Items":{}}`):                          `"Items" (did you mean items?)`,
		nest(`{"maxlength":1}`):                       `did you mean maxLength?`,
		nest(`{"additionalproperties":false}`):        `did you mean additionalProperties?`,
		nest(`{"pattern":"(?=x)"}`):                   "RE2",
		nest(`{"pattern":"(a{1000}){6}"}`):            "pattern",
		nest(`{"patternProperties":{"(":{}}}`):        "patternProperties",
		nest(`{"multipleOf":0}`):                      "multipleOf",
		nest(`{"multipleOf":1.0000000000000000001}`):  "multipleOf",
		nest(`{"minimum":"1"}`):                       "minimum",
		nest(`{"minLength":-1}`):                      "minLength",
		nest(`{"type":"text"}`):                       "no type",
		nest(`{"type":[]}`):                           "type",
		nest(`{"enum":1}`):                            "enum",
		nest(`{"required":"a"}`):                      "required",
		nest(`{"anyOf":[]}`):                          "anyOf",
		nest(`5`):                                     "items",
		`{"type":"object","$ref":"#"}`:                "refers to itself",
		`{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#"}]}}}`:                                                                   "refers to itself",
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"deep":{"prefixItems":[{}]}}}`:                                          "prefixItems",
		`{"type":"object","properties":{"deep":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"a{900}b{900}c{900}d{900}e{900}x"},`, 12), ",") + `]}}}`: "",
	} {
		_, err := NewSet([]Tool{{Name: "odd", InputSchema: json.RawMessage(in), Handler: echoTool().Handler}})
		if want == "" {
			if err != nil { // one pattern many times is compiled once
				t.Errorf("%.90s: %v", in, err)
			}
			continue
		}
		if !errdef.Is(err, errdef.Invalid) || !strings.Contains(err.Error(), `"odd"`) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90s: got %v, want %s", in, err, want)
		}
	}
	many := `{"type":"object","anyOf":[{}`
	for i := range 12 {
		many += fmt.Sprintf(`,{"pattern":"%da{900}b{900}c{900}d{900}e{900}"}`, i)
	}
	if _, err := compileSchema(json.RawMessage(many + `]}`)); err == nil || !strings.Contains(err.Error(), "together") {
		t.Errorf("many patterns: %v", err)
	}
	// A recursion that goes into the value is fine, and so is an inner word of the
	// same name that is no keyword.
	for _, in := range []string{nest(`{"$ref":"#"}`), nest(`{"properties":{"$anchor":{},"Items":{},"$id":{}}}`), nest(`{"x-note":1,"format":"date"}`)} {
		if _, err := compileSchema(json.RawMessage(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}

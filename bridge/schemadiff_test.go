package bridge

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// randomSchema makes a schema of the keywords in which the library and we should
// agree, and randomValue a value that has a chance to fit.
func randomSchema(r *rand.Rand, depth int) any {
	if depth == 0 || r.IntN(12) == 0 {
		return r.IntN(5) > 0
	}
	sub := func() any { return randomSchema(r, depth-1) }
	subs := func() []any { return []any{sub(), sub()} }
	names := []string{"a", "b", "c"}
	m := map[string]any{}
	for range 1 + r.IntN(3) {
		switch r.IntN(22) {
		case 0, 1:
			m["type"] = []any{"null", "boolean", "integer", "number", "string", "array", "object"}[r.IntN(7)]
		case 2:
			m["enum"] = []any{randomValue(r, 2), randomValue(r, 1), "a", 1}
		case 3:
			m["const"] = randomValue(r, 1)
		case 4:
			m["minimum"] = r.IntN(4)
		case 5:
			m["exclusiveMaximum"] = r.IntN(4)
		case 6:
			m["multipleOf"] = 1 + r.IntN(3)
		case 7:
			m["minLength"], m["maxLength"] = r.IntN(2), r.IntN(3)
		case 8:
			m["pattern"] = []string{"^a", "b$", "", "[^c]"}[r.IntN(4)]
		case 9:
			m["items"] = sub()
		case 10:
			m["prefixItems"] = subs()
		case 11:
			m["contains"], m["minContains"], m["maxContains"] = sub(), r.IntN(2), r.IntN(3)
		case 12:
			m["uniqueItems"] = true
		case 13:
			m["minItems"], m["maxItems"] = r.IntN(2), r.IntN(4)
		case 14, 15:
			m["properties"] = map[string]any{names[r.IntN(3)]: sub(), names[r.IntN(3)]: sub()}
		case 16:
			m["additionalProperties"] = sub()
		case 17:
			m["patternProperties"] = map[string]any{"^[ab]": sub()}
			m["propertyNames"] = sub()
		case 18:
			m["required"] = []any{names[r.IntN(3)]}
			m["maxProperties"] = 1 + r.IntN(2)
		case 19:
			m[[]string{"allOf", "anyOf", "oneOf"}[r.IntN(3)]] = subs()
		case 20:
			m["if"], m["then"], m["else"] = sub(), sub(), sub()
			m["not"] = sub()
		case 21:
			m["dependentRequired"] = map[string]any{names[r.IntN(3)]: []any{names[r.IntN(3)]}}
			m["dependentSchemas"] = map[string]any{names[r.IntN(3)]: sub()}
		}
	}
	return m
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(9); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n <= 3:
		return r.IntN(5) - 1
	case n == 4:
		return float64(r.IntN(9)) / 2
	case n <= 6 || depth == 0:
		return []string{"", "a", "b", "ab", "cc"}[r.IntN(5)]
	case n == 7:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	default:
		m := map[string]any{}
		for range r.IntN(4) {
			m[[]string{"a", "b", "c"}[r.IntN(3)]] = randomValue(r, depth-1)
		}
		return m
	}
}

// Our check and the library's say the same of schemas and values by chance.
func TestSchemaCheckAgreesWithTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fits, checks := 0, 0
	for range 6000 {
		text, err := json.Marshal(randomSchema(r, 3))
		if err != nil {
			t.Fatal(err)
		}
		lib, err := compileLibrary(string(text))
		if err != nil {
			continue
		}
		own, err := compileSchema(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for range 8 {
			raw, err := json.Marshal(randomValue(r, 2))
			if err != nil {
				t.Fatal(err)
			}
			v := decode(t, string(raw))
			f, want := own.check(v, nil), lib.Validate(plainNumbers(v))
			if (f == nil) != (want == nil) {
				t.Errorf("%s\n of %s: %v, the library: %v", text, raw, f, want)
			}
			checks++
			if f == nil {
				fits++
			}
		}
	}
	if fits < checks/10 || fits > checks*9/10 {
		t.Errorf("%d of %d fit: the test says little", fits, checks)
	}
	t.Logf("%d of %d fit", fits, checks)
}

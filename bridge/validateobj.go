package bridge

import (
	"encoding/json"
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxExactNumber bounds the digits and the exponent of numbers that are compared
// exactly. Beyond it a number is outside of what any schema can bound (float64
// ends at 308 digits) and arithmetic on it would be slow.
const maxExactNumber = 400

func (c *checker) objectRules(n *jsonschema.Schema, v map[string]any, path string) *argFault {
	for _, name := range n.Required {
		if _, ok := v[name]; !ok {
			return fault(member(path, name), "is missing")
		}
	}
	if n.MinProperties != nil && len(v) < *n.MinProperties {
		return fault(path, "has %d members, fewer than %d", len(v), *n.MinProperties)
	}
	if n.MaxProperties != nil && len(v) > *n.MaxProperties {
		return fault(path, "has %d members, more than %d", len(v), *n.MaxProperties)
	}
	for _, key := range sortedKeys(v) {
		if f := c.memberRules(n, key, v[key], path); f != nil {
			return f
		}
	}
	return c.dependencies(n, v, path)
}

func (c *checker) memberRules(n *jsonschema.Schema, key string, v any, path string) *argFault {
	at := member(path, key)
	if f := c.visit(n.PropertyNames, key, at); f != nil {
		return f
	}
	sub, known := n.Properties[key]
	if known {
		if f := c.visit(sub, v, at); f != nil {
			return f
		}
	}
	for pat, sub := range n.PatternProperties {
		if c.s.patterns[pat] == nil || c.s.patterns[pat].MatchString(key) { // "" matches all
			known = true
			if f := c.visit(sub, v, at); f != nil {
				return f
			}
		}
	}
	if known || n.AdditionalProperties == nil {
		return nil
	}
	if f := c.visit(n.AdditionalProperties, v, at); f != nil {
		if never(n.AdditionalProperties) {
			return fault(at, "is not an argument of this tool")
		}
		return f
	}
	return nil
}

// never reports whether a schema is `false`.
func never(n *jsonschema.Schema) bool {
	return n.Not != nil && n.Type == "" && n.Properties == nil && n.Not.Type == "" && n.Not.Types == nil
}

func (c *checker) dependencies(n *jsonschema.Schema, v map[string]any, path string) *argFault {
	for _, group := range []map[string][]string{n.DependentRequired, n.DependencyStrings} {
		for key, wanted := range group {
			if _, ok := v[key]; !ok {
				continue
			}
			for _, name := range wanted {
				if _, ok := v[name]; !ok {
					return fault(member(path, name), "is missing, %s needs it", quote(key))
				}
			}
		}
	}
	for _, group := range []map[string]*jsonschema.Schema{n.DependentSchemas, n.DependencySchemas} {
		for key, sub := range group {
			if _, ok := v[key]; ok {
				if f := c.visit(sub, v, path); f != nil {
					return f
				}
			}
		}
	}
	return nil
}

// member appends a key to a path. Keys that are no plain words are quoted.
func member(path, key string) string {
	plain := key != "" && len(key) <= maxToolName
	for i := 0; i < len(key) && plain; i++ {
		plain = alphanumeric(key[i]) || key[i] == '_' || key[i] == '-'
	}
	if !plain {
		return path + "[" + quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	if len(keys) > 1 {
		sort.Strings(keys)
	}
	return keys
}

// exact returns the number as a fraction, nil if it is too large for that.
func exact(n json.Number) *big.Rat {
	text := string(n)
	if len(text) > maxExactNumber {
		return nil
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.Atoi(text[i+1:])
		if err != nil || e > maxExactNumber || e < -maxExactNumber {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

func isInteger(n json.Number) bool {
	if !strings.ContainsAny(string(n), ".eE") {
		return true
	}
	r := exact(n)
	return r != nil && r.IsInt()
}

// numberRules checks the bounds. A number beyond exact arithmetic counts as an
// infinity of its sign, or as zero where its exponent is negative.
func numberRules(n *jsonschema.Schema, v json.Number, path string) *argFault {
	if n.Minimum == nil && n.Maximum == nil && n.ExclusiveMinimum == nil && n.ExclusiveMaximum == nil && n.MultipleOf == nil {
		return nil
	}
	r := exact(v)
	f := 0.0
	if r == nil {
		f, _ = v.Float64()
	}
	cmp := func(bound float64) int {
		b := new(big.Rat).SetFloat64(bound)
		switch {
		case r != nil && b != nil:
			return r.Cmp(b)
		case f < bound || math.IsInf(f, -1):
			return -1
		case f > bound || math.IsInf(f, 1):
			return 1
		}
		return 0
	}
	num := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	switch {
	case n.Minimum != nil && cmp(*n.Minimum) < 0:
		return fault(path, "is less than %s", num(*n.Minimum))
	case n.Maximum != nil && cmp(*n.Maximum) > 0:
		return fault(path, "is more than %s", num(*n.Maximum))
	case n.ExclusiveMinimum != nil && cmp(*n.ExclusiveMinimum) <= 0:
		return fault(path, "is not more than %s", num(*n.ExclusiveMinimum))
	case n.ExclusiveMaximum != nil && cmp(*n.ExclusiveMaximum) >= 0:
		return fault(path, "is not less than %s", num(*n.ExclusiveMaximum))
	case n.MultipleOf != nil && *n.MultipleOf != 0:
		// The schema's number is the decimal that its author wrote: 0.1 means 0.1.
		m, ok := new(big.Rat).SetString(num(*n.MultipleOf))
		if r == nil || !ok || !new(big.Rat).Quo(r, m).IsInt() {
			return fault(path, "is not a multiple of %s", num(*n.MultipleOf))
		}
	}
	return nil
}

// canonical returns a text that is equal for equal JSON values: numbers by
// value, objects whatever the order of their keys.
func canonical(v any) string {
	var b strings.Builder
	writeCanonical(&b, v)
	return b.String()
}

func writeCanonical(b *strings.Builder, v any) {
	switch v := v.(type) {
	case json.Number:
		if r := exact(v); r != nil {
			b.WriteString(r.RatString())
		} else {
			b.WriteString(string(v))
		}
	case float64:
		writeCanonical(b, json.Number(strconv.FormatFloat(v, 'g', -1, 64)))
	case string:
		b.WriteString(strconv.Quote(v))
	case []any:
		b.WriteByte('[')
		for _, e := range v {
			writeCanonical(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for _, k := range sortedKeys(v) {
			b.WriteString(strconv.Quote(k) + ":")
			writeCanonical(b, v[k])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case bool:
		b.WriteString(strconv.FormatBool(v))
	default:
		b.WriteString("null")
	}
}

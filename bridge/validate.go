package bridge

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// validateSteps bounds the work of one check, in visited pairs of schema and
// value: 20 for each value that a request may hold.
const validateSteps = 20 * DefaultNodes

// argFault says which argument breaks the schema, and how.
type argFault struct {
	path string // such as "address.lines[2]", "" for the whole
	text string
}

func (f *argFault) Error() string {
	if f.path == "" {
		return f.text
	}
	return f.path + ": " + f.text
}

// check reports how a value, decoded by strictJSON, breaks the schema; nil if
// it does not.
func (s *schema) check(v any) *argFault {
	if s.fallback != nil {
		if err := s.fallback.Validate(plainNumbers(v)); err != nil {
			return &argFault{text: firstLine(err.Error())}
		}
		return nil
	}
	c := checker{s: s, steps: validateSteps}
	f := c.visit(s.root, v, "")
	if c.steps < 0 {
		return &argFault{text: "too costly to check against the schema"}
	}
	return f
}

// plainNumbers turns numbers into what the library takes for numbers.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainNumbers(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plainNumbers(e)
		}
		return out
	default:
		return v
	}
}

type checker struct {
	s     *schema
	steps int
}

func fault(path, format string, args ...any) *argFault {
	return &argFault{path: path, text: fmt.Sprintf(format, args...)}
}

// visit checks one value against one schema.
func (c *checker) visit(n *jsonschema.Schema, v any, path string) *argFault {
	if n == nil {
		return nil
	}
	if c.steps--; c.steps < 0 {
		return fault(path, "too costly to check")
	}
	if n.Ref != "" {
		if f := c.visit(c.s.refs[n], v, path); f != nil || c.s.draft7 {
			return f
		}
	}
	if f := c.typeAndValue(n, v, path); f != nil {
		return f
	}
	if f := c.logic(n, v, path); f != nil {
		return f
	}
	switch v := v.(type) {
	case json.Number:
		return numberRules(n, v, path)
	case string:
		return c.stringRules(n, v, path)
	case []any:
		return c.arrayRules(n, v, path)
	case map[string]any:
		switch tagOf(v) {
		case tagFloat:
			if n.Minimum != nil || n.Maximum != nil || n.ExclusiveMinimum != nil || n.ExclusiveMaximum != nil || n.MultipleOf != nil {
				return fault(path, "not a finite number")
			}
			return nil
		case tagBytes:
			return nil
		}
		return c.objectRules(n, v, path)
	}
	return nil
}

const (
	tagFloat = "float"
	tagBytes = "bytes"
)

// tagOf returns the kind of a tagged value: NaN, the infinities and bytes travel
// as {"$sbx":KIND,"v":TEXT}.
func tagOf(m map[string]any) string {
	if len(m) != 2 {
		return ""
	}
	kind, _ := m["$sbx"].(string)
	if text, ok := m["v"].(string); ok && (kind == tagBytes ||
		kind == tagFloat && (text == "nan" || text == "inf" || text == "-inf")) {
		return kind
	}
	return ""
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if isInteger(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case map[string]any:
		switch tagOf(v) {
		case tagFloat:
			return "number"
		case tagBytes:
			return "bytes"
		}
		return "object"
	}
	return "unknown"
}

func (c *checker) typeAndValue(n *jsonschema.Schema, v any, path string) *argFault {
	want := n.Types
	if n.Type != "" {
		want = []string{n.Type}
	}
	if want != nil {
		got := typeOf(v)
		ok := slices.Contains(want, got) || got == "integer" && slices.Contains(want, "number") ||
			// Bytes fit where the schema asks for a string that encodes them.
			got == "bytes" && n.ContentEncoding == "base64" && slices.Contains(want, "string")
		if !ok {
			return fault(path, "is %s, must be %s", got, strings.Join(want, " or "))
		}
	}
	if n.Enum != nil && !slices.ContainsFunc(n.Enum, func(e any) bool { return canonical(e) == canonical(v) }) {
		return fault(path, "must be one of %s", brief(n.Enum))
	}
	if n.Const != nil && canonical(*n.Const) != canonical(v) {
		return fault(path, "must be %s", brief(*n.Const))
	}
	return nil
}

// brief prints a part of the schema.
func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "the schema's value"
	}
	return clip(string(b), maxErrorText/4)
}

func (c *checker) logic(n *jsonschema.Schema, v any, path string) *argFault {
	for _, sub := range n.AllOf {
		if f := c.visit(sub, v, path); f != nil {
			return f
		}
	}
	if n.AnyOf != nil {
		var first *argFault
		ok := false
		for _, sub := range n.AnyOf {
			f := c.visit(sub, v, path)
			if f == nil {
				ok = true
				break
			}
			if first == nil || len(f.path) > len(first.path) {
				first = f // the branch that got farthest says most
			}
		}
		if !ok {
			if first == nil {
				return fault(path, "fits none of the alternatives")
			}
			return fault(first.path, "fits none of the alternatives (%s)", first.text)
		}
	}
	if n.OneOf != nil {
		fits := 0
		for _, sub := range n.OneOf {
			if c.visit(sub, v, path) == nil {
				fits++
			}
		}
		if fits != 1 {
			return fault(path, "fits %d of the alternatives, must fit exactly one", fits)
		}
	}
	if n.Not != nil && c.visit(n.Not, v, path) == nil {
		return fault(path, "has a form that is excluded")
	}
	if n.If != nil {
		if c.visit(n.If, v, path) == nil {
			return c.visit(n.Then, v, path)
		}
		return c.visit(n.Else, v, path)
	}
	return nil
}

func (c *checker) stringRules(n *jsonschema.Schema, v, path string) *argFault {
	if n.MinLength != nil || n.MaxLength != nil {
		size := runes(v)
		if n.MinLength != nil && size < *n.MinLength {
			return fault(path, "has %d characters, fewer than %d", size, *n.MinLength)
		}
		if n.MaxLength != nil && size > *n.MaxLength {
			return fault(path, "has %d characters, more than %d", size, *n.MaxLength)
		}
	}
	if n.Pattern != "" && !c.s.patterns[n.Pattern].MatchString(v) {
		return fault(path, "does not match %s", quote(n.Pattern))
	}
	return nil
}

// runes counts characters; a preserved lone surrogate is one.
func runes(s string) int {
	n := 0
	for i := 0; i < len(s); n++ {
		_, size := utf8.DecodeRuneInString(s[i:])
		if size == 1 && s[i] == 0xed && i+3 <= len(s) {
			size = 3
		}
		i += size
	}
	return n
}

func (c *checker) arrayRules(n *jsonschema.Schema, v []any, path string) *argFault {
	if n.MinItems != nil && len(v) < *n.MinItems {
		return fault(path, "has %d items, fewer than %d", len(v), *n.MinItems)
	}
	if n.MaxItems != nil && len(v) > *n.MaxItems {
		return fault(path, "has %d items, more than %d", len(v), *n.MaxItems)
	}
	head, rest := n.PrefixItems, n.Items
	if c.s.draft7 {
		head = n.ItemsArray
		if head != nil {
			rest = n.AdditionalItems
		}
	}
	for i, e := range v {
		sub := rest
		if i < len(head) {
			sub = head[i]
		}
		if sub == nil {
			continue
		}
		if f := c.visit(sub, e, path+"["+strconv.Itoa(i)+"]"); f != nil {
			return f
		}
	}
	if n.Contains != nil {
		found, least, most := 0, 1, math.MaxInt
		for _, e := range v {
			if c.visit(n.Contains, e, path) == nil {
				found++
			}
		}
		if n.MinContains != nil {
			least = *n.MinContains
		}
		if n.MaxContains != nil {
			most = *n.MaxContains
		}
		if found < least || found > most {
			return fault(path, "contains %d of the wanted items", found)
		}
	}
	if n.UniqueItems {
		seen := make(map[string]struct{}, len(v))
		for i, e := range v {
			k := canonical(e)
			if _, dup := seen[k]; dup {
				return fault(path, "item %d is there twice", i)
			}
			seen[k] = struct{}{}
		}
	}
	return nil
}

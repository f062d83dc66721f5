package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxSchemaDepth and maxSchemaNodes bound a schema text. Schemas come from the
// operator or a tool server; the bounds only keep a broken one from being slow.
const (
	maxSchemaDepth = 128
	maxSchemaNodes = 100_000
	// maxSchemaPointer bounds the number of steps in a $ref.
	maxSchemaPointer = 128
)

// schema is a JSON Schema (draft-07 or 2020-12) made ready for checking.
//
// The library parses and resolves it, which also finds what is broken. Checking
// is our own for all common keywords: the library's cost is not bounded (a
// recursive anyOf takes exponential time in the depth that a hostile program
// chooses, 1e999999 takes milliseconds), it names no place in the arguments, and it
// takes numbers as text for strings. Schemas with rare keywords ($dynamicRef,
// $anchor, $id inside, unevaluated...) are left to the library.
type schema struct {
	root     *jsonschema.Schema
	refs     map[*jsonschema.Schema]*jsonschema.Schema
	patterns map[string]*regexp.Regexp
	draft7   bool
	fallback *jsonschema.Resolved // nil where our own check serves
}

// compileSchema parses a schema; its errors are for the operator.
func compileSchema(raw json.RawMessage) (*schema, error) {
	if err := checkJSON(raw, maxSchemaDepth, maxSchemaNodes); err != nil {
		return nil, err
	}
	root := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, root); err != nil {
		return nil, err
	}
	s := &schema{
		root:     root,
		refs:     map[*jsonschema.Schema]*jsonschema.Schema{},
		patterns: map[string]*regexp.Regexp{},
	}
	switch root.Schema { // the same spellings as the library's
	case "", "https://json-schema.org/draft/2020-12/schema":
	case "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#":
		s.draft7 = true
	default:
		return nil, fmt.Errorf("$schema %s is not supported (allowed: draft-07, 2020-12)", quote(root.Schema))
	}
	resolved, err := root.Resolve(nil)
	if err != nil {
		return nil, errors.New(firstLine(err.Error()))
	}
	own := true
	if err := s.walk(root, &own); err != nil {
		return nil, err
	}
	if !own {
		s.fallback = resolved
	}
	return s, nil
}

// walk prepares every subschema; own is cleared at a keyword that our own check
// does not know.
func (s *schema) walk(n *jsonschema.Schema, own *bool) error {
	if n == nil {
		return nil
	}
	if n.DynamicRef != "" || n.DynamicAnchor != "" || n.Anchor != "" || n.ID != "" && n != s.root ||
		n.UnevaluatedItems != nil || n.UnevaluatedProperties != nil || n.Vocabulary != nil {
		*own = false
	}
	for _, t := range append(slices.Clone(n.Types), n.Type) {
		switch t {
		case "", "null", "boolean", "integer", "number", "string", "array", "object":
		default:
			return fmt.Errorf("there is no type %s", quote(t))
		}
	}
	if n.Ref != "" {
		target := s.pointer(n.Ref)
		if target == nil {
			*own = false // the library resolved it by other means
		}
		s.refs[n] = target
	}
	for _, pat := range append(keysOf(n.PatternProperties), n.Pattern) {
		if pat == "" || s.patterns[pat] != nil {
			continue
		}
		re, err := regexp.Compile(pat)
		if err != nil {
			return fmt.Errorf("pattern %s: %w", quote(pat), err)
		}
		s.patterns[pat] = re
	}
	for _, sub := range subschemas(n) {
		if err := s.walk(sub, own); err != nil {
			return err
		}
	}
	return nil
}

func keysOf(m map[string]*jsonschema.Schema) []string {
	keys := make([]string, 0, len(m)+1)
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// subschemas lists the direct children of a schema.
func subschemas(n *jsonschema.Schema) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{
		n.Items, n.AdditionalItems, n.Contains, n.AdditionalProperties, n.PropertyNames,
		n.Not, n.If, n.Then, n.Else, n.ContentSchema,
	}
	for _, list := range [][]*jsonschema.Schema{n.PrefixItems, n.ItemsArray, n.AllOf, n.AnyOf, n.OneOf} {
		subs = append(subs, list...)
	}
	for _, m := range []map[string]*jsonschema.Schema{
		n.Defs, n.Definitions, n.Properties, n.PatternProperties, n.DependentSchemas, n.DependencySchemas,
	} {
		for _, sub := range m {
			subs = append(subs, sub)
		}
	}
	return subs
}

// pointer follows a local reference (#, #/a/b); nil if it is of another kind.
func (s *schema) pointer(ref string) *jsonschema.Schema {
	if ref == "#" || ref == "" {
		return s.root
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok || strings.Contains(path, "%") {
		return nil
	}
	steps := strings.Split(path, "/")
	if len(steps) > maxSchemaPointer {
		return nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	at := s.root
	for i := 0; i < len(steps) && at != nil; i++ {
		word := steps[i]
		var one *jsonschema.Schema
		switch word {
		case "items":
			one = at.Items
		case "additionalProperties":
			one = at.AdditionalProperties
		case "not":
			one = at.Not
		}
		if one != nil {
			at = one
			continue
		}
		group := map[string]map[string]*jsonschema.Schema{
			"$defs": at.Defs, "definitions": at.Definitions, "properties": at.Properties,
			"patternProperties": at.PatternProperties,
		}[word]
		if i++; group == nil || i >= len(steps) {
			return nil // an index into anyOf and the like: left to the library
		}
		at = group[unescape.Replace(steps[i])]
	}
	return at
}

// firstLine shortens a text to its first line.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return clip(s, maxErrorText)
}

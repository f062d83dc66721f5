package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// What bounds a schema text. Schemas come from the operator or a tool server;
// the bounds keep a broken or hostile one from being slow.
const (
	maxSchemaDepth = 128
	maxSchemaNodes = 100_000
	// maxSchemaPointer bounds the number of steps in a $ref.
	maxSchemaPointer = 128
	// maxPatternSize bounds one pattern's compiled program in instructions, and
	// maxPatternsSize those of a schema together. `x.{0,1000}` has 2,000.
	maxPatternSize  = 5_000
	maxPatternsSize = 50_000
)

// schema is a JSON Schema (draft-07 or 2020-12) made ready for checking. The
// whole check is our own, because a check must be bounded, exact in its numbers and
// name the place: there is no library behind it. A keyword that it does not
// check but that would restrict values is refused when the schema is loaded, so
// that no restriction is ever silently dropped.
//
// Two things differ from the standard. Patterns are RE2, Go's dialect: no
// look-around and no back-reference; a pattern that needs them is refused. And
// `format` and contentEncoding say nothing about plain texts, as in 2020-12.
type schema struct{ root *rules }

// jsonType is a set of JSON types.
type jsonType uint8

const (
	typeNull jsonType = 1 << iota
	typeBoolean
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
)

// typeNames are the types in the order of their bits.
const typeNames = "null boolean integer number string array object"

func (t jsonType) String() string {
	var names []string
	for i, name := range strings.Fields(typeNames) {
		if t&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// rules is one compiled schema or subschema.
type rules struct {
	never bool // the schema `false`
	ref   *rules
	types jsonType // 0: any
	enum  *valueSet
	want  string // the values of enum or const, for messages

	allOf, anyOf, oneOf []*rules
	not, ifs, then, els *rules

	minimum, maximum, above, below, multiple *limit

	minLength, maxLength *int
	pattern              *pattern
	base64               bool

	minItems, maxItems, minContains, maxContains *int
	prefix                                       []*rules
	items, contains                              *rules
	unique                                       bool

	minProperties, maxProperties *int
	required                     []string
	properties                   map[string]*rules
	patterns                     []patternRule
	additional, names            *rules
	needs                        []needRule // dependentRequired
	whens                        []whenRule // dependentSchemas
}

// limit is a number of the schema, exactly as its author wrote it.
type limit struct {
	text string
	n    decimal
}

// pattern is a compiled regular expression with what a byte of input costs.
type pattern struct {
	re   *regexp.Regexp
	cost int
}

type patternRule struct {
	p   *pattern
	sub *rules
}

type needRule struct {
	key    string
	wanted []string
}

type whenRule struct {
	key string
	sub *rules
}

// annotations are the keywords that restrict nothing here.
const annotations = `$schema $comment $defs definitions title description default examples deprecated readOnly
writeOnly format contentEncoding contentMediaType contentSchema`

// unchecked are the keywords that would restrict values and are refused.
const unchecked = `$dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $anchor $vocabulary
unevaluatedItems unevaluatedProperties`

// compiler turns the decoded text of a schema into rules.
type compiler struct {
	text     any
	draft7   bool
	done     map[uintptr]*rules // by the identity of the decoded object
	pending  []pendingRef
	patterns map[string]*pattern
	size     int // instructions of all patterns
	keywords map[string]func(*compiler, *rules, string, any) error
	lower    map[string]string // lower case -> keyword
}

type pendingRef struct {
	from *rules
	ref  string
}

// compileSchema parses a schema; its errors are for the operator and name the
// keyword.
func compileSchema(raw json.RawMessage) (*schema, error) {
	text, err := newStrictJSON(raw, maxSchemaDepth, maxSchemaNodes, true).document()
	if err != nil {
		return nil, err
	}
	c := &compiler{text: text, done: map[uintptr]*rules{}, patterns: map[string]*pattern{}}
	c.keywords = keywordTable()
	c.lower = map[string]string{}
	for k := range c.keywords {
		c.lower[strings.ToLower(k)] = k
	}
	if m, ok := text.(map[string]any); ok {
		switch name, given := m["$schema"]; name {
		case "https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#":
		case "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema",
			"https://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema":
			c.draft7 = true
		default:
			if given {
				return nil, fmt.Errorf("$schema %s is not supported (allowed: draft-07, 2020-12)", brief(name))
			}
		}
	}
	root, err := c.compile(text)
	if err != nil {
		return nil, err
	}
	for len(c.pending) > 0 {
		p := c.pending[0]
		c.pending = c.pending[1:]
		at, err := c.pointer(p.ref)
		if err == nil {
			p.from.ref, err = c.compile(at)
		}
		if err != nil {
			return nil, fmt.Errorf("$ref %s: %w", quote(p.ref), err)
		}
	}
	all := []*rules{root}
	for _, r := range c.done {
		all = append(all, r)
	}
	if circular(all) {
		return nil, errors.New("$ref: a schema refers to itself without going into the value")
	}
	return &schema{root: root}, nil
}

// compile compiles one schema, once.
func (c *compiler) compile(v any) (*rules, error) {
	switch v := v.(type) {
	case bool:
		return &rules{never: !v}, nil
	case map[string]any:
		id := reflect.ValueOf(v).Pointer()
		if r := c.done[id]; r != nil {
			return r, nil
		}
		r := &rules{}
		c.done[id] = r
		for _, key := range sortedKeys(v) {
			if err := c.keyword(r, v, key); err != nil {
				return nil, err
			}
		}
		return r, c.related(r, v)
	}
	return nil, errors.New("a schema must be an object, true or false")
}

// keyword compiles one member of a schema.
func (c *compiler) keyword(r *rules, m map[string]any, key string) error {
	v := m[key]
	if f, ok := c.keywords[key]; ok {
		if c.draft7 && m["$ref"] != nil && key != "$ref" && f != nil && !slices.Contains(strings.Fields(annotations), key) {
			return nil // draft-07: a $ref stands for the whole schema
		}
		if f == nil {
			return nil
		}
		if err := f(c, r, key, v); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	}
	if slices.Contains(strings.Fields(unchecked), key) {
		return fmt.Errorf("keyword %s is not supported", key)
	}
	if key == "$id" || key == "id" {
		if key == "$id" && reflect.ValueOf(m).Pointer() != reflect.ValueOf(c.text).Pointer() {
			return errors.New("keyword $id is only supported at the top")
		}
		return nil
	}
	if known, ok := c.lower[strings.ToLower(key)]; ok {
		return fmt.Errorf("unknown keyword %s (did you mean %s?)", quote(key), known)
	}
	return nil // any other word is an annotation
}

// related checks what depends on more than one keyword.
func (c *compiler) related(r *rules, m map[string]any) error {
	r.base64 = m["contentEncoding"] == "base64"
	list, isList := m["items"].([]any)
	switch {
	case isList && !c.draft7:
		return errors.New("items: a list is of draft-07; use prefixItems, or name draft-07 in $schema")
	case m["additionalItems"] != nil && !c.draft7:
		return errors.New("additionalItems is of draft-07; use items beside prefixItems, or name draft-07 in $schema")
	case m["prefixItems"] != nil && c.draft7:
		return errors.New("prefixItems is not of draft-07; use a list in items")
	}
	if c.draft7 && m["$ref"] != nil {
		return nil
	}
	var err error
	if isList {
		if r.prefix, err = c.list(list); err != nil {
			return fmt.Errorf("items: %w", err)
		}
		if more, ok := m["additionalItems"]; ok {
			if r.items, err = c.compile(more); err != nil {
				return fmt.Errorf("additionalItems: %w", err)
			}
		}
	}
	return nil
}

func (c *compiler) list(v any) ([]*rules, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, errors.New("must be a list of schemas")
	}
	out := make([]*rules, len(list))
	for i, e := range list {
		var err error
		if out[i], err = c.compile(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// members compiles an object of schemas.
func (c *compiler) members(v any, each func(key string, sub *rules) error) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("must be an object of schemas")
	}
	for _, key := range sortedKeys(m) {
		sub, err := c.compile(m[key])
		if err == nil {
			err = each(key, sub)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", quote(key), err)
		}
	}
	return nil
}

// compilePattern compiles a regular expression, once, within the bounds.
func (c *compiler) compilePattern(text string) (*pattern, error) {
	if p := c.patterns[text]; p != nil {
		return p, nil
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (patterns are RE2: no look-around, no back-reference)", quote(text), err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	c.size += len(prog.Inst)
	if len(prog.Inst) > maxPatternSize || c.size > maxPatternsSize {
		return nil, fmt.Errorf("%s: too large once compiled (%d steps, at most %d each and %d together)",
			quote(text), len(prog.Inst), maxPatternSize, maxPatternsSize)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &pattern{re: re, cost: 2 + len(prog.Inst)}
	c.patterns[text] = p
	return p, nil
}

// pointer follows a local reference (#, #/a/b, #/anyOf/0).
func (c *compiler) pointer(ref string) (any, error) {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, errors.New("only references into the schema itself are supported")
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, errors.New("malformed")
	}
	if path == "" {
		return c.text, nil
	}
	steps := strings.Split(path, "/")
	if steps[0] != "" {
		return nil, errors.New("anchors are not supported")
	}
	if len(steps) > maxSchemaPointer {
		return nil, errors.New("too many steps")
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	at := c.text
	for _, step := range steps[1:] {
		var next any
		found := false
		switch v := at.(type) {
		case map[string]any:
			next, found = v[unescape.Replace(step)]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) && strconv.Itoa(i) == step {
				next, found = v[i], true
			}
		}
		if !found {
			return nil, errors.New("leads nowhere")
		}
		at = next
	}
	return at, nil
}

// circular reports whether a schema applies itself to the same value again.
func circular(all []*rules) bool {
	const open, closed = 1, 2
	state := map[*rules]int{}
	var visit func(r *rules) bool
	visit = func(r *rules) bool {
		if r == nil || state[r] == closed {
			return false
		}
		if state[r] == open {
			return true
		}
		state[r] = open
		same := slices.Concat([]*rules{r.ref, r.not, r.ifs, r.then, r.els}, r.allOf, r.anyOf, r.oneOf)
		for _, w := range r.whens {
			same = append(same, w.sub)
		}
		if slices.ContainsFunc(same, visit) {
			return true
		}
		state[r] = closed
		return false
	}
	return slices.ContainsFunc(all, visit)
}

// brief prints a part of the schema.
func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "the schema's value"
	}
	return clip(string(b), maxErrorText/4)
}

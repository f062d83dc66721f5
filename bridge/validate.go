package bridge

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// checkWork bounds the work of one check in units of about 10 ns, so that the
	// worst request costs about 20 ms: all that is visited, compared, hashed or
	// matched is charged before it is done.
	checkWork = 2_000_000
	// checkDepth bounds the nesting of schemas applied within each other.
	checkDepth = 2_000
	// checkPause is the work between two looks at whether the run has ended.
	checkPause = 50_000

	// The charges of one visit, of one fault, and of each member of an object.
	visitCharge  = 10
	faultCharge  = 30
	memberCharge = 12
)

// place is where a value stands in the arguments. Only a fault renders it.
type place struct {
	up    *place
	key   string
	index int // -1: a member
}

func (p *place) depth() int {
	n := 0
	for ; p != nil; p = p.up {
		n++
	}
	return n
}

// String returns a path such as "address.lines[2]", "" for the whole.
func (p *place) String() string {
	if p == nil {
		return ""
	}
	if p.index >= 0 {
		return p.up.String() + "[" + strconv.Itoa(p.index) + "]"
	}
	return member(p.up.String(), p.key)
}

// argFault says which argument breaks the schema, and how.
type argFault struct {
	at   *place
	text string
}

func (f *argFault) Error() string {
	if path := f.at.String(); path != "" {
		return path + ": " + f.text
	}
	return f.text
}

// check reports how a value, decoded by strictJSON, breaks the schema; nil if
// it does not. It gives up soon after stop is closed.
func (s *schema) check(v any, stop <-chan struct{}) *argFault {
	c := checker{left: checkWork, look: checkWork - checkPause, stop: stop}
	c.digester.charge = c.charge
	f := c.visit(s.root, v, nil)
	if c.left < 0 {
		return &argFault{text: "too costly to check against the schema"}
	}
	return f
}

type checker struct {
	left  int // units of work, negative once they are used up
	look  int // when left falls below, look at stop
	depth int
	stop  <-chan struct{}
	digester
	keys map[uintptr][]string
}

// charge takes units of work; false means that the check is over.
func (c *checker) charge(units int) bool {
	if c.left < 0 {
		return false
	}
	if c.left -= units; c.left < c.look {
		c.look = c.left - checkPause
		select {
		case <-c.stop:
			c.left = -1
		default:
		}
	}
	return c.left >= 0
}

// spent is the fault of a check that is over; check replaces it.
func spent() *argFault { return &argFault{text: "too costly to check"} }

func (c *checker) fault(at *place, format string, args ...any) *argFault {
	c.charge(faultCharge)
	return &argFault{at: at, text: fmt.Sprintf(format, args...)}
}

// visit checks one value against one schema.
func (c *checker) visit(r *rules, v any, at *place) *argFault {
	if r == nil {
		return nil
	}
	c.depth++
	defer func() { c.depth-- }()
	if c.depth > checkDepth {
		c.left = -1
	}
	if !c.charge(visitCharge) {
		return spent()
	}
	if r.never {
		return c.fault(at, "must not be there")
	}
	if f := c.visit(r.ref, v, at); f != nil {
		return f
	}
	if f := c.typeAndValue(r, v, at); f != nil {
		return f
	}
	if f := c.logic(r, v, at); f != nil {
		return f
	}
	switch v := v.(type) {
	case json.Number:
		return c.numberRules(r, v, at)
	case string:
		return c.stringRules(r, v, at)
	case []any:
		return c.arrayRules(r, v, at)
	case map[string]any:
		// A tagged value counts as what it stands for only where the schema names
		// that type; anywhere else it is the object that it looks like.
		switch kind, text := tagOf(v); {
		case kind == tagFloat && r.types&typeNumber != 0:
			if r.minimum != nil || r.maximum != nil || r.above != nil || r.below != nil || r.multiple != nil {
				return c.fault(at, "not a finite number")
			}
			return nil
		case kind == tagBytes && r.bytes():
			return c.bytesRules(r, text, at)
		}
		return c.objectRules(r, v, at)
	}
	return nil
}

const (
	tagFloat = "float"
	tagBytes = "bytes"
)

// tagOf returns the kind and text of a tagged value: NaN, the infinities and
// bytes travel as {"$sbx":KIND,"v":TEXT}.
func tagOf(m map[string]any) (kind, text string) {
	if len(m) != 2 {
		return "", ""
	}
	kind, _ = m["$sbx"].(string)
	text, ok := m["v"].(string)
	if ok && (kind == tagBytes || kind == tagFloat && (text == "nan" || text == "inf" || text == "-inf")) {
		return kind, text
	}
	return "", ""
}

// bytes reports whether the schema takes bytes: a string that encodes them.
func (r *rules) bytes() bool { return r.types&typeString != 0 && r.base64 }

// typeOf returns the types that a value has, and its name for messages.
func (r *rules) typeOf(v any) (jsonType, string) {
	switch v := v.(type) {
	case nil:
		return typeNull, "null"
	case bool:
		return typeBoolean, "boolean"
	case string:
		return typeString, "string"
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") || parseDecimal(v).isInteger() {
			return typeInteger | typeNumber, "integer"
		}
		return typeNumber, "number"
	case []any:
		return typeArray, "array"
	case map[string]any:
		switch kind, _ := tagOf(v); {
		case kind == tagFloat && r.types&typeNumber != 0:
			return typeNumber, "number"
		case kind == tagBytes && r.bytes():
			return typeString, "bytes"
		case kind != "":
			return typeObject, kind
		}
		return typeObject, "object"
	}
	return 0, "unknown"
}

func (c *checker) typeAndValue(r *rules, v any, at *place) *argFault {
	if r.types != 0 {
		if n, ok := v.(json.Number); ok && !c.charge(len(n)/8) {
			return spent()
		}
		if got, name := r.typeOf(v); got&r.types == 0 {
			return c.fault(at, "is %s, must be %s", name, r.types)
		}
	}
	if r.enum != nil && !r.enum.has(v, &c.digester) {
		return c.fault(at, "must be %s", r.want)
	}
	return nil
}

func (c *checker) logic(r *rules, v any, at *place) *argFault {
	for _, sub := range r.allOf {
		if f := c.visit(sub, v, at); f != nil {
			return f
		}
	}
	if r.anyOf != nil {
		var first *argFault
		for _, sub := range r.anyOf {
			f := c.visit(sub, v, at)
			if f == nil {
				first = nil
				break
			}
			if first == nil || f.at.depth() > first.at.depth() {
				first = f // the branch that got farthest says most
			}
		}
		if first != nil {
			return c.fault(first.at, "fits none of the alternatives (%s)", clip(first.text, maxErrorText/2))
		}
	}
	if r.oneOf != nil {
		fits := 0
		for _, sub := range r.oneOf {
			if c.visit(sub, v, at) == nil {
				fits++
			}
		}
		if fits != 1 {
			return c.fault(at, "fits %d of the alternatives, must fit exactly one", fits)
		}
	}
	if r.not != nil && c.visit(r.not, v, at) == nil {
		return c.fault(at, "has a form that is excluded")
	}
	if r.ifs != nil {
		if c.visit(r.ifs, v, at) == nil {
			return c.visit(r.then, v, at)
		}
		return c.visit(r.els, v, at)
	}
	return nil
}

// matches reports whether a pattern matches. At worst each byte of the text costs
// 6 ns for each instruction of the pattern.
func (c *checker) matches(p *pattern, text string) bool {
	return c.charge((len(text)+4)*p.cost/2) && p.re.MatchString(text)
}

func (c *checker) stringRules(r *rules, v string, at *place) *argFault {
	// A character has one to four bytes: most texts need no counting.
	low, high := (len(v)+3)/4, len(v)
	if r.minLength != nil && high >= *r.minLength && low < *r.minLength || r.maxLength != nil && high > *r.maxLength && low <= *r.maxLength {
		if !c.charge(len(v) / 4) {
			return spent()
		}
		low = runes(v)
		high = low
	}
	if r.minLength != nil && high < *r.minLength {
		return c.fault(at, "has fewer than %d characters", *r.minLength)
	}
	if r.maxLength != nil && low > *r.maxLength {
		return c.fault(at, "has more than %d characters", *r.maxLength)
	}
	if r.pattern != nil && !c.matches(r.pattern, v) {
		return c.fault(at, "does not match %s", quote(r.pattern.re.String()))
	}
	return nil
}

// bytesRules checks tagged bytes: what the schema says of the encoded text holds.
func (c *checker) bytesRules(r *rules, text string, at *place) *argFault {
	if !c.charge(len(text) / 4) {
		return spent()
	}
	if _, err := base64.StdEncoding.Strict().DecodeString(text); err != nil || strings.ContainsAny(text, "\r\n") {
		return c.fault(at, "is not base64")
	}
	return c.stringRules(r, text, at)
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

func (c *checker) arrayRules(r *rules, v []any, at *place) *argFault {
	if r.minItems != nil && len(v) < *r.minItems {
		return c.fault(at, "has %d items, fewer than %d", len(v), *r.minItems)
	}
	if r.maxItems != nil && len(v) > *r.maxItems {
		return c.fault(at, "has %d items, more than %d", len(v), *r.maxItems)
	}
	for i, e := range v {
		sub := r.items
		if i < len(r.prefix) {
			sub = r.prefix[i]
		}
		if sub == nil {
			continue
		}
		if f := c.visit(sub, e, &place{at, "", i}); f != nil {
			return f
		}
	}
	if r.contains != nil {
		found, least, most := 0, 1, math.MaxInt
		for _, e := range v {
			if c.visit(r.contains, e, at) == nil {
				found++
			}
		}
		if r.minContains != nil {
			least = *r.minContains
		}
		if r.maxContains != nil {
			most = *r.maxContains
		}
		if found < least || found > most {
			return c.fault(at, "contains %d of the wanted items", found)
		}
	}
	if r.unique {
		seen := make(map[digest]struct{}, len(v))
		for i, e := range v {
			if !c.charge(visitCharge) {
				return spent()
			}
			k := c.of(e)
			if _, dup := seen[k]; dup {
				return c.fault(at, "item %d is there twice", i)
			}
			seen[k] = struct{}{}
		}
	}
	return nil
}

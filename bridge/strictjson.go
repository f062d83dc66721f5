package bridge

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// jsonFault says why a text is refused. Its text is safe for the program: it
// speaks only of what the program wrote.
type jsonFault struct {
	at   int
	text string
}

func (f *jsonFault) Error() string { return fmt.Sprintf("%s at byte %d", f.text, f.at) }

// strictJSON walks one JSON text more strictly than encoding/json: no duplicate
// key, no invalid UTF-8, bounded depth, values and digits, one value up to the
// end. A lone surrogate escape is legal JSON and is preserved: in the raw text,
// and in decoded strings as the three bytes that UTF-8 would have for it.
//
// Decoded values are map[string]any, []any, string, json.Number, bool and nil.
type strictJSON struct {
	b        []byte
	i        int
	depth    int // what is left
	nodes    int // what is left
	maxDepth int
	maxNodes int
	// build keeps the values; without it only the check is made.
	build bool
	// lone is set when a string holds a surrogate escape without its partner.
	lone bool
}

func newStrictJSON(b []byte, depth, nodes int, build bool) *strictJSON {
	return &strictJSON{b: b, depth: depth, nodes: nodes, maxDepth: depth, maxNodes: nodes, build: build}
}

// checkJSON walks a whole text without keeping it.
func checkJSON(b []byte, depth, nodes int) error {
	_, err := newStrictJSON(b, depth, nodes, false).document()
	return err
}

// document parses the one value of the text.
func (p *strictJSON) document() (any, error) {
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	return v, p.end()
}

// end checks that nothing but white space is left.
func (p *strictJSON) end() error {
	if p.space(); p.i < len(p.b) {
		return p.fault("text after the value")
	}
	return nil
}

func (p *strictJSON) fault(text string) error { return &jsonFault{at: p.i, text: text} }

func (p *strictJSON) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

// next returns the first byte of the next token, 0 at the end.
func (p *strictJSON) next() byte {
	p.space()
	if p.i < len(p.b) {
		return p.b[p.i]
	}
	return 0
}

func (p *strictJSON) value() (any, error) {
	if p.nodes--; p.nodes < 0 {
		return nil, p.fault(fmt.Sprintf("more than %d JSON values", p.maxNodes))
	}
	switch c := p.next(); {
	case c == '{':
		var m map[string]any
		if p.build {
			m = map[string]any{}
		}
		err := p.object(func(key string) error {
			v, err := p.value()
			if p.build {
				m[key] = v
			}
			return err
		})
		return m, err
	case c == '[':
		return p.array()
	case c == '"':
		return p.text(p.build)
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return true, p.literal("true")
	case c == 'f':
		return false, p.literal("false")
	case c == 'n':
		return nil, p.literal("null")
	case p.i >= len(p.b):
		return nil, p.fault("unexpected end")
	default:
		return nil, p.fault("unexpected character")
	}
}

func (p *strictJSON) literal(word string) error {
	if len(p.b)-p.i < len(word) || string(p.b[p.i:p.i+len(word)]) != word {
		return p.fault("unexpected character")
	}
	p.i += len(word)
	return nil
}

func (p *strictJSON) enter() error {
	if p.depth--; p.depth < 0 {
		return p.fault(fmt.Sprintf("nested deeper than %d", p.maxDepth))
	}
	p.i++
	return nil
}

// object walks an object and calls member after each key, before its value.
func (p *strictJSON) object(member func(key string) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	var seen map[string]struct{} // made with the second key
	first := ""
	for n := 0; ; n++ {
		c := p.next()
		if c == '}' && n == 0 {
			break
		}
		if c != '"' {
			return p.fault("expected a key")
		}
		k, err := p.text(true)
		if err != nil {
			return err
		}
		if n == 0 {
			first = k
		} else {
			if seen == nil {
				seen = map[string]struct{}{first: {}}
			}
			if _, dup := seen[k]; dup {
				return p.fault("duplicate key " + quote(k))
			}
			seen[k] = struct{}{}
		}
		if p.next() != ':' {
			return p.fault("expected ':'")
		}
		p.i++
		if err := member(k); err != nil {
			return err
		}
		if c = p.next(); c == '}' {
			break
		}
		if c != ',' {
			return p.fault("expected ',' or '}'")
		}
		p.i++
	}
	p.i++
	p.depth++
	return nil
}

func (p *strictJSON) array() (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	var list []any
	if p.build {
		list = []any{}
	}
	for n := 0; ; n++ {
		if n == 0 && p.next() == ']' {
			break
		}
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		if p.build {
			list = append(list, v)
		}
		c := p.next()
		if c == ']' {
			break
		}
		if c != ',' {
			return nil, p.fault("expected ',' or ']'")
		}
		p.i++
	}
	p.i++
	p.depth++
	return list, nil
}

// number checks the grammar and keeps the text.
func (p *strictJSON) number() (any, error) {
	start := p.i
	digits := func() bool {
		from := p.i
		for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
			p.i++
		}
		return p.i > from
	}
	at := func(set string) bool {
		if p.i < len(p.b) {
			for i := range len(set) {
				if p.b[p.i] == set[i] {
					p.i++
					return true
				}
			}
		}
		return false
	}
	at("-")
	if !at("0") && !digits() {
		return nil, p.fault("malformed number")
	}
	if at(".") && !digits() {
		return nil, p.fault("malformed number")
	}
	if at("eE") {
		at("+-")
		if !digits() {
			return nil, p.fault("malformed number")
		}
	}
	if p.i-start > maxNumberDigits {
		return nil, p.fault(fmt.Sprintf("number of more than %d digits", maxNumberDigits))
	}
	if !p.build {
		return nil, nil
	}
	return json.Number(p.b[start:p.i]), nil
}

// text parses a string; keep says whether its value is wanted.
func (p *strictJSON) text(keep bool) (string, error) {
	p.i++
	start := p.i
	for p.i < len(p.b) { // the common case: nothing to unescape
		switch c := p.b[p.i]; {
		case c == '"':
			raw := p.b[start:p.i]
			if !utf8.Valid(raw) {
				return "", p.fault("invalid UTF-8")
			}
			p.i++
			if !keep {
				return "", nil
			}
			return string(raw), nil
		case c == '\\':
			return p.escaped(start)
		case c < 0x20:
			return "", p.fault("control character in a string")
		}
		p.i++
	}
	return "", p.fault("unexpected end")
}

// escaped goes on with a string whose first escape is at the cursor.
func (p *strictJSON) escaped(start int) (string, error) {
	plain := start
	var out []byte
	flush := func() bool {
		raw := p.b[plain:p.i]
		out = append(out, raw...)
		return utf8.Valid(raw)
	}
	for p.i < len(p.b) {
		switch c := p.b[p.i]; {
		case c == '"':
			if !flush() {
				return "", p.fault("invalid UTF-8")
			}
			p.i++
			return string(out), nil
		case c < 0x20:
			return "", p.fault("control character in a string")
		case c == '\\':
			if !flush() {
				return "", p.fault("invalid UTF-8")
			}
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
			plain = p.i
		default:
			p.i++
		}
	}
	return "", p.fault("unexpected end")
}

// escape appends what one escape sequence stands for.
func (p *strictJSON) escape(out []byte) ([]byte, error) {
	if p.i+1 >= len(p.b) {
		return nil, p.fault("unexpected end")
	}
	c := p.b[p.i+1]
	const simple, values = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	for i := range len(simple) {
		if c == simple[i] {
			p.i += 2
			return append(out, values[i]), nil
		}
	}
	r, ok := p.hex()
	if !ok {
		return nil, p.fault("malformed escape")
	}
	p.i += 6
	if r < 0xd800 || r > 0xdfff {
		return utf8.AppendRune(out, r), nil
	}
	if low, ok := p.hex(); ok && r < 0xdc00 && low >= 0xdc00 && low <= 0xdfff {
		p.i += 6
		return utf8.AppendRune(out, (r-0xd800)<<10+(low-0xdc00)+0x10000), nil
	}
	p.lone = true
	return append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f), nil
}

// hex returns the code unit of the \uXXXX at the cursor.
func (p *strictJSON) hex() (rune, bool) {
	if p.i+6 > len(p.b) || p.b[p.i] != '\\' || p.b[p.i+1] != 'u' {
		return 0, false
	}
	n := rune(0)
	for _, c := range p.b[p.i+2 : p.i+6] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// quote makes a program's text fit for an error message: quoted, printable,
// bounded.
func quote(s string) string {
	if len(s) > maxToolEcho {
		s = s[:maxToolEcho]
	}
	return strconv.QuoteToASCII(s)
}

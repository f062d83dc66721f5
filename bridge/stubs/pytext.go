package stubs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// pyString returns a Python literal of the text, in ASCII: no description can
// break out of it.
func pyString(s string) string { return "'" + pyEscape(s, '\'', false) + "'" }

// pyEscape escapes a text for a literal with the quote; lines says that line
// feeds stay as they are.
func pyEscape(s string, quote rune, lines bool) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n' && lines:
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// pyDoc returns a docstring, indented for a function's body.
func pyDoc(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	return `"""` + strings.ReplaceAll(pyEscape(text, '"', true), "\n", "\n    ") + `"""`
}

// pyValue returns a Python literal of a JSON value.
func pyValue(n *node) string {
	var b strings.Builder
	writePyValue(&b, n)
	return b.String()
}

func writePyValue(b *strings.Builder, n *node) {
	switch {
	case n.isList:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteString(", ")
			}
			writePyValue(b, item)
		}
		b.WriteByte(']')
	case n.member != nil:
		b.WriteByte('{')
		for i, k := range n.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(pyString(k) + ": ")
			writePyValue(b, n.member[k])
		}
		b.WriteByte('}')
	default:
		switch v := n.scalar.(type) {
		case string:
			b.WriteString(pyString(v))
		case json.Number:
			b.WriteString(string(v))
		case bool:
			b.WriteString(map[bool]string{true: "True", false: "False"}[v])
		default:
			b.WriteString("None")
		}
	}
}

// maxHint bounds a type hint in bytes; longer ones say nothing to a reader.
const maxHint = 400

// maxHintDepth bounds the nesting of a hint.
const maxHintDepth = 8

// maxHintWork bounds the schemas that the hints of one tool look at; what comes
// after is Any.
const maxHintWork = 20_000

// hints makes the type hints of one schema. They are never evaluated (the module
// has annotations as text), so they may use what an old Python lacks.
type hints struct {
	root *node
	work int
	memo map[hintKey]string
}

// hintKey is a schema at what is left of the depth.
type hintKey struct {
	n     *node
	depth int
}

func newHints(root *node) *hints { return &hints{root: root, memo: map[hintKey]string{}} }

// of returns the type hint of a schema.
func (h *hints) of(n *node) string { return h.hint(n, maxHintDepth) }

func (h *hints) hint(n *node, depth int) string {
	if n == nil || n.member == nil || depth == 0 {
		return "Any"
	}
	key := hintKey{n, depth}
	if text, ok := h.memo[key]; ok {
		return text
	}
	if h.work++; h.work > maxHintWork {
		return "Any"
	}
	text := h.make(n, depth)
	if len(text) > maxHint {
		text = "Any"
	}
	h.memo[key] = text
	return text
}

func (h *hints) make(n *node, depth int) string {
	if ref := n.get("$ref").text(); ref != "" {
		return h.hint(h.root.pointer(ref), depth-1) // a recursion ends at the depth
	}
	if list := n.get("enum"); list != nil && list.isList && len(list.items) > 0 {
		return literals(list.items)
	}
	if c := n.get("const"); c != nil {
		return literals([]*node{c})
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if list := n.get(word); list != nil && len(list.items) > 0 {
			var alts []string
			for _, sub := range list.items {
				if h.work++; h.work > maxHintWork {
					return "Any"
				}
				alts = append(alts, h.hint(sub, depth-1))
			}
			return union(alts)
		}
	}
	if list := n.get("allOf"); list != nil && len(list.items) == 1 {
		return h.hint(list.items[0], depth-1)
	}
	types := n.get("type").texts()
	if one := n.get("type").text(); one != "" {
		types = []string{one}
	}
	var alts []string
	for _, t := range types {
		alts = append(alts, h.typeHint(t, n, depth))
	}
	return union(alts)
}

func (h *hints) typeHint(t string, n *node, depth int) string {
	switch t {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "null":
		return "None"
	case "array":
		return "list[" + h.hint(n.get("items"), depth-1) + "]"
	case "object":
		return "dict[str, " + h.hint(n.get("additionalProperties"), depth-1) + "]"
	}
	return "Any"
}

// literals returns a Literal of scalars, Any where one is none.
func literals(items []*node) string {
	var vals []string
	if len(items) > maxHint {
		return "Any"
	}
	for _, item := range items {
		if n, isNum := item.scalar.(json.Number); item.isList || item.member != nil ||
			isNum && strings.ContainsAny(string(n), ".eE") {
			return "Any"
		}
		vals = append(vals, pyValue(item))
	}
	return "Literal[" + strings.Join(vals, ", ") + "]"
}

// union joins alternatives without repeating any.
func union(alts []string) string {
	var out []string
	seen := map[string]bool{}
	for _, a := range alts {
		if a == "Any" {
			return "Any"
		}
		if !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return "Any"
	}
	return strings.Join(out, " | ")
}

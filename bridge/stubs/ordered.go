package stubs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// node is a JSON value that keeps the order of its keys: the order of a schema's
// properties is that of the parameters. A nil node behaves like an absent one.
type node struct {
	keys   []string
	member map[string]*node // objects
	items  []*node          // arrays
	isList bool
	scalar any // string, json.Number, bool or nil otherwise
}

func parseOrdered(raw []byte) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return readNode(dec)
}

func readNode(dec *json.Decoder) (*node, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return &node{scalar: tok}, nil
	}
	n := &node{}
	if delim == '[' {
		n.isList = true
		for dec.More() {
			item, err := readNode(dec)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	} else {
		n.member = map[string]*node{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			value, err := readNode(dec)
			if err != nil {
				return nil, err
			}
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("key %v is no text", key)
			}
			if n.member[name] == nil {
				n.keys = append(n.keys, name)
			}
			n.member[name] = value
		}
	}
	_, err = dec.Token() // the closing delimiter
	return n, err
}

// get returns a member, nil if there is none.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	return n.member[key]
}

// text returns a scalar text, "" for anything else.
func (n *node) text() string {
	if n == nil {
		return ""
	}
	s, _ := n.scalar.(string)
	return s
}

// texts returns the texts of a list.
func (n *node) texts() []string {
	if n == nil {
		return nil
	}
	var out []string
	for _, item := range n.items {
		if s, ok := item.scalar.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// pointer follows a local reference such as #/$defs/node, nil if it cannot.
func (n *node) pointer(ref string) *node {
	if ref == "#" {
		return n
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	if text, err := url.PathUnescape(path); err == nil {
		path = text
	}
	for step := range strings.SplitSeq(path, "/") {
		if n != nil && n.isList {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n = n.items[i]
			continue
		}
		n = n.get(unescape.Replace(step))
	}
	return n
}

package bridge

import (
	"encoding/json"
	"sort"
)

func (c *checker) objectRules(r *rules, v map[string]any, at *place) *argFault {
	if !c.charge(2 * (len(r.required) + len(r.needs) + len(r.whens))) {
		return spent()
	}
	for _, name := range r.required {
		if _, ok := v[name]; !ok {
			return c.fault(&place{at, name, -1}, "is missing")
		}
	}
	if r.minProperties != nil && len(v) < *r.minProperties {
		return c.fault(at, "has %d members, fewer than %d", len(v), *r.minProperties)
	}
	if r.maxProperties != nil && len(v) > *r.maxProperties {
		return c.fault(at, "has %d members, more than %d", len(v), *r.maxProperties)
	}
	if r.names != nil || r.properties != nil || r.patterns != nil || r.additional != nil {
		keys, ok := c.keysOf(v)
		if !ok {
			return spent()
		}
		for _, key := range keys {
			if f := c.memberRules(r, key, v[key], at); f != nil {
				return f
			}
		}
	}
	return c.dependencies(r, v, at)
}

// keysOf returns the sorted keys of an object, sorted once.
func (c *checker) keysOf(v map[string]any) ([]string, bool) {
	if len(v) == 0 {
		return nil, true
	}
	id := identity(v)
	if keys := c.keys[id]; keys != nil {
		return keys, true
	}
	if !c.charge(memberCharge * len(v)) {
		return nil, false
	}
	if c.keys == nil {
		c.keys = map[uintptr][]string{}
	}
	keys := sortedKeys(v)
	c.keys[id] = keys
	return keys, true
}

func (c *checker) memberRules(r *rules, key string, v any, up *place) *argFault {
	if !c.charge(memberCharge + len(key)/8) {
		return spent()
	}
	at := &place{up, key, -1}
	if f := c.visit(r.names, key, at); f != nil {
		return f
	}
	sub, known := r.properties[key]
	if known {
		if f := c.visit(sub, v, at); f != nil {
			return f
		}
	}
	for _, p := range r.patterns {
		if c.matches(p.p, key) {
			known = true
			if f := c.visit(p.sub, v, at); f != nil {
				return f
			}
		}
	}
	if known || r.additional == nil {
		return nil
	}
	if r.additional.excludesAll() {
		return c.fault(at, "is not an argument of this tool")
	}
	return c.visit(r.additional, v, at)
}

// excludesAll reports whether a schema is `false` or {"not":{}}.
func (r *rules) excludesAll() bool {
	return r.never || r.not != nil && r.not.empty()
}

// empty reports whether a schema takes everything.
func (r *rules) empty() bool {
	return !r.never && r.ref == nil && r.types == 0 && r.enum == nil && r.allOf == nil && r.anyOf == nil && r.oneOf == nil &&
		r.not == nil && r.ifs == nil && r.minimum == nil && r.maximum == nil && r.above == nil && r.below == nil && r.multiple == nil &&
		r.minLength == nil && r.maxLength == nil && r.pattern == nil && r.minItems == nil && r.maxItems == nil && r.prefix == nil &&
		r.items == nil && r.contains == nil && !r.unique && r.minProperties == nil && r.maxProperties == nil && r.required == nil &&
		r.properties == nil && r.patterns == nil && r.additional == nil && r.names == nil && r.needs == nil && r.whens == nil
}

func (c *checker) dependencies(r *rules, v map[string]any, at *place) *argFault {
	for _, need := range r.needs {
		if _, ok := v[need.key]; !ok {
			continue
		}
		if !c.charge(2 * len(need.wanted)) {
			return spent()
		}
		for _, name := range need.wanted {
			if _, ok := v[name]; !ok {
				return c.fault(&place{at, name, -1}, "is missing, %s needs it", quote(need.key))
			}
		}
	}
	for _, when := range r.whens {
		if _, ok := v[when.key]; ok {
			if f := c.visit(when.sub, v, at); f != nil {
				return f
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

// numberRules checks the bounds, exactly.
func (c *checker) numberRules(r *rules, v json.Number, at *place) *argFault {
	if r.minimum == nil && r.maximum == nil && r.above == nil && r.below == nil && r.multiple == nil {
		return nil
	}
	if !c.charge(20 + len(v)/2) {
		return spent()
	}
	n := parseDecimal(v)
	switch {
	case r.minimum != nil && n.cmp(r.minimum.n) < 0:
		return c.fault(at, "is less than %s", r.minimum.text)
	case r.maximum != nil && n.cmp(r.maximum.n) > 0:
		return c.fault(at, "is more than %s", r.maximum.text)
	case r.above != nil && n.cmp(r.above.n) <= 0:
		return c.fault(at, "is not more than %s", r.above.text)
	case r.below != nil && n.cmp(r.below.n) >= 0:
		return c.fault(at, "is not less than %s", r.below.text)
	case r.multiple != nil && !n.multipleOf(r.multiple.n):
		return c.fault(at, "is not a multiple of %s", r.multiple.text)
	}
	return nil
}

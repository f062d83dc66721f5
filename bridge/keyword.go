package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// keywordTable says how each keyword is compiled; nil stands for an annotation
// and for what [compiler.related] does.
func keywordTable() map[string]func(*compiler, *rules, string, any) error {
	type f = func(*compiler, *rules, string, any) error
	sub := func(into func(*rules) **rules) f {
		return func(c *compiler, r *rules, _ string, v any) (err error) {
			*into(r), err = c.compile(v)
			return err
		}
	}
	list := func(into func(*rules) *[]*rules) f {
		return func(c *compiler, r *rules, _ string, v any) (err error) {
			*into(r), err = c.list(v)
			return err
		}
	}
	count := func(into func(*rules) **int) f {
		return func(_ *compiler, r *rules, _ string, v any) error {
			n, ok := countOf(v)
			if !ok {
				return errors.New("must be a whole number from 0")
			}
			*into(r) = &n
			return nil
		}
	}
	number := func(into func(*rules) **limit) f {
		return func(_ *compiler, r *rules, _ string, v any) error {
			n, ok := v.(json.Number)
			if !ok {
				return errors.New("must be a number")
			}
			*into(r) = &limit{clip(string(n), maxToolEcho), parseDecimal(n)}
			return nil
		}
	}
	t := map[string]f{
		"$ref": func(c *compiler, r *rules, _ string, v any) error {
			ref, ok := v.(string)
			if !ok {
				return errors.New("must be a text")
			}
			c.pending = append(c.pending, pendingRef{r, ref})
			return nil
		},
		"type": func(_ *compiler, r *rules, _ string, v any) (err error) { r.types, err = typesOf(v); return err },
		"enum": func(_ *compiler, r *rules, _ string, v any) error {
			values, ok := v.([]any)
			if !ok {
				return errors.New("must be a list")
			}
			return r.allow(values, "one of "+brief(v))
		},
		"const": func(_ *compiler, r *rules, _ string, v any) error { return r.allow([]any{v}, brief(v)) },
		"allOf": list(func(r *rules) *[]*rules { return &r.allOf }),
		"anyOf": list(func(r *rules) *[]*rules { return &r.anyOf }),
		"oneOf": list(func(r *rules) *[]*rules { return &r.oneOf }),
		"not":   sub(func(r *rules) **rules { return &r.not }),
		"if":    sub(func(r *rules) **rules { return &r.ifs }),
		"then":  sub(func(r *rules) **rules { return &r.then }),
		"else":  sub(func(r *rules) **rules { return &r.els }),

		"minimum":          number(func(r *rules) **limit { return &r.minimum }),
		"maximum":          number(func(r *rules) **limit { return &r.maximum }),
		"exclusiveMinimum": number(func(r *rules) **limit { return &r.above }),
		"exclusiveMaximum": number(func(r *rules) **limit { return &r.below }),
		"multipleOf": func(c *compiler, r *rules, key string, v any) error {
			if err := number(func(r *rules) **limit { return &r.multiple })(c, r, key, v); err != nil {
				return err
			}
			if n := r.multiple.n; n.sign() <= 0 || len(n.digits) > maxMultipleDigits {
				return fmt.Errorf("must be more than 0 and have at most %d digits", maxMultipleDigits)
			}
			return nil
		},

		"minLength": count(func(r *rules) **int { return &r.minLength }),
		"maxLength": count(func(r *rules) **int { return &r.maxLength }),
		"pattern": func(c *compiler, r *rules, _ string, v any) (err error) {
			text, ok := v.(string)
			if !ok {
				return errors.New("must be a text")
			}
			r.pattern, err = c.compilePattern(text)
			return err
		},

		"minItems":    count(func(r *rules) **int { return &r.minItems }),
		"maxItems":    count(func(r *rules) **int { return &r.maxItems }),
		"minContains": count(func(r *rules) **int { return &r.minContains }),
		"maxContains": count(func(r *rules) **int { return &r.maxContains }),
		"contains":    sub(func(r *rules) **rules { return &r.contains }),
		"prefixItems": list(func(r *rules) *[]*rules { return &r.prefix }),
		"items": func(c *compiler, r *rules, _ string, v any) (err error) {
			if _, isList := v.([]any); isList {
				return nil // see related
			}
			r.items, err = c.compile(v)
			return err
		},
		"additionalItems": nil,
		"uniqueItems": func(_ *compiler, r *rules, _ string, v any) error {
			var ok bool
			if r.unique, ok = v.(bool); !ok {
				return errors.New("must be true or false")
			}
			return nil
		},

		"minProperties":        count(func(r *rules) **int { return &r.minProperties }),
		"maxProperties":        count(func(r *rules) **int { return &r.maxProperties }),
		"required":             func(_ *compiler, r *rules, _ string, v any) (err error) { r.required, err = textsOf(v); return err },
		"properties":           (*compiler).properties,
		"patternProperties":    (*compiler).patternProperties,
		"additionalProperties": sub(func(r *rules) **rules { return &r.additional }),
		"propertyNames":        sub(func(r *rules) **rules { return &r.names }),
		"dependentRequired":    (*compiler).dependencies,
		"dependentSchemas":     (*compiler).dependencies,
		"dependencies":         (*compiler).dependencies,
	}
	for _, word := range strings.Fields(annotations) {
		t[word] = nil
	}
	return t
}

func (c *compiler) properties(r *rules, _ string, v any) error {
	r.properties = map[string]*rules{}
	return c.members(v, func(key string, sub *rules) error { r.properties[key] = sub; return nil })
}

func (c *compiler) patternProperties(r *rules, _ string, v any) error {
	return c.members(v, func(key string, sub *rules) error {
		p, err := c.compilePattern(key)
		r.patterns = append(r.patterns, patternRule{p, sub})
		return err
	})
}

// dependencies compiles dependentRequired, dependentSchemas and the older
// keyword that holds both.
func (c *compiler) dependencies(r *rules, name string, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("must be an object")
	}
	for _, key := range sortedKeys(m) {
		_, isList := m[key].([]any)
		if isList && name != "dependentSchemas" || name == "dependentRequired" {
			wanted, err := textsOf(m[key])
			if err != nil {
				return fmt.Errorf("%s: %w", quote(key), err)
			}
			r.needs = append(r.needs, needRule{key, wanted})
			continue
		}
		sub, err := c.compile(m[key])
		if err != nil {
			return fmt.Errorf("%s: %w", quote(key), err)
		}
		r.whens = append(r.whens, whenRule{key, sub})
	}
	return nil
}

// allow adds enum or const.
func (r *rules) allow(values []any, want string) error {
	set := newValueSet(values)
	if r.enum != nil { // const beside enum: both must hold
		r.allOf = append(r.allOf, &rules{enum: set, want: want})
		return nil
	}
	r.enum, r.want = set, want
	return nil
}

// countOf returns a whole number from 0 that fits an int; 3.0 is one.
func countOf(v any) (int, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	d := parseDecimal(n)
	if d.neg || !d.isInteger() {
		return 0, false
	}
	if len(d.digits)+d.exp > maxMultipleDigits {
		return 1 << 62, true // beyond anything that can be counted
	}
	i, err := strconv.Atoi(d.digits + strings.Repeat("0", d.exp))
	return i, err == nil || d.digits == ""
}

func textsOf(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("must be a list of texts")
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, errors.New("must be a list of texts")
		}
	}
	return out, nil
}

func typesOf(v any) (jsonType, error) {
	names := []any{v}
	if list, ok := v.([]any); ok {
		names = list
	}
	known := strings.Fields(typeNames)
	set := jsonType(0)
	for _, n := range names {
		name, _ := n.(string)
		i := slices.Index(known, name)
		if i < 0 {
			return 0, fmt.Errorf("there is no type %s", brief(n))
		}
		set |= 1 << i
	}
	if set == 0 {
		return 0, errors.New("must name a type")
	}
	return set, nil
}

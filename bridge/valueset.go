package bridge

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"reflect"
)

// valueSet is the values of an enum or const, made ready so that a look-up costs
// no more than one value, however many there are.
type valueSet struct {
	texts   map[string]struct{}
	longest int // of the texts, in bytes
	numbers map[string]struct{}
	null    bool
	yes, no bool
	deep    map[digest]struct{} // lists and objects
}

// digest identifies a JSON value: equal for equal values, numbers by value,
// objects whatever the order of their keys.
type digest [sha256.Size]byte

func newValueSet(values []any) *valueSet {
	s := &valueSet{texts: map[string]struct{}{}, numbers: map[string]struct{}{}}
	d := &digester{charge: func(int) bool { return true }}
	for _, v := range values {
		switch v := v.(type) {
		case string:
			s.texts[v] = struct{}{}
			s.longest = max(s.longest, len(v))
		case json.Number:
			s.numbers[parseDecimal(v).key()] = struct{}{}
		case nil:
			s.null = true
		case bool:
			s.yes, s.no = s.yes || v, s.no || !v
		default:
			if s.deep == nil {
				s.deep = map[digest]struct{}{}
			}
			s.deep[d.of(v)] = struct{}{}
		}
	}
	return s
}

// has reports whether a value is one of the set.
func (s *valueSet) has(v any, d *digester) bool {
	found := false
	switch v := v.(type) {
	case string:
		if len(v) > s.longest || !d.charge(len(v)/32) {
			return false
		}
		_, found = s.texts[v]
	case json.Number:
		if len(s.numbers) == 0 || !d.charge(len(v)/4) {
			return false
		}
		_, found = s.numbers[parseDecimal(v).key()]
	case nil:
		return s.null
	case bool:
		return v && s.yes || !v && s.no
	default:
		if len(s.deep) == 0 {
			return false
		}
		_, found = s.deep[d.of(v)]
	}
	return found
}

// digester makes digests, once for each list and object.
type digester struct {
	charge func(units int) bool
	memo   map[uintptr]digest
}

// of returns the value's digest; the zero one once the work is used up.
func (d *digester) of(v any) digest {
	var b []byte
	switch v := v.(type) {
	case nil:
		return sha256.Sum256([]byte("n"))
	case bool:
		if v {
			return sha256.Sum256([]byte("t"))
		}
		return sha256.Sum256([]byte("f"))
	case string:
		if !d.charge(20 + len(v)/2) {
			return digest{}
		}
		return sha256.Sum256(append(append(make([]byte, 0, len(v)+1), '"'), v...))
	case json.Number:
		if !d.charge(30 + len(v)/2) {
			return digest{}
		}
		return sha256.Sum256([]byte("0" + parseDecimal(v).key()))
	case []any:
		if len(v) > 0 {
			if sum, ok := d.memo[identity(v)]; ok {
				return sum
			}
		}
		if !d.charge(30 + 20*len(v)) {
			return digest{}
		}
		b = append(b, '[')
		for _, e := range v {
			sum := d.of(e)
			b = append(b, sum[:]...)
		}
		return d.keep(identity(v), len(v), b)
	case map[string]any:
		if sum, ok := d.memo[identity(v)]; ok {
			return sum
		}
		if !d.charge(30 + 60*len(v)) {
			return digest{}
		}
		b = append(b, '{')
		for _, k := range sortedKeys(v) {
			if !d.charge(len(k) / 8) {
				return digest{}
			}
			b = binary.AppendUvarint(b, uint64(len(k)))
			b = append(b, k...)
			sum := d.of(v[k])
			b = append(b, sum[:]...)
		}
		return d.keep(identity(v), len(v), b)
	}
	return digest{}
}

func (d *digester) keep(id uintptr, size int, b []byte) digest {
	sum := sha256.Sum256(b)
	if size > 0 {
		if d.memo == nil {
			d.memo = map[uintptr]digest{}
		}
		d.memo[id] = sum
	}
	return sum
}

// identity tells lists and objects of one decoded text apart; empty lists share
// one.
func identity(v any) uintptr { return reflect.ValueOf(v).Pointer() }

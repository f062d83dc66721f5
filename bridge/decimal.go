package bridge

import (
	"encoding/json"
	"math/bits"
	"strconv"
	"strings"
)

// maxExponent is where exponents are cut off, far beyond any that a schema can
// tell apart from it.
const maxExponent = 1 << 60

// maxMultipleDigits bounds the digits of a multipleOf, so that its remainder fits
// machine words.
const maxMultipleDigits = 18

// decimal is a JSON number as its text means it, exact at any size: digits times
// ten to the exponent. There is no zero at either end of the digits; zero has
// none. Every operation is linear in the digits, whatever the exponent.
type decimal struct {
	neg    bool
	digits string
	exp    int
}

// parseDecimal takes a number whose grammar was checked.
func parseDecimal(n json.Number) decimal {
	text := string(n)
	var d decimal
	if text != "" && text[0] == '-' {
		d.neg, text = true, text[1:]
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		e, err := strconv.Atoi(text[i+1:])
		if err != nil || e > maxExponent || e < -maxExponent {
			if e = maxExponent; text[i+1] == '-' {
				e = -maxExponent
			}
		}
		d.exp, text = e, text[:i]
	}
	if whole, frac, ok := strings.Cut(text, "."); ok {
		d.exp -= len(frac)
		text = whole + frac
	}
	text = strings.TrimLeft(text, "0")
	d.digits = strings.TrimRight(text, "0")
	if d.digits == "" {
		return decimal{}
	}
	d.exp += len(text) - len(d.digits)
	return d
}

func (d decimal) isInteger() bool { return d.exp >= 0 || d.digits == "" }

// key is equal for equal numbers.
func (d decimal) key() string {
	k := d.digits + "e" + strconv.Itoa(d.exp)
	if d.neg {
		return "-" + k
	}
	return k
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// cmp compares by value.
func (d decimal) cmp(o decimal) int {
	s, t := d.sign(), o.sign()
	if s != t || s == 0 {
		return s - t
	}
	if a, b := d.exp+len(d.digits), o.exp+len(o.digits); a != b {
		if a < b {
			return -s
		}
		return s
	}
	// The same magnitude and no zeros at the ends: the texts compare like the values.
	return s * strings.Compare(d.digits, o.digits)
}

// multipleOf reports whether d is a whole multiple of m, which is not zero and
// has at most maxMultipleDigits digits.
func (d decimal) multipleOf(m decimal) bool {
	if d.digits == "" {
		return true
	}
	k := d.exp - m.exp
	if k < 0 {
		return false // d has no factor of ten left to give
	}
	div, err := strconv.ParseUint(m.digits, 10, 64)
	if err != nil || div == 0 {
		return false
	}
	r := uint64(0)
	for i := range len(d.digits) {
		r = (r*10 + uint64(d.digits[i]-'0')) % div
	}
	mul := func(a, b uint64) uint64 {
		hi, lo := bits.Mul64(a%div, b%div)
		return bits.Rem64(hi, lo, div)
	}
	for base := uint64(10); k > 0; k >>= 1 {
		if k&1 == 1 {
			r = mul(r, base)
		}
		base = mul(base, base)
	}
	return r%div == 0
}

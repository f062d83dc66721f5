package values

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Size reads a number of bytes with an optional binary unit: 65536, 64K, 256M,
// 1G, 2T. Zero, negative and "unlimited" are refused, and so is what lies
// outside the bounds.
func Size(s string, least, most int64) (int64, error) {
	if err := checkLimit(s); err != nil {
		return 0, err
	}
	digits, shift := s, 0
	if i := strings.IndexByte("KMGT", s[len(s)-1]&^0x20); i >= 0 && isLetter(s[len(s)-1]) {
		digits, shift = s[:len(s)-1], 10*(i+1)
	}
	n, err := wholeNumber(s, digits, "a size")
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt64>>shift {
		return 0, badf("%s is too large", Quote(s))
	}
	return within(s, n<<shift, least, most, FormatSize)
}

// Count reads a whole number within the bounds.
func Count(s string, least, most int64) (int64, error) {
	if err := checkLimit(s); err != nil {
		return 0, err
	}
	n, err := wholeNumber(s, s, "a whole number")
	if err != nil {
		return 0, err
	}
	return within(s, n, least, most, func(n int64) string { return strconv.FormatInt(n, 10) })
}

// Share reads a number of processors, such as 1, 0.5 or 2.25.
func Share(s string, least, most float64) (float64, error) {
	if err := checkLimit(s); err != nil {
		return 0, err
	}
	// ParseFloat also reads hexadecimal, underscores and exponents, which nobody
	// means by a number of processors.
	if strings.Trim(s, "0123456789.") != "" {
		return 0, badf("%s is not a decimal number", Quote(s))
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return 0, badf("%s is not a decimal number", Quote(s))
	case f == 0:
		return 0, badf("%s would mean no limit, which does not exist", Quote(s))
	case f < least:
		return 0, badf("%s is less than %v", Quote(s), least)
	case f > most:
		return 0, badf("%s is more than %v", Quote(s), most)
	}
	return f, nil
}

// Duration reads a Go duration, such as 1m30s or 500ms.
func Duration(s string, least, most time.Duration) (time.Duration, error) {
	if err := checkLimit(s); err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		if _, err := strconv.ParseUint(s, 10, 64); err == nil && strings.Trim(s, "0") != "" {
			return 0, badf("%s has no unit", Quote(s))
		}
		return 0, badf("%s is not a duration", Quote(s))
	}
	n, err := within(s, int64(d), int64(least), int64(most),
		func(n int64) string { return FormatDuration(time.Duration(n)) })
	return time.Duration(n), err
}

// FormatDuration returns the duration in the form that Duration reads, without
// the zero parts of time.Duration's own form: 30m, not 30m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// FormatSize returns the number of bytes in the form that Size reads, with the
// largest unit that keeps it exact.
func FormatSize(n int64) string {
	unit := 0
	for n != 0 && n%1024 == 0 && unit < len(sizeUnits)-1 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + sizeUnits[unit]
}

// sizeUnits are the binary units by the power of 1024.
var sizeUnits = [...]string{"", "K", "M", "G", "T"}

func wholeNumber(s, digits, kind string) (int64, error) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, badf("%s is not %s", Quote(s), kind)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, badf("%s is too large", Quote(s))
	}
	return n, nil
}

// within refuses n outside the bounds; zero gets the sentence of its own where
// the bounds exclude it, since other tools take it for "unlimited".
func within(s string, n, least, most int64, format func(int64) string) (int64, error) {
	switch {
	case n == 0 && least > 0:
		return 0, badf("%s would mean no limit, which does not exist", Quote(s))
	case n < least:
		return 0, badf("%s is less than %s", Quote(s), format(least))
	case n > most:
		return 0, badf("%s is more than %s", Quote(s), format(most))
	}
	return n, nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// Package values reads the textual forms that flags and profile values take:
// sizes, durations, counts, pairs and command lines.
//
// Every error is a [Bad]: it says what is wrong with the text and nothing else.
// The caller knows the flag's name and the values that it allows.
package values

import (
	"fmt"
	"strings"
)

// Bad says what is wrong with a value. Its text is one printable line whatever
// the value held.
type Bad string

// Error returns what is wrong.
func (b Bad) Error() string { return string(b) }

func badf(format string, args ...any) error { return Bad(fmt.Sprintf(format, args...)) }

// quotedBytes is how much of a wrong value an error repeats: enough to
// recognise it, never enough to flood a terminal or a log.
const quotedBytes = 64

// Quote returns the value as one printable, quoted line, cut where it is long.
func Quote(s string) string {
	if len(s) > quotedBytes {
		return fmt.Sprintf("%q... (%d bytes)", s[:quotedBytes], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// noLimit lists the words that other tools take for "unlimited". They get an
// error of their own: a user who types one has to learn that it does not exist
// here, not that it is no number.
var noLimit = [...]string{
	"unlimited", "unlimit", "nolimit", "none", "no", "off", "max", "maximum",
	"inf", "+inf", "-inf", "infinity", "infinite", "forever", "never", "∞", "nan",
}

// checkLimit refuses what stands for "no limit" in other tools, and emptiness.
func checkLimit(s string) error {
	if s == "" {
		return Bad("the value is empty")
	}
	word := strings.ToLower(s)
	for _, w := range noLimit {
		if word == w {
			return badf("%s would mean no limit, which does not exist", Quote(s))
		}
	}
	if len(s) > 1 && s[0] == '-' && strings.IndexByte("0123456789.", s[1]) >= 0 {
		return badf("%s is negative", Quote(s))
	}
	return nil
}

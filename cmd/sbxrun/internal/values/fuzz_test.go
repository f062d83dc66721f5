package values

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkLine fails unless the error is one printable line that could stand in a
// terminal, whatever the input was.
func checkLine(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	if text == "" || len(text) > 4*quotedBytes+200 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("error is not one short printable line: %q", text)
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"1", "65536", "64K", "1G", "9223372036854775807", "8388608T", "0", "-1", "max", "1.5G", "K", "", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Size(s, 1, math.MaxInt64)
		checkLine(t, err)
		if err != nil {
			return
		}
		if n <= 0 {
			t.Fatalf("Size(%q) = %d", s, n)
		}
		if again, err := Size(FormatSize(n), 1, math.MaxInt64); err != nil || again != n {
			t.Fatalf("Size(%q) = %d, which reads back as %d, %v", s, n, again, err)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"1s", "1m30s", "500ms", "0", "-1s", "30", "1h1h", "9999999h", ".s", "1µs", "forever"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Duration(s, time.Millisecond, 1000*time.Hour)
		checkLine(t, err)
		if err != nil {
			return
		}
		if d < time.Millisecond || d > 1000*time.Hour {
			t.Fatalf("Duration(%q) = %v", s, d)
		}
		if again, err := Duration(FormatDuration(d), time.Millisecond, 1000*time.Hour); err != nil || again != d {
			t.Fatalf("Duration(%q) = %v, which reads back as %v, %v", s, d, again, err)
		}
	})
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"a b", `a 'b c' "d\"e"`, `a\ b`, `'`, `"`, `\`, "", "''", "\x00", "a\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words, err := Words(s)
		checkLine(t, err)
		if err != nil {
			return
		}
		if len(words) == 0 || words[0] == "" {
			t.Fatalf("Words(%q) = %q: no command", s, words)
		}
		again, err := Words(JoinWords(words))
		if err != nil || !slices.Equal(again, words) {
			t.Fatalf("Words(%q) = %q, which reads back as %q, %v", s, words, again, err)
		}
	})
}

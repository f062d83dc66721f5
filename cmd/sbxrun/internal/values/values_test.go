package values

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "65536": 65536, "64K": 65536, "64k": 65536, "256M": 256 << 20, "1G": 1 << 30, "2t": 2 << 40,
		"007": 7,
	} {
		if got, err := Size(in, 1, 4<<40); err != nil || got != want {
			t.Errorf("Size(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"":                     "the value is empty",
		"0":                    `"0" would mean no limit, which does not exist`,
		"0K":                   `"0K" would mean no limit, which does not exist`,
		"-1":                   `"-1" is negative`,
		"--":                   `"--" is not a size`,
		"-":                    `"-" is not a size`,
		"unlimited":            `"unlimited" would mean no limit, which does not exist`,
		"None":                 `"None" would mean no limit, which does not exist`,
		"max":                  `"max" would mean no limit, which does not exist`,
		"Infinity":             `"Infinity" would mean no limit, which does not exist`,
		"M":                    `"M" is not a size`,
		"1.5G":                 `"1.5G" is not a size`,
		"1 G":                  `"1 G" is not a size`,
		"+5":                   `"+5" is not a size`,
		"1_000":                `"1_000" is not a size`,
		"0x10":                 `"0x10" is not a size`,
		"1KB":                  `"1KB" is not a size`,
		"5+":                   `"5+" is not a size`,
		"9999999999999999999":  `"9999999999999999999" is too large`,
		"9223372036854775807T": `"9223372036854775807T" is too large`,
		"8388608T":             `"8388608T" is too large`,
		"5T":                   `"5T" is more than 4T`,
		"1":                    `"1" is less than 2`,
		"1\n2":                 `"1\n2" is not a size`,
	} {
		if got, err := Size(in, 2, 4<<40); err == nil || err.Error() != want {
			t.Errorf("Size(%q) = %d, %v; want error %s", in, got, err, want)
		}
	}
}

func TestFormatSizeReadsBack(t *testing.T) {
	for _, n := range []int64{1, 1023, 1024, 1536, 256 << 20, 1 << 30, 1 << 40, 1 << 60, math.MaxInt64} {
		got, err := Size(FormatSize(n), 1, math.MaxInt64)
		if err != nil || got != n {
			t.Errorf("Size(FormatSize(%d) = %q) = %d, %v", n, FormatSize(n), got, err)
		}
	}
}

func TestCountShareDuration(t *testing.T) {
	if n, err := Count("0", 0, 9); err != nil || n != 0 {
		t.Errorf("Count(0) within 0..9 = %d, %v", n, err)
	}
	if f, err := Share("0.5", 0.01, 8); err != nil || f != 0.5 {
		t.Errorf("Share(0.5) = %v, %v", f, err)
	}
	if d, err := Duration("1m30s", time.Millisecond, time.Hour); err != nil || d != 90*time.Second {
		t.Errorf("Duration(1m30s) = %v, %v", d, err)
	}
	count := func(s string) error { _, err := Count(s, 1, 100); return err }
	share := func(s string) error { _, err := Share(s, 0.01, 8); return err }
	duration := func(s string) error { _, err := Duration(s, time.Millisecond, time.Hour); return err }
	for _, c := range []struct {
		read     func(string) error
		in, want string
	}{
		{count, "0", `"0" would mean no limit, which does not exist`},
		{count, "101", `"101" is more than 100`},
		{count, "1K", `"1K" is not a whole number`},
		{count, "1.0", `"1.0" is not a whole number`},
		{share, "0", `"0" would mean no limit, which does not exist`},
		{share, "0.00", `"0.00" would mean no limit, which does not exist`},
		{share, "NaN", `"NaN" would mean no limit, which does not exist`},
		{share, "1e3", `"1e3" is not a decimal number`},
		{share, "0x1p4", `"0x1p4" is not a decimal number`},
		{share, ".", `"." is not a decimal number`},
		{share, "1.2.3", `"1.2.3" is not a decimal number`},
		{share, "0.001", `"0.001" is less than 0.01`},
		{share, "9", `"9" is more than 8`},
		{duration, "30", `"30" has no unit`},
		{duration, "0", `"0" would mean no limit, which does not exist`},
		{duration, "0s", `"0s" would mean no limit, which does not exist`},
		{duration, "-5s", `"-5s" is negative`},
		{duration, "forever", `"forever" would mean no limit, which does not exist`},
		{duration, "1us", `"1us" is less than 1ms`},
		{duration, "2h", `"2h" is more than 1h`},
		{duration, "5 s", `"5 s" is not a duration`},
		{duration, "999999999999h", `"999999999999h" is not a duration`},
	} {
		if err := c.read(c.in); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v; want %s", c.in, err, c.want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30s", 30 * time.Minute: "30m", 720 * time.Hour: "720h",
		90 * time.Minute: "1h30m", 10 * time.Hour: "10h", time.Hour + time.Second: "1h0m1s",
		500 * time.Millisecond: "500ms", 100 * time.Second: "1m40s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestPairs(t *testing.T) {
	if k, v, err := Pair("A=b=c"); err != nil || k != "A" || v != "b=c" {
		t.Errorf("Pair = %q %q %v", k, v, err)
	}
	for _, in := range []string{"", "A", "=b", "A=\x00"} {
		if _, _, err := Pair(in); err == nil {
			t.Errorf("Pair(%q) took it", in)
		}
	}
	for in, want := range map[string][2]string{
		"a": {"a", ""}, "a:b": {"a", "b"}, "a:b:c": {"a:b", "c"}, "/x/y:/z": {"/x/y", "/z"},
	} {
		if p, r, err := PathPair(in); err != nil || p != want[0] || r != want[1] {
			t.Errorf("PathPair(%q) = %q %q %v", in, p, r, err)
		}
	}
	for _, in := range []string{"", ":", "a:", ":b", "a\x00"} {
		if _, _, err := PathPair(in); err == nil {
			t.Errorf("PathPair(%q) took it", in)
		}
	}
}

func TestUserAndHostname(t *testing.T) {
	if u, g, err := User("1000"); err != nil || u != 1000 || g != 1000 {
		t.Errorf("User(1000) = %d %d %v", u, g, err)
	}
	if u, g, err := User("1:4294967294"); err != nil || u != 1 || g != MaxID {
		t.Errorf("User(1:4294967294) = %d %d %v", u, g, err)
	}
	for _, in := range []string{"", "0", "1:0", "root", "1:", ":1", "-1", "4294967295", "1:2:3", "1 ", "99999999999999999999"} {
		if _, _, err := User(in); err == nil {
			t.Errorf("User(%q) took it", in)
		}
	}
	for _, in := range []string{"a", "box-1", "A9", strings.Repeat("a", 63)} {
		if err := Hostname(in); err != nil {
			t.Errorf("Hostname(%q): %v", in, err)
		}
	}
	for _, in := range []string{"", "-a", "a.b", ".", "a_b", "a b", "a\n", "ä", strings.Repeat("a", 64)} {
		if err := Hostname(in); err == nil {
			t.Errorf("Hostname(%q) took it", in)
		}
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{
		"a":                {"a"},
		"  a  b\tc\n":      {"a", "b", "c"},
		`a 'b c' "d e"`:    {"a", "b c", "d e"},
		`a'b'"c"d`:         {"abcd"},
		`a ''`:             {"a", ""},
		`a\ b`:             {"a b"},
		`"a\"b\\c\d"`:      {`a"b\c\d`},
		`'a\b'`:            {`a\b`},
		`x $HOME ; | > *`:  {"x", "$HOME", ";", "|", ">", "*"},
		"x `id` $(id) # y": {"x", "`id`", "$(id)", "#", "y"},
	} {
		if got, err := Words(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("Words(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "  ", `a 'b`, `a "b`, `a\`, "a\x00b", `'' a`, `"\"`} {
		if got, err := Words(in); err == nil {
			t.Errorf("Words(%q) = %q", in, got)
		}
	}
}

func TestQuoteIsOneShortLine(t *testing.T) {
	got := Quote("a\n\x1b[31m" + strings.Repeat("x", 1<<20))
	if strings.ContainsAny(got, "\n\x1b") || len(got) > 200 || !strings.Contains(got, "bytes)") {
		t.Errorf("Quote = %q", got)
	}
}

package runtime

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// drain runs a stream over the chunks, each as one write.
func drain(t *testing.T, limit int64, to io.Writer, chunks ...string) (*stream, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	overs := 0
	s := newStream(r, to, limit, func() { overs++ })
	go s.run()
	for _, c := range chunks {
		if _, err := w.WriteString(c); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	s.finish()
	s.close()
	return s, overs
}

func TestStreamLimit(t *testing.T) {
	for _, c := range []struct {
		limit     int64
		in, out   string
		truncated bool
	}{
		{10, "", "", false}, {3, "abc", "abc", false}, {3, "abcd", "abc", true}, {1, "abcd", "a", true},
		{5, "a\x00\xff\n\x1b", "a\x00\xff\n\x1b", false},
	} {
		var out bytes.Buffer
		s, overs := drain(t, c.limit, &out, c.in)
		total, truncated := s.usage()
		if out.String() != c.out || truncated != c.truncated || total != int64(len(c.in)) {
			t.Errorf("%q limit %d: %q truncated %v total %d", c.in, c.limit, out.String(), truncated, total)
		}
		if want := map[bool]int{true: 1}[c.truncated]; overs != want {
			t.Errorf("%q: overflow was told %d times", c.in, overs)
		}
	}
}

// However the bytes are cut, the same arrive and overflow is told once.
func TestStreamChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var chunks []string
	for rest := data; len(rest) > 0; {
		n := min(len(rest), 1+r.IntN(9000))
		chunks, rest = append(chunks, string(rest[:n])), rest[n:]
	}
	var out bytes.Buffer
	s, overs := drain(t, 200_000, &out, chunks...)
	if total, _ := s.usage(); !bytes.Equal(out.Bytes(), data[:200_000]) || total != 300_000 || overs != 1 {
		t.Errorf("%d bytes, total %d, overflow %d", out.Len(), total, overs)
	}
}

type failingWriter struct{ calls int }

func (w *failingWriter) Write([]byte) (int, error) { w.calls++; return 0, errors.New("full") }

func TestStreamGoesOnWithoutItsWriter(t *testing.T) {
	w := &failingWriter{}
	s, _ := drain(t, 1<<20, w, strings.Repeat("x", 60_000), strings.Repeat("y", 60_000), strings.Repeat("z", 60_000))
	total, truncated := s.usage()
	if total != 180_000 || !truncated || w.calls != 1 {
		t.Errorf("total %d truncated %v calls %d", total, truncated, w.calls)
	}
	if s, _ := drain(t, 10, nil, "abc"); s.total != 3 || s.truncated {
		t.Error("without a writer the bytes are not counted alone")
	}
}

func TestLastLine(t *testing.T) {
	long := strings.Repeat("x", tailBytes)
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"a", "a"}, {"a\n", "a"}, {"a\nb", "b"}, {"a\nb\n", "b"}, {"a\n\n\n", "a"}, {"a\n \n", " "},
		{"RESULT: 1", "RESULT: 1"}, {"x\nRESULT: {\"a\":1}\n\n", `RESULT: {"a":1}`},
		{long + "\nlast\n", "last"}, {"RESULT: 1\n" + long + long + "\n", "?"}, {long + long + "RESULT: 1", "?"},
		{"\x00\xff\nz", "z"}, {"\n\n\na", "a"},
	} {
		for _, cut := range []int{1 << 30, 1, 997} {
			if cut == 1 && len(c.in) > tailBytes {
				continue
			}
			s := newStream(nil, nil, 1<<30, func() {})
			for rest := []byte(c.in); len(rest) > 0; {
				n := min(cut, len(rest))
				s.take(rest[:n])
				rest = rest[n:]
			}
			got := string(s.lastLine())
			if c.want == "?" { // a line too long is no result, whatever is kept of it
				if resultLine([]byte(got)) != nil {
					t.Errorf("an overlong line has a result")
				}
			} else if got != c.want {
				t.Errorf("%.40q cut %d: %.40q, want %q", c.in, cut, got, c.want)
			}
		}
	}
}

func TestResultLine(t *testing.T) {
	for in, want := range map[string]string{
		"RESULT: 1": "1", "RESULT:2": "2", `RESULT:  {"a":[1,2]} `: `{"a":[1,2]}`, "RESULT: null": "null",
		"RESULT: ": "", "RESULT: x": "", "result: 1": "", " RESULT: 1": "", "": "", "RESULT: 1 2": "", "RESULT: {": "",
	} {
		if got := string(resultLine([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzLastLine(f *testing.F) {
	f.Add([]byte("a\nRESULT: 1\n\n"), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		if len(in) > 4096 {
			return
		}
		s := newStream(nil, nil, 1<<30, func() {})
		for rest := in; len(rest) > 0; {
			n := min(max(1, cut%97), len(rest))
			s.take(rest[:n])
			rest = rest[n:]
		}
		want := ""
		for _, line := range strings.Split(string(in), "\n") {
			if line != "" {
				want = line
			}
		}
		if got := string(s.lastLine()); got != want {
			t.Errorf("%q cut %d: %q, want %q", in, cut, got, want)
		}
	})
}

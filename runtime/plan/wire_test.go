package plan

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sbxrun/sbxrun/errdef"
)

// samplePlan has every operation once.
func samplePlan() *Plan {
	p := &Plan{}
	for code := Op(1); code < 100; code++ {
		n := code.info().strings
		if n == -2 || code == OpExec {
			continue
		}
		var strs []string
		for i := range n {
			strs = append(strs, strings.Repeat("x", i*3+int(code)%7))
		}
		p.add(code, [4]uint64{uint64(code), 1 << 63, 0, ^uint64(0)}, strs...)
	}
	p.add(OpExec, [4]uint64{1, 2, 1}, "/bin/a", "a", "\x00bin\xff", "K=V")
	return p
}

func encode(t testing.TB, p *Plan) []byte {
	t.Helper()
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEncodeDecode(t *testing.T) {
	want := samplePlan()
	data := encode(t, want)
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
	if again := encode(t, got); string(again) != string(data) {
		t.Error("the second encoding differs")
	}
	compare(t, data)
}

func TestEncodeBounds(t *testing.T) {
	ops := func(n int) *Plan {
		p := &Plan{}
		for range n {
			p.add(OpPivot, [4]uint64{})
		}
		return p
	}
	args := func(n int) *Plan {
		p := &Plan{}
		p.add(OpExec, [4]uint64{1, uint64(n - 1), 0}, make([]string, n)...)
		return p
	}
	blob := func(n int) *Plan {
		p := &Plan{}
		p.add(OpWrite, [4]uint64{}, "a", strings.Repeat("x", n))
		return p
	}
	const fits = MaxSize - headerSize - opSize - 8 - 8
	for name, c := range map[string]struct {
		p  *Plan
		ok bool
	}{
		"no operation": {ops(0), false}, "most operations": {ops(MaxOps), true}, "an operation too many": {ops(MaxOps + 1), false},
		"most strings": {args(MaxStrings), true}, "a string too many": {args(MaxStrings + 1), false},
		"largest": {blob(fits), true}, "too large": {blob(fits + 8), false}, "far too large": {blob(2 * MaxSize), false},
	} {
		data, err := c.p.Encode()
		switch {
		case c.ok && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.ok:
			if len(data) > MaxSize {
				t.Errorf("%s: %d bytes", name, len(data))
			}
			if _, err := Decode(data); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			compare(t, data)
		case !errdef.Is(err, errdef.Invalid):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every code with every number of strings means the same on both sides.
func TestCodesAndArity(t *testing.T) {
	codes := []Op{OpDecode, OpClone, OpBoot, 0xffff, 1000}
	for c := range Op(80) {
		codes = append(codes, c)
	}
	accepted := 0
	for _, code := range codes {
		for n := range 6 {
			p := &Plan{}
			p.add(code, [4]uint64{1, uint64(n - 1), 0}, make([]string, n)...)
			data := encode(t, p)
			compare(t, data)
			if describe(data) != "-" {
				accepted++
			}
		}
	}
	if want := len(samplePlan().Ops) - 1 + 4; accepted != want { // exec with 2, 3, 4, 5 strings
		t.Errorf("%d forms are accepted, want %d", accepted, want)
	}
}

// A plan cut anywhere, and one with any byte changed, is read alike.
func TestDecodersAgreeOnDamage(t *testing.T) {
	data := encode(t, samplePlan())
	for n := range len(data) {
		compare(t, data[:n])
		cut := append([]byte{}, data[:n]...)
		if n >= 12 { // also where the header tells the cut length
			binary.LittleEndian.PutUint32(cut[8:], uint32(n))
			compare(t, cut)
		}
	}
	for i := range data {
		for _, flip := range []byte{1, 0x80, 0xff} {
			b := append([]byte{}, data...)
			b[i] ^= flip
			compare(t, b)
		}
	}
}

func TestDecodersAgreeOnRandomPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	base := encode(t, samplePlan())
	for range 20_000 {
		b := append([]byte{}, base...)
		for range 1 + r.IntN(4) {
			i := r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[i] = byte(r.Uint32())
			case 1: // the lengths and counts are where the mistakes are
				i &^= 3
				binary.LittleEndian.PutUint32(b[i:], uint32(r.IntN(64)))
			case 2:
				i &^= 3
				binary.LittleEndian.PutUint32(b[i:], ^uint32(r.IntN(16)))
			}
		}
		compare(t, b)
	}
}

func TestDecodeRefusesHeaders(t *testing.T) {
	good := encode(t, samplePlan())
	for name, change := range map[string]func([]byte) []byte{
		"magic":     func(b []byte) []byte { b[0]++; return b },
		"version":   func(b []byte) []byte { b[4]++; return b },
		"no ops":    func(b []byte) []byte { b[6], b[7] = 0, 0; return b },
		"more ops":  func(b []byte) []byte { b[6]++; return b },
		"fewer ops": func(b []byte) []byte { b[6]--; return b },
		"size":      func(b []byte) []byte { b[8]++; return b },
		"reserved":  func(b []byte) []byte { b[12] = 1; return b },
		"trailing":  func(b []byte) []byte { return append(b, 0) },
		"empty":     func([]byte) []byte { return nil },
		"too large": func([]byte) []byte { return make([]byte, MaxSize+8) },
	} {
		b := change(append([]byte{}, good...))
		if _, err := Decode(b); !errdef.Is(err, errdef.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
		compare(t, b)
	}
}

func TestSharedKey(t *testing.T) {
	a, err := NewShared(samplePlan())
	if err != nil {
		t.Fatal(err)
	}
	b, _ := NewShared(samplePlan())
	other := samplePlan()
	other.Ops[0].Args[3]--
	c, _ := NewShared(other)
	if a.Key != b.Key || a.Key == c.Key {
		t.Error("the key does not follow the content")
	}
	if _, err := NewShared(&Plan{}); !errdef.Is(err, errdef.Invalid) {
		t.Errorf("empty plan: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	p := samplePlan()
	data, err := p.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	small := &Plan{}
	small.add(OpExec, [4]uint64{1, 1, 1}, "/a", "a", "A=B")
	data, _ = small.Encode()
	f.Add(data)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		compare(t, data)
		p, err := Decode(data)
		if err != nil {
			return
		}
		for _, o := range p.Ops {
			_ = o.Op.String()
			_ = o.Detail() // explains without a panic
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		q, err := Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, q); d != "" {
			t.Error(d)
		}
	})
}

package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/sbxrun/sbxrun/errdef"
)

// The wire format's limits, the same as in the launcher's plan.h.
const (
	// MaxSize bounds a whole plan: arguments, environment and the generated
	// stubs. The launcher reads a plan into a static buffer of this size.
	MaxSize = 4 << 20
	// MaxOps is far above what a sandbox needs (about 100).
	MaxOps = 1024
	// MaxStrings bounds arguments plus environment of one program.
	MaxStrings = 16384

	magic      = 0x50584253 // "SBXP", little endian
	version    = 1
	headerSize = 16
	opSize     = 40
)

// Plan is an ordered list of operations.
type Plan struct {
	Ops []Operation
}

func (p *Plan) add(op Op, args [4]uint64, strs ...string) {
	p.Ops = append(p.Ops, Operation{Op: op, Args: args, Strings: strs})
}

// Encode returns the plan's wire form.
//
// Errors: [errdef.Invalid] where it exceeds a limit of the format.
func (p *Plan) Encode() ([]byte, error) {
	if len(p.Ops) == 0 || len(p.Ops) > MaxOps {
		return nil, tooLarge("set-up operations", len(p.Ops), MaxOps)
	}
	size := headerSize
	for i := range p.Ops {
		if n := len(p.Ops[i].Strings); n > MaxStrings {
			return nil, tooLarge("arguments and variables", n, MaxStrings)
		}
		size += p.Ops[i].wireSize()
		if size > MaxSize {
			return nil, tooLarge("bytes of arguments, environment and stubs", size, MaxSize)
		}
	}
	b := make([]byte, 0, size)
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(p.Ops)))
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for i := range p.Ops {
		b = p.Ops[i].append(b)
	}
	return b, nil
}

func tooLarge(what string, have, allowed int) error {
	return &errdef.Error{Code: errdef.Invalid, Op: "plan", Path: "program",
		Msg: fmt.Sprintf("too many %s: %d (allowed: at most %d)", what, have, allowed)}
}

// stringSize is a string's room: length, bytes, NUL, padding to 4.
func stringSize(s string) int { return 4 + (len(s)+1+3)&^3 }

func (o *Operation) wireSize() int {
	n := opSize
	for _, s := range o.Strings {
		n += stringSize(s)
	}
	return (n + 7) &^ 7
}

func (o *Operation) append(b []byte) []byte {
	start, size := len(b), o.wireSize()
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint16(b, uint16(o.Op))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(o.Strings)))
	for _, a := range o.Args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	for _, s := range o.Strings {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
		b = append(b, make([]byte, stringSize(s)-4-len(s))...)
	}
	return append(b, make([]byte, start+size-len(b))...)
}

// Decode is the inverse of [Plan.Encode]. It accepts exactly what the launcher's
// decoder accepts, and a fuzz test holds the two together.
func Decode(b []byte) (*Plan, error) {
	bad := func(what string) error {
		return &errdef.Error{Code: errdef.Invalid, Op: "plan", Msg: "malformed plan: " + what}
	}
	if len(b) < headerSize || len(b) > MaxSize {
		return nil, bad("size")
	}
	le := binary.LittleEndian
	nops := int(le.Uint16(b[6:]))
	if le.Uint32(b) != magic || le.Uint16(b[4:]) != version || int(le.Uint32(b[8:])) != len(b) ||
		le.Uint32(b[12:]) != 0 || nops == 0 || nops > MaxOps {
		return nil, bad("header")
	}
	p := &Plan{}
	rest := b[headerSize:]
	for range nops {
		if len(rest) < opSize {
			return nil, bad("operation header")
		}
		size := int(le.Uint32(rest))
		if size < opSize || size > len(rest) || size%8 != 0 {
			return nil, bad("operation size")
		}
		o := Operation{Op: Op(le.Uint16(rest[4:]))}
		nstr := int(le.Uint16(rest[6:]))
		want := o.Op.info().strings
		if o.Op >= OpDecode || want == -2 || nstr > MaxStrings || (want >= 0 && nstr != want) {
			return nil, bad("operation kind")
		}
		for i := range o.Args {
			o.Args[i] = le.Uint64(rest[8+8*i:])
		}
		body := rest[opSize:size]
		for range nstr {
			if len(body) < 4 {
				return nil, bad("string header")
			}
			n := int(le.Uint32(body))
			room := 4 + (n+1+3)&^3
			if n > MaxSize || room > len(body) || body[4+n] != 0 {
				return nil, bad("string")
			}
			o.Strings = append(o.Strings, string(body[4:4+n]))
			body = body[room:]
		}
		if len(body) >= 8 || (o.Op == OpExec && !execCountsOK(&o)) {
			return nil, bad("strings")
		}
		p.Ops = append(p.Ops, o)
		rest = rest[size:]
	}
	if len(rest) != 0 {
		return nil, bad("trailing bytes")
	}
	return p, nil
}

func execCountsOK(o *Operation) bool {
	a := o.Args
	for _, v := range a[:3] {
		if v > MaxStrings {
			return false
		}
	}
	return a[0] >= 1 && a[1] >= 1 && a[0]+a[1]+a[2] == uint64(len(o.Strings))
}

// Shared is a plan that serves more than one sandbox, encoded once; Key names
// its content.
type Shared struct {
	Plan *Plan
	Data []byte
	Key  [sha256.Size]byte
}

// NewShared encodes a plan.
func NewShared(p *Plan) (*Shared, error) {
	data, err := p.Encode()
	if err != nil {
		return nil, err
	}
	return &Shared{Plan: p, Data: data, Key: sha256.Sum256(data)}, nil
}

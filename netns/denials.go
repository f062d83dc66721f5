// Package netns reads what a sandbox's network namespace counted. In the mode
// "none" the namespace has loopback and no route, so every attempt to leave it
// ends in the kernel's "no route" counters.
package netns

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"

	"github.com/sbxrun/sbxrun/errdef"
)

// maxCounters bounds a counter file; the kernel's are below 8 KiB.
const maxCounters = 64 << 10

// Denials returns how many packets or connections found no route, IPv4 and IPv6
// (OutNoRoutes of RFC 4293; /proc/net/snmp and /proc/net/snmp6, proc(5)). The
// files belong to the namespace in which they were opened, so they can be read
// when its last process is gone. snmp6 is nil on a kernel without IPv6.
func Denials(snmp, snmp6 *os.File) (uint64, error) {
	v4, err := read(snmp)
	if err != nil {
		return 0, err
	}
	n, err := parseSNMP(v4)
	if err != nil || snmp6 == nil {
		return n, err
	}
	v6, err := read(snmp6)
	if err != nil {
		return n, err
	}
	m, err := parseSNMP6(v6)
	return n + m, err
}

func read(f *os.File) ([]byte, error) {
	if f == nil {
		return nil, fault("not open", nil)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, maxCounters))
	if err != nil {
		return nil, fault("cannot be read", err)
	}
	return data, nil
}

func fault(what string, err error) error {
	return &errdef.Error{Code: errdef.Internal, Op: "network-denials", Path: "IP counters", Msg: what, Err: err}
}

// parseSNMP finds the column OutNoRoutes of the pair of lines "Ip:".
func parseSNMP(data []byte) (uint64, error) {
	var names []string
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		f := bytes.Fields(sc.Bytes())
		if len(f) == 0 || string(f[0]) != "Ip:" {
			continue
		}
		if names == nil {
			for _, w := range f {
				names = append(names, string(w))
			}
			continue
		}
		for i, name := range names {
			if name == "OutNoRoutes" && i < len(f) {
				return parse(f[i])
			}
		}
	}
	return 0, fault("have no OutNoRoutes", nil)
}

// parseSNMP6 finds the line "Ip6OutNoRoutes N".
func parseSNMP6(data []byte) (uint64, error) {
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		if f := bytes.Fields(sc.Bytes()); len(f) == 2 && string(f[0]) == "Ip6OutNoRoutes" {
			return parse(f[1])
		}
	}
	return 0, fault("have no Ip6OutNoRoutes", nil)
}

func parse(b []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return 0, fault("are malformed", err)
	}
	return n, nil
}

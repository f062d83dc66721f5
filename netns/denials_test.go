package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
)

const snmpHead = "Ip: Forwarding DefaultTTL InReceives OutDiscards OutNoRoutes ReasmTimeout\n"

func TestParseSNMP(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want uint64
		ok   bool
	}{
		"usual":         {snmpHead + "Ip: 1 64 5 0 7 0\nIcmp: A\nIcmp: 1\n", 7, true},
		"not first":     {"Tcp: A\nTcp: 1\n" + snmpHead + "Ip: 1 64 5 0 7 0\n", 7, true},
		"largest":       {snmpHead + "Ip: 1 64 5 0 18446744073709551615 0\n", 1<<64 - 1, true},
		"no newline":    {"Ip: OutNoRoutes\nIp: 3", 3, true},
		"column moved":  {"Ip: OutNoRoutes Other\nIp: 3 4\n", 3, true},
		"empty":         {"", 0, false},
		"names only":    {snmpHead, 0, false},
		"short values":  {snmpHead + "Ip: 1 64\n", 0, false},
		"negative":      {"Ip: OutNoRoutes\nIp: -1\n", 0, false},
		"text":          {"Ip: OutNoRoutes\nIp: x\n", 0, false},
		"over":          {"Ip: OutNoRoutes\nIp: 18446744073709551616\n", 0, false},
		"no such name":  {"Ip: Forwarding\nIp: 1\n", 0, false},
		"other table":   {"IpExt: OutNoRoutes\nIpExt: 9\n", 0, false},
		"endless line":  {"Ip: " + strings.Repeat("x", 1<<20), 0, false},
		"binary":        {"\x00\xff\nIp:\x00OutNoRoutes\nIp: 4\n", 0, false},
		"blank between": {"Ip: OutNoRoutes\n\nIp: 5\n", 5, true},
	} {
		got, err := parseSNMP([]byte(c.text))
		check(t, name, got, err, c.want, c.ok)
	}
}

func TestParseSNMP6(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want uint64
		ok   bool
	}{
		"usual":    {"Ip6InReceives   \t0\nIp6OutNoRoutes                  \t12\n", 12, true},
		"empty":    {"", 0, false},
		"missing":  {"Ip6InReceives 1\n", 0, false},
		"prefix":   {"Ip6OutNoRoutesX 1\n", 0, false},
		"extra":    {"Ip6OutNoRoutes 1 2\n", 0, false},
		"negative": {"Ip6OutNoRoutes -2\n", 0, false},
	} {
		got, err := parseSNMP6([]byte(c.text))
		check(t, name, got, err, c.want, c.ok)
	}
}

func check(t *testing.T, name string, got uint64, err error, want uint64, ok bool) {
	t.Helper()
	switch {
	case ok && (err != nil || got != want):
		t.Errorf("%s: %d, %v; want %d", name, got, err, want)
	case !ok && !errdef.Is(err, errdef.Internal):
		t.Errorf("%s: %d, %v; want a typed error", name, got, err)
	}
}

func file(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestDenialsAddsBothFamilies(t *testing.T) {
	v4, v6 := file(t, "Ip: OutNoRoutes\nIp: 3\n"), file(t, "Ip6OutNoRoutes 4\n")
	for range 2 { // reading moves no offset
		if n, err := Denials(v4, v6); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if n, err := Denials(v4, nil); n != 3 || err != nil {
		t.Errorf("without IPv6: %d, %v", n, err)
	}
	if _, err := Denials(nil, v6); !errdef.Is(err, errdef.Internal) {
		t.Errorf("without IPv4: %v", err)
	}
	if n, err := Denials(v4, file(t, "")); n != 3 || err == nil {
		t.Errorf("with a broken IPv6 file: %d, %v", n, err)
	}
}

func TestDenialsOfThisKernel(t *testing.T) {
	v4, err := os.Open("/proc/net/snmp")
	if err != nil {
		t.Fatal(err)
	}
	defer v4.Close()
	v6, err := os.Open("/proc/net/snmp6")
	if err != nil {
		v6 = nil
	} else {
		defer v6.Close()
	}
	if _, err := Denials(v4, v6); err != nil {
		t.Error(err)
	}
}

func FuzzParseSNMP(f *testing.F) {
	f.Add([]byte(snmpHead + "Ip: 1 64 5 0 7 0\n"))
	f.Add([]byte("Ip:\nIp:\nIp:\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, err := parseSNMP(data); err != nil && (n != 0 || !errdef.Is(err, errdef.Internal)) {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func FuzzParseSNMP6(f *testing.F) {
	f.Add([]byte("Ip6OutNoRoutes 12\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parseSNMP6(data)
		if err == nil && !strings.Contains(string(data), "Ip6OutNoRoutes") {
			t.Error(fmt.Sprint("found ", n, " in nothing"))
		}
	})
}

package plan

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// launcherDir holds the C side of the wire format.
const launcherDir = "../direct/launcher"

// cDecoder is the launcher's own decoder, compiled for this host with
// sanitizers; see launcher/fuzz/driver.c.
type cDecoder struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

var startC = sync.OnceValues(func() (*cDecoder, error) {
	dir, err := os.MkdirTemp("", "sbxrun-decoder-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "driver")
	out, err := exec.Command("cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
		"-fno-sanitize-recover=all", "-o", bin, filepath.Join(launcherDir, "plan.c"),
		filepath.Join(launcherDir, "fuzz/driver.c")).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	c := &cDecoder{cmd: exec.Command(bin)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	pipe, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(pipe)
	return c, c.cmd.Start()
})

func theCDecoder(t testing.TB) *cDecoder {
	t.Helper()
	c, err := startC()
	if err != nil {
		t.Fatalf("the launcher's decoder cannot be built: %v", err)
	}
	return c
}

// decode returns what the C side makes of a plan.
func (c *cDecoder) decode(t testing.TB, data []byte) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	msg := append(binary.LittleEndian.AppendUint32(nil, uint32(len(data))), data...)
	if _, err := c.in.Write(msg); err != nil {
		t.Fatalf("the C decoder has died: %v", err)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the C decoder has died: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// describe is the driver's output for what the Go side decoded.
func describe(data []byte) string {
	p, err := Decode(data)
	if err != nil {
		return "-"
	}
	var b strings.Builder
	fmt.Fprint(&b, len(p.Ops))
	for _, o := range p.Ops {
		fmt.Fprint(&b, " ", uint16(o.Op), o.Args[0], o.Args[1], o.Args[2], o.Args[3], len(o.Strings))
		for _, s := range o.Strings {
			h := fnv.New64a()
			io.WriteString(h, s)
			fmt.Fprintf(&b, " %d:%x", len(s), h.Sum64())
		}
	}
	return b.String()
}

// compare holds the two decoders together on one input.
func compare(t testing.TB, data []byte) {
	t.Helper()
	if c, g := theCDecoder(t).decode(t, data), describe(data); c != g {
		t.Errorf("%d bytes %.200x:\nC  %.300s\nGo %.300s", len(data), data, c, g)
	}
}

package selftest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/probe"
)

// canary is a socket of the host that the sandbox must not reach. It counts
// what does reach it.
type canary struct {
	name, network, address string
	closer                 interface{ Close() error }
	secret                 string       // marks the host's own controls
	controls, others       atomic.Int64 // what reached it
}

// take counts what reached the canary.
func (c *canary) take(text []byte) {
	if string(text) == c.secret {
		c.controls.Add(1)
	} else {
		c.others.Add(1)
	}
}

// canaries are all that the host opens for a self-test.
type canaries struct {
	dir      string // holds the path socket and the file
	all      []*canary
	abstract string
	secret   string
}

const (
	// dialTimeout bounds the host's own connections to the canaries.
	dialTimeout = 2 * time.Second
	// readTimeout is how long a canary waits for what a visitor says. A few silent
	// ones must not use up dialTimeout.
	readTimeout = 200 * time.Millisecond
)

func openCanaries() (*canaries, error) {
	dir, err := os.MkdirTemp("", "sbxrun-selftest-")
	if err != nil {
		return nil, err
	}
	cs := &canaries{dir: dir, abstract: "sbxrun-selftest-" + rand.Text(), secret: rand.Text()}
	// Open to all: what keeps the sandbox out must not be the file's mode.
	err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(cs.file(), []byte("of the host\n"), 0o644),
		cs.listen("tcp4-canary", "tcp4", "127.0.0.1:0"),
		cs.packets("udp4-canary", "127.0.0.1:0"),
		cs.listen("unix-abstract-canary", "unix", "@"+cs.abstract),
		cs.listen("unix-path-canary", "unix", cs.socket()),
		os.Chmod(cs.socket(), 0o777))
	if err != nil {
		cs.close()
		return nil, fmt.Errorf("the canaries cannot be opened: %w", err)
	}
	// Not every host has IPv6.
	_ = cs.listen("tcp6-canary", "tcp6", "[::1]:0")
	return cs, nil
}

func (cs *canaries) file() string   { return filepath.Join(cs.dir, "file") }
func (cs *canaries) socket() string { return filepath.Join(cs.dir, "socket") }

func (cs *canaries) listen(name, network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	c := &canary{name: name, network: network, address: l.Addr().String(), closer: l, secret: cs.secret}
	cs.all = append(cs.all, c)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			// One after another, so that they are counted in their order.
			text := make([]byte, len(c.secret))
			_ = conn.SetReadDeadline(time.Now().Add(readTimeout))
			n, _ := io.ReadFull(conn, text) // who sends less is not the host
			c.take(text[:n])
			conn.Close()
		}
	}()
	return nil
}

func (cs *canaries) packets(name, address string) error {
	conn, err := net.ListenPacket("udp4", address)
	if err != nil {
		return err
	}
	c := &canary{name: name, network: "udp4", address: conn.LocalAddr().String(), closer: conn, secret: cs.secret}
	cs.all = append(cs.all, c)
	go func() {
		var buf [64]byte
		for {
			n, _, err := conn.ReadFrom(buf[:])
			if err != nil {
				return
			}
			c.take(buf[:n])
		}
	}()
	return nil
}

// controls connects to each canary from the host: a canary that nobody can reach
// would prove nothing. Connections are taken in their order, so when it is over
// all earlier ones are counted.
func (cs *canaries) controls() string {
	for _, c := range cs.all {
		before := c.controls.Load()
		conn, err := net.DialTimeout(c.network, c.address, dialTimeout)
		if err == nil {
			_, err = conn.Write([]byte(c.secret))
			conn.Close()
		}
		if err != nil {
			return c.name + ": " + err.Error()
		}
		for end := time.Now().Add(dialTimeout); c.controls.Load() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return c.name + ": not reached"
			}
		}
	}
	return expectReached
}

// onlyHost is the verdict on a canary that nothing else reached.
const onlyHost = "by the host only"

// verdicts says for each canary whether anything but the host reached it. A
// last control comes first, so that nothing is still on its way.
func (cs *canaries) verdicts() []Verdict {
	all := []Verdict{{Name: "control-host-still-reaches-canaries", Expected: expectReached, Got: cs.controls()}}
	for _, c := range cs.all {
		got := onlyHost
		if n := c.others.Load(); n > 0 {
			got = fmt.Sprintf("%d times by others", n)
		}
		all = append(all, Verdict{Name: c.name + "-reached", Expected: onlyHost, Got: got})
	}
	return all
}

// config tells the probe where the canaries are.
func (cs *canaries) config() probe.Config {
	c := probe.Config{Abstract: cs.abstract, Path: cs.socket(), File: cs.file(), HostAddrs: hostAddresses()}
	c.Namespaces = map[string]string{}
	for _, name := range probe.Namespaces {
		// An unreadable one is judged as a shared one.
		c.Namespaces[name], _ = os.Readlink("/proc/self/ns/" + name)
	}
	for _, canary := range cs.all {
		switch canary.name {
		case "tcp4-canary":
			c.TCP4 = port(canary.address)
		case "tcp6-canary":
			c.TCP6 = port(canary.address)
		case "udp4-canary":
			c.UDP4 = port(canary.address)
		}
	}
	return c
}

func port(address string) (n int) {
	_, _ = fmt.Sscan(address[strings.LastIndexByte(address, ':')+1:], &n) // ours, always a number
	return n
}

// hostAddresses returns the IPv4 addresses of the host but loopback.
func hostAddresses() []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var all []string
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			all = append(all, ip.IP.String())
		}
	}
	return all
}

func (cs *canaries) close() {
	for _, c := range cs.all {
		c.closer.Close()
	}
	_ = os.RemoveAll(cs.dir)
}

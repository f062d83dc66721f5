package runtime

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Threats, Isolation 2.
func TestOnlyLoopback(t *testing.T) {
	r := py(t, `
import socket, os
print(sorted(n for _, n in socket.if_nameindex()))
print(open("/proc/net/route").read().count("\n"))
print([l.split()[-1] for l in open("/proc/net/if_inet6")])
print([l for l in open("/proc/net/ipv6_route") if not l.rstrip().endswith("lo")])
print(os.path.exists("/sys/class/net"))
`).ok(t)
	if r.Out != "['lo']\n1\n['lo']\n[]\nFalse\n" {
		t.Errorf("%q", r.Out)
	}
}

// Case 24: local sockets of every kind work, names fail at once.
func TestLocalNetworkWorks(t *testing.T) {
	r := py(t, `
import socket, time
for fam, addr in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::ffff:127.0.0.1")):
    l = socket.socket(fam); l.bind((addr, 0)); l.listen()
    c = socket.create_connection(l.getsockname()[:2]); a, _ = l.accept()
    c.sendall(b"x"); print("tcp", addr, a.recv(1))
    u = socket.socket(fam, socket.SOCK_DGRAM); u.bind((addr, 0))
    v = socket.socket(fam, socket.SOCK_DGRAM); v.sendto(b"y", u.getsockname()); print("udp", addr, u.recv(1))
for name in ("s.sock", "\0abstract"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        l = socket.socket(socket.AF_UNIX, kind); l.bind(name + str(int(kind))); l.listen()
        c = socket.socket(socket.AF_UNIX, kind); c.connect(name + str(int(kind)))
        c.sendall(b"z"); print("unix", l.accept()[0].recv(1))
p = socket.socketpair(); p[0].send(b"p"); print("pair", p[1].recv(1))
print(socket.getaddrinfo("localhost", 1)[0][4])
t = time.monotonic()
try: socket.getaddrinfo("example.com", 1); print("resolved")
except socket.gaierror: print("no name", time.monotonic() - t < 2)
`).ok(t)
	want := ""
	for _, a := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1"} {
		want += fmt.Sprintf("tcp %s b'x'\nudp %s b'y'\n", a, a)
	}
	want += strings.Repeat("unix b'z'\n", 4) + "pair b'p'\n"
	if !strings.HasPrefix(r.Out, want) || !strings.HasSuffix(r.Out, "no name True\n") || r.NetworkDenials != 0 {
		t.Errorf("denials %d, %q", r.NetworkDenials, r.Out)
	}
}

// Case 27: each attempt is ENETUNREACH inside and counted.
func TestNetworkDenials(t *testing.T) {
	r := py(t, `
import socket
for fam, addr in ((socket.AF_INET, "1.1.1.1"), (socket.AF_INET6, "2606:4700:4700::1111")):
    try: socket.socket(fam).connect((addr, 443))
    except OSError as e: print(e.errno)
    try: socket.socket(fam, socket.SOCK_DGRAM).sendto(b"x", (addr, 53))
    except OSError as e: print(e.errno)
`).ok(t)
	if r.Out != strings.Repeat("101\n", 4) || r.NetworkDenials != 4 {
		t.Errorf("denials %d, %q", r.NetworkDenials, r.Out)
	}
	if r := py(t, `
import socket
try: socket.create_connection(("1.1.1.1", 443))
except OSError as e: print(e.errno)
`).ok(t); r.NetworkDenials != 1 || r.Out != "101\n" {
		t.Errorf("case 27: denials %d, %q", r.NetworkDenials, r.Out)
	}
}

func TestSocketFamilies(t *testing.T) {
	r := py(t, `
import socket
def tell(*a):
    try: socket.socket(*a).close(); print("ok")
    except OSError as e: print(e.errno)
for a in ((1,1),(1,2),(1,5),(2,1),(2,2),(10,1),(10,2),(16,3,0),(16,2,0),(2,1,6),(2,2,17)): tell(*a)
print("-")
for a in ((2,3,1),(2,3,255),(10,3,58),(2,2,1),(2,1,132),(2,1,262),(2,2,136),(17,3,0),(16,3,9),(16,3,12),(16,3,15),(16,3,16),(38,5,0),(40,1,0),(44,3,0),(1,3),(21,5,0),(30,2,0),(3,5,0),(31,3,0),(29,3,1)): tell(*a)
`).ok(t)
	good, bad, _ := strings.Cut(r.Out, "-\n")
	if good != strings.Repeat("ok\n", 11) {
		t.Errorf("allowed: %q", good)
	}
	if bad != strings.Repeat("1\n", 21) {
		t.Errorf("refused: %q", bad)
	}
}

// Case 7: nothing of the host answers; the host itself reaches each listener.
func TestHostSocketsAreUnreachable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "host.sock")
	abstract := fmt.Sprintf("@sbxrun-test-%d", time.Now().UnixNano())
	reached := make(chan string, 16)
	serve := func(network, addr string) string {
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				reached <- network + " " + addr
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	tcp := serve("tcp", "127.0.0.1:0")
	tcp6 := serve("tcp", "[::1]:0")
	serve("unix", path)
	serve("unix", abstract)
	_, port, _ := net.SplitHostPort(tcp)
	_, port6, _ := net.SplitHostPort(tcp6)
	r := py(t, fmt.Sprintf(`
import socket
for fam, addr in ((2, ("127.0.0.1", %s)), (10, ("::1", %s)), (1, %q), (1, "\0" + %q)):
    try: socket.socket(fam).connect(addr); print("reached", addr)
    except OSError as e: print(e.errno)
`, port, port6, path, abstract[1:])).ok(t)
	if r.Out != "111\n111\n2\n111\n" {
		t.Errorf("%q", r.Out)
	}
	select {
	case who := <-reached:
		t.Errorf("%s was reached from inside", who)
	default:
	}
	for _, a := range [][2]string{{"tcp", tcp}, {"tcp", tcp6}, {"unix", path}, {"unix", abstract}} {
		c, err := net.Dial(a[0], a[1])
		if err != nil {
			t.Errorf("control: the host cannot reach %v: %v", a, err)
			continue
		}
		c.Close()
		<-reached
	}
}

// A low port is the sandbox's own matter only where the namespace says so;
// what fails must fail as documented.
func TestTwoSandboxesShareNoNetwork(t *testing.T) {
	p := NewPolicy("/usr/bin/python3", "-uc", `
import socket, sys
l = socket.socket(); l.bind(("127.0.0.1", 7777)); l.listen()
a = socket.socket(socket.AF_UNIX); a.bind("\0shared"); a.listen()
print("ready"); sys.stdin.read()`)
	x := hold(t, testHost(t), p)
	r := py(t, `
import socket
for fam, addr in ((2, ("127.0.0.1", 7777)), (1, "\0shared")):
    try: socket.socket(fam).connect(addr); print("reached")
    except OSError as e: print(e.errno)
`).ok(t)
	if r.Out != "111\n111\n" {
		t.Errorf("%q", r.Out)
	}
	x.let()
}

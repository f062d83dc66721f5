package probe

import (
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The outside addresses are those reserved for documentation (RFC 5737, RFC
// 3849): nobody is reached even where the sandbox leaks.
const (
	outside4 = "192.0.2.1"
	outside6 = "2001:db8::1"
	webPort  = 443
	dnsPort  = 53
)

// connectWait is how long a connection may take before it counts as under way,
// which without a route it never gets to be.
const connectWait = 500 * time.Millisecond

func networkAttempts() []attempt {
	return []attempt{
		{"tcp4-outside", func(*Config) string { return dial(outside4, webPort, unix.SOCK_STREAM) }},
		{"tcp6-outside", func(*Config) string { return dial(outside6, webPort, unix.SOCK_STREAM) }},
		{"udp4-outside", func(*Config) string { return sendUDP(outside4, dnsPort) }},
		{"udp6-outside", func(*Config) string { return sendUDP(outside6, dnsPort) }},
		{"tcp4-host-addresses", dialHost},
		{"tcp4-canary", func(c *Config) string { return dialPort("127.0.0.1", c.TCP4) }},
		{"tcp6-canary", func(c *Config) string { return dialPort("::1", c.TCP6) }},
		{"udp4-canary", func(c *Config) string { return sendUDP("127.0.0.1", c.UDP4) }},
		{"unix-abstract-canary", func(c *Config) string { return dialUnix("@" + c.Abstract) }},
		{"unix-path-canary", func(c *Config) string { return dialUnix(c.Path) }},
		{"control-tcp4-loopback", func(*Config) string { return loopback("127.0.0.1") }},
		{"control-unix-socket", func(*Config) string { return ownUnixSocket() }},
		{"interfaces", func(*Config) string { return interfaces() }},
		{"routes", func(*Config) string { return routes() }},
		{"socket-raw", func(*Config) string { return openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
		{"socket-packet", func(*Config) string { return openSocket(unix.AF_PACKET, unix.SOCK_RAW, 0x300) }},
		{"socket-vsock", func(*Config) string { return openSocket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
		{"socket-netlink-audit", func(*Config) string { return openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) }},
		{"socket-alg", func(*Config) string { return openSocket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
	}
}

func openSocket(family, kind, proto int) string {
	return raw(true, unix.SYS_SOCKET, uintptr(family), uintptr(kind), uintptr(proto))
}

// endpoint returns the address as a system call takes it.
func endpoint(host string, port int) (family int, sa unix.Sockaddr) {
	addr, err := netip.ParseAddr(host)
	if err == nil && addr.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: addr.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: addr.As16()}
}

// dial connects and returns how that ended.
func dial(host string, port, kind int) string {
	family, sa := endpoint(host, port)
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return answer(err)
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, sa)
	if err != unix.EINPROGRESS {
		return answer(err)
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(poll, int(connectWait.Milliseconds()))
	if err != nil {
		return answer(err)
	}
	if n == 0 {
		return "under way"
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return answer(err)
	}
	if code != 0 {
		return answer(syscall.Errno(code))
	}
	return OK
}

// dialPort dials a canary that may be missing.
func dialPort(host string, port int) string {
	if port == 0 {
		return None
	}
	return dial(host, port, unix.SOCK_STREAM)
}

// dialHost dials an unused port at each of the host's addresses. A sandbox that
// shares the network is refused there, one without a route never gets so far.
func dialHost(c *Config) string {
	got := None
	for _, addr := range c.HostAddrs {
		got = dial(addr, 1, unix.SOCK_STREAM)
		if got != "ENETUNREACH" {
			return got
		}
	}
	return got
}

func sendUDP(host string, port int) string {
	if port == 0 {
		return None
	}
	family, sa := endpoint(host, port)
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answer(err)
	}
	defer unix.Close(fd)
	return answer(unix.Sendto(fd, []byte("probe"), 0, sa))
}

func dialUnix(name string) string {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answer(err)
	}
	defer unix.Close(fd)
	return answer(unix.Connect(fd, &unix.SockaddrUnix{Name: name}))
}

// loopback connects to a listener of its own: the control for every refused
// connection.
func loopback(host string) string {
	family, sa := endpoint(host, 0)
	l, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answer(err)
	}
	defer unix.Close(l)
	if err := unix.Bind(l, sa); err != nil {
		return answer(err)
	}
	if err := unix.Listen(l, 1); err != nil {
		return answer(err)
	}
	bound, err := unix.Getsockname(l)
	if err != nil {
		return answer(err)
	}
	if in4, ok := bound.(*unix.SockaddrInet4); ok {
		return dial(host, in4.Port, unix.SOCK_STREAM)
	}
	return "no port"
}

func ownUnixSocket() string {
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answer(err)
	}
	defer unix.Close(l)
	const name = "@sbxrun-probe-own"
	if err := unix.Bind(l, &unix.SockaddrUnix{Name: name}); err != nil {
		return answer(err)
	}
	if err := unix.Listen(l, 1); err != nil {
		return answer(err)
	}
	return dialUnix(name)
}

// interfaces names the network interfaces, asked from the kernel by netlink.
func interfaces() string {
	rib, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return answer(err)
	}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return answer(err)
	}
	var names []string
	for i := range messages {
		if messages[i].Header.Type != syscall.RTM_NEWLINK || len(messages[i].Data) < int(unsafe.Sizeof(syscall.IfInfomsg{})) {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&messages[i])
		if err != nil {
			return answer(err)
		}
		for _, a := range attrs {
			if a.Attr.Type == syscall.IFLA_IFNAME {
				names = append(names, strings.TrimRight(string(a.Value), "\x00"))
			}
		}
	}
	return list(names)
}

// routes returns the IPv4 routes, as text.
func routes() string {
	text, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return answer(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var found []string
	for _, line := range lines[1:] {
		if f := strings.Fields(line); len(f) > 1 {
			found = append(found, f[0]+":"+f[1])
		}
	}
	return list(found)
}

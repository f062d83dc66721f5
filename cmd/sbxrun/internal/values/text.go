package values

import (
	"strconv"
	"strings"
)

// Pair splits KEY=VALUE at the first equals sign. The key must not be empty;
// the value may be.
func Pair(s string) (key, value string, err error) {
	if s == "" {
		return "", "", Bad("the value is empty")
	}
	key, value, found := strings.Cut(s, "=")
	switch {
	case !found:
		return "", "", badf("%s has no \"=\"", Quote(s))
	case key == "":
		return "", "", badf("%s has no name before the \"=\"", Quote(s))
	}
	return key, value, NoNUL(s)
}

// PathPair splits A[:B] at the last colon, so that a first path with colons in
// it can be given together with its second one. rest is "" when it is absent.
func PathPair(s string) (path, rest string, err error) {
	if s == "" {
		return "", "", Bad("the value is empty")
	}
	path = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		path, rest = s[:i], s[i+1:]
		if rest == "" {
			return "", "", badf("%s has no path after the \":\"", Quote(s))
		}
	}
	if path == "" {
		return "", "", badf("%s has no path before the \":\"", Quote(s))
	}
	return path, rest, NoNUL(s)
}

// NoNUL refuses a NUL byte: it would end the string in the kernel, so that
// another value than the one given took effect.
func NoNUL(s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return badf("%s holds a NUL byte", Quote(s))
	}
	return nil
}

// MaxID is the largest user or group id: the kernel reserves 2^32-1 as "no id"
// (setresuid(2)).
const MaxID = 1<<32 - 2

// User reads UID[:GID]; without a group it is the same number. Names are not
// looked up: the host's password file says nothing about the sandbox.
func User(s string) (uid, gid uint32, err error) {
	if s == "" {
		return 0, 0, Bad("the value is empty")
	}
	u, g, both := strings.Cut(s, ":")
	if !both {
		g = u
	}
	for i, text := range []string{u, g} {
		n, err := strconv.ParseUint(text, 10, 32)
		switch what := [2]string{"user", "group"}[i]; {
		case text == "" || strings.Trim(text, "0123456789") != "":
			return 0, 0, badf("%s is not a numeric %s id", Quote(text), what)
		case err != nil || n > MaxID:
			return 0, 0, badf("%s id %s is more than %d", what, Quote(text), uint64(MaxID))
		case n == 0:
			return 0, 0, badf("%s id 0 is root, which no sandboxed program may be", what)
		}
		if i == 0 {
			uid = uint32(n)
		}
		gid = uint32(n)
	}
	return uid, gid, nil
}

// MaxHostname is the longest label of a host name (RFC 1123).
const MaxHostname = 63

// Hostname checks a host name: one label of letters, digits and hyphens that
// starts with none of the latter.
func Hostname(s string) error {
	switch {
	case s == "":
		return Bad("the value is empty")
	case len(s) > MaxHostname:
		return badf("%s is longer than %d bytes", Quote(s), MaxHostname)
	case s[0] == '-':
		return badf("%s starts with a hyphen", Quote(s))
	}
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && (c < '0' || c > '9') && c != '-' {
			return badf("%s is not a host name", Quote(s))
		}
	}
	return nil
}

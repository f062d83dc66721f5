package rootfs

import (
	"fmt"
	"os"
)

// hostEtc are the host's /etc entries that a program may need to run what is in
// /usr, with the reason: as few as possible, since each is a mount of every
// sandbox. None holds a secret or names the host; everything else in /etc stays
// outside.
func hostEtc() []string {
	return []string{
		"/etc/ld.so.cache",     // the dynamic linker's index of /usr/lib
		"/etc/alternatives",    // Debian's links from /usr/bin into /usr
		"/etc/ssl/certs",       // public certificates: clients load them at start
		"/etc/ssl/openssl.cnf", // and OpenSSL's providers
		"/etc/protocols",       // getprotobyname(3)
		"/etc/services",        // getservbyname(3)
		"/etc/mime.types",      // Python's mimetypes
		"/etc/fonts",           // fontconfig
		"/etc/perl",            // Debian's perl has part of @INC here
		"/etc/java-17-openjdk", // the JDK's /usr/lib/jvm links here
	}
}

// etc writes the view's /etc: accounts and name service of our own, and the
// harmless rest from the host.
func (v *View) etc(id Identity) {
	v.Dirs = append(v.Dirs, Dir{"/etc", 0o755}, Dir{"/etc/ssl", 0o755})
	put := func(name, data string) { v.Files = append(v.Files, File{"/etc/" + name, 0o444, data}) }
	put("passwd", fmt.Sprintf("sandbox:x:%d:%d:sandbox:%s:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		id.UID, id.GID, Workspace))
	put("group", fmt.Sprintf("sandbox:x:%d:\nnogroup:x:65534:\n", id.GID))
	put("hostname", id.Hostname+"\n")
	put("hosts", "127.0.0.1\tlocalhost "+id.Hostname+"\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	// Names are looked up in files only: an outside name fails at once instead
	// of waiting for a server that cannot be reached.
	put("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\nnetworks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n")
	put("resolv.conf", "# no network: names are looked up in /etc/hosts only\n")
	put("host.conf", "multi on\n")
	put("shells", "/bin/sh\n/bin/bash\n")
	put("machine-id", "")
	put("profile", "")
	v.Links = append(v.Links, Link{"/proc/self/mounts", "/etc/mtab"}, Link{"/usr/share/zoneinfo/UTC", "/etc/localtime"})
	for _, path := range hostEtc() {
		fi, err := os.Lstat(path)
		if err != nil { // not every host has each; nothing depends on its absence
			continue
		}
		if fi.Mode()&os.ModeSymlink != 0 {
			if target, err := os.Readlink(path); err == nil {
				v.Links = append(v.Links, Link{target, path})
			}
			continue
		}
		kind := KindFile
		if fi.IsDir() {
			kind = KindDir
			v.Dirs = append(v.Dirs, Dir{path, 0o755})
		} else if fi.Mode().IsRegular() {
			v.Files = append(v.Files, File{path, 0o444, ""})
		} else {
			continue
		}
		v.Binds = append(v.Binds, Bind{Source: path, Target: path, Kind: kind})
	}
}

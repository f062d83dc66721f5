package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sbxrun/sbxrun/seccomp"
)

func runCommand(name string, args ...string) error { return exec.Command(name, args...).Run() }

// bwrapArgs asks bubblewrap for what a sandbox of ours has: all namespaces, the
// host's /usr, fresh /proc, /dev and /tmp. It sets no limits and no filter.
func bwrapArgs() []string {
	return []string{"--unshare-all", "--unshare-user", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
		"--tmpfs", "/tmp", "/bin/true"}
}

// peerServer runs crun in a mount namespace of its own: on a hybrid host crun
// refuses unless a pure cgroup v2 is mounted, and the host's mounts are not ours
// to change.
type peerServer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	dir string
}

func startPeer() (*peerServer, error) {
	dir, err := os.MkdirTemp("", "sbxrun-bench-")
	if err != nil {
		return nil, err
	}
	p := &peerServer{dir: dir, cmd: exec.Command("/proc/self/exe", "-peer", dir)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

func (p *peerServer) run() error {
	if _, err := io.WriteString(p.in, "run\n"); err != nil {
		return err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return err
	}
	if line = strings.TrimSpace(line); line != "ok" {
		return fmt.Errorf("%s", line)
	}
	return nil
}

func (p *peerServer) close() {
	p.in.Close()
	p.cmd.Wait()
	os.RemoveAll(p.dir)
}

// servePeer is the other side of peerServer.
func servePeer(dir string) {
	if err := preparePeer(dir); err != nil {
		fmt.Println(err)
		return
	}
	in := bufio.NewScanner(os.Stdin)
	for n := 0; in.Scan(); n++ {
		cmd := exec.Command("crun", "--root", filepath.Join(dir, "state"), "--cgroup-manager=disabled",
			"run", "--bundle", dir, fmt.Sprintf("sbxrun-bench-%d-%d", os.Getpid(), n))
		cmd.Stdin = strings.NewReader("") // a pipe: crun changes the owner of the host's /dev/null
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Printf("crun: %v: %s\n", err, strings.ReplaceAll(string(out), "\n", " "))
			continue
		}
		fmt.Println("ok")
	}
}

func preparePeer(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		if err := syscall.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil {
			return err
		}
	}
	for _, d := range []string{"rootfs/usr", "rootfs/proc", "rootfs/dev", "rootfs/tmp", "rootfs/workspace", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, l := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+l, filepath.Join(dir, "rootfs", l)); err != nil {
			return err
		}
	}
	data, err := json.Marshal(peerSpec())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), data, 0o644)
}

// peerSpec is a bundle with full isolation, the user namespace included. The
// cgroup path is named although no cgroup is made: an empty one has been taken
// for the root.
func peerSpec() *specs.Spec {
	const firstID, ids = 1 << 20, 65536
	m := func(dst, typ, src string, opts ...string) specs.Mount {
		return specs.Mount{Destination: dst, Type: typ, Source: src, Options: opts}
	}
	s := &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs", Readonly: true},
		Process: &specs.Process{Args: []string{"/bin/true"}, Env: []string{"PATH=/usr/bin"}, Cwd: "/", NoNewPrivileges: true,
			User: specs.User{UID: 1000, GID: 1000}},
		Mounts: []specs.Mount{
			m("/usr", "bind", "/usr", "rbind", "ro", "nosuid", "nodev"),
			m("/proc", "proc", "proc", "nosuid", "nodev", "noexec"),
			m("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755", "size=65536k"),
			m("/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
			m("/dev/shm", "tmpfs", "shm", "nosuid", "nodev", "noexec", "mode=1777", "size=16m", "nr_inodes=1024"),
			m("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", "size=32m", "nr_inodes=8192"),
			m("/workspace", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777", "size=64m", "nr_inodes=16384"),
		},
		Linux: &specs.Linux{
			CgroupsPath: "/sbxrun-bench",
			UIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: firstID, Size: ids}},
			GIDMappings: []specs.LinuxIDMapping{{ContainerID: 0, HostID: firstID, Size: ids}},
			MaskedPaths: []string{"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
				"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/interrupts"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	// A filter as container engines pass it: a list of allowed names.
	allowed := specs.LinuxSyscall{Action: specs.ActAllow}
	for _, g := range seccomp.Groups(goruntime.GOARCH) {
		allowed.Names = append(allowed.Names, g.Syscalls...)
	}
	s.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{allowed}}
	for _, ns := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.NetworkNamespace, specs.MountNamespace,
		specs.IPCNamespace, specs.UTSNamespace, specs.UserNamespace, specs.CgroupNamespace} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: ns})
	}
	return s
}

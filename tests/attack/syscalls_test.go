package attack

import (
	"strings"
	"testing"
)

// TestSystemCalls: threats, Isolation 3, tried for real.
func TestSystemCalls(t *testing.T) {
	var b strings.Builder
	for _, name := range strings.Fields(`io_uring userfaultfd bpf perf keyctl add_key request_key unshare-user unshare-net unshare-time setns
		clone-user clone-mount clone-pid high-clone-user high-clone-mount high-clone-pid mount remount umount umount-mask pivot_root chroot
		fsopen open_tree move_mount fsmount mount_setattr statmount handle open-by-handle ptrace-init ptrace-seize ptrace-me vm-read vm-write
		getfd madvise-init kcmp fanotify quotactl swapon kexec init_module reboot acct syslog settimeofday sethostname mbind memfd_secret
		vmsplice sync lease high-lease notify tiocsti high-tiocsti tioclinux tiocsetd setflags personality high-personality raw-socket packet
		high-packet high-raw high-proto vsock alg pair-inet ulp caps-ambient mknod-null mknod-disk iopl modify_ldt`) {
		b.WriteString(name + " EPERM\n")
	}
	runC(t, "syscalls.c").ended(t).expect(t, b.String()+`
		control-getpid ok
		control-fcntl ok
		control-ioctl ok
		control-personality ok
		control-socket ok
		control-mkfifo ok
		clone3 ENOSYS
		unknown ENOSYS
		negative ENOSYS
		bad-seccomp EINVAL|EPERM
		dumpable ok
		keepcaps-setuid EINVAL
		i386 signal 31|exit 8
		i386-mount signal 31|exit 8
		i386-sysenter signal 31|exit 9
		x32 exit 38|signal 31|exit 1
		x32-io_uring exit 38|signal 31|exit 1`)
}

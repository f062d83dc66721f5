package direct

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// The launcher's (step, operation, errno) becomes the error that a host reads.
func TestStepErrors(t *testing.T) {
	p := &plan.Plan{Ops: []plan.Operation{
		{Op: plan.OpExec, Args: [4]uint64{2, 2, 0}, Strings: []string{"/a/prog", "/b/prog", "prog", "x"}},
		{Op: plan.OpChdir, Strings: []string{"/no"}},
		{Op: plan.OpCopy, Strings: []string{"/workspace/f"}},
		{Op: plan.OpBind, Strings: []string{"/src", "dst"}},
		{Op: plan.OpMount, Strings: []string{"tmpfs", "/tmp", "tmpfs", "size=1"}},
	}}
	for _, c := range []struct {
		step  uint32
		op    plan.Op
		errno syscall.Errno
		code  errdef.Code
		text  string
	}{
		{0, plan.OpExec, syscall.ENOENT, errdef.CommandNotFound, "prog: no such program in the sandbox: no such file or directory"},
		{0, plan.OpExec, syscall.ENOTDIR, errdef.CommandNotFound, "prog: no such program in the sandbox: not a directory"},
		{0, plan.OpExec, syscall.EACCES, errdef.NotExecutable, "prog: cannot be executed in the sandbox: permission denied"},
		{0, plan.OpExec, syscall.ENOEXEC, errdef.NotExecutable, "prog: cannot be executed in the sandbox: exec format error"},
		{0, plan.OpExec, syscall.E2BIG, errdef.Invalid, "prog: arguments and environment are too large: argument list too long"},
		{1, plan.OpChdir, syscall.ENOENT, errdef.Invalid, "cwd /no: cannot be entered in the sandbox: no such file or directory"},
		{2, plan.OpCopy, syscall.ENOSPC, errdef.Setup, "file /workspace/f: cannot be copied into the workspace: no space left on device"},
		{3, plan.OpBind, syscall.EINVAL, errdef.Setup, "bind /src on /dst: cannot be mounted: invalid argument"},
		{4, plan.OpMount, syscall.EPERM, errdef.Setup, "mount tmpfs on /tmp () size=1: cannot set up the sandbox: operation not permitted"},
		{0, plan.OpBoot, syscall.EPERM, errdef.Unsupported, "the launcher cannot make namespaces of its own: operation not permitted"},
		{0, plan.OpClone, syscall.EAGAIN, errdef.Setup, "cannot set up the sandbox: resource temporarily unavailable"},
		{4, plan.OpDropCaps, syscall.EPERM, errdef.Setup, "cannot set up the sandbox: operation not permitted"}, // a step that is another
	} {
		err := stepError(p, report{kind: repFailed, step: c.step, op: c.op, value: int32(c.errno)})
		if !errdef.Is(err, c.code) || err.Error() != c.text || !errors.Is(err, c.errno) {
			t.Errorf("%v %v: %q", c.op, c.errno, err)
		}
	}
}

// A report that names a step of no plan must not end the host.
func TestStepErrorOutOfRange(t *testing.T) {
	for _, op := range []plan.Op{plan.OpExec, plan.OpChdir, plan.OpCopy, plan.OpBind, plan.OpMount, 0xffff} {
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%v: panic %v", op, r)
				}
			}()
			if err := stepError(&plan.Plan{}, report{kind: repFailed, step: 1 << 31, op: op, value: 1}); err == nil {
				t.Errorf("%v: no error", op)
			}
		}()
	}
}

func TestSetupErrorCodes(t *testing.T) {
	for errno, want := range map[syscall.Errno]errdef.Code{
		syscall.EMFILE: errdef.Resource, syscall.ENFILE: errdef.Resource, syscall.ENOMEM: errdef.Resource,
		syscall.EPERM: errdef.Setup, syscall.EINVAL: errdef.Setup,
	} {
		if err := setupErr(os.NewSyscallError("x", errno)); !errdef.Is(err, want) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	for err, want := range map[error]bool{io.EOF: true, syscall.EPIPE: true, syscall.ECONNRESET: true, syscall.EPERM: false, nil: false} {
		if launcherGone(err) != want || err != nil && launcherGone(fmt.Errorf("x: %w", err)) != want {
			t.Errorf("%v", err)
		}
	}
}

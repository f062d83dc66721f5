package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
)

const (
	// commandPath and commandLang are the whole environment of a tool's command,
	// beside what its definition adds: nothing of the host's leaks into tools.
	commandPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	commandLang = "LANG=C.UTF-8"
	// commandStderr is how much of the end of a command's standard error is kept
	// for its last line, in bytes.
	commandStderr = 8 << 10
	// commandDrain is how long a command's output may stay open after it ended and
	// its group was killed: a busy host takes its time to end processes. Its own
	// output is in the pipe by then and costs no wait.
	commandDrain = time.Second
	// stderrDrain is the same for standard error, whose end only matters for its
	// last line.
	stderrDrain = 20 * time.Millisecond
)

// Command returns a handler that runs a host program for each call, outside of
// any sandbox: argv as given (no shell, never the arguments), the arguments as one
// JSON object on standard input, one JSON value on standard output. A non-zero exit
// is a tool_error with the last line of standard error. The environment is PATH,
// LANG and env; the working directory is /. Output beyond DefaultResult bytes
// kills it (too_large).
//
// The program leads a session and a process group of its own. The group is killed
// at the deadline, when the sandboxed program ends and when the leader ends. The
// leader is also killed when the host process dies, however that happens, unless
// it is a set-id program or one with file capabilities: the kernel forgets the
// wish there. What leaves the group (setsid, a shell's set -m) is not found: it
// survives the call, and children of the leader survive a kill -9 of the host.
// Only a cgroup for each call would hold them.
//
// A value is delivered only when the output has ended: a process that was left
// behind and holds the output open makes the call a tool_error. Redirect the
// output of what is meant to stay.
//
// The program gets descriptors 0 to 2, and whatever the host process has open
// without close-on-exec: Go opens nothing so, but C libraries and inherited
// descriptors may.
func Command(argv []string, env map[string]string) (Handler, error) { return newCommand(argv, env) }

type command struct {
	argv []string
	env  []string
}

func newCommand(argv []string, env map[string]string) (*command, error) {
	bad := func(field, msg string) error { return errdef.Field(field, msg, "") }
	if len(argv) == 0 || argv[0] == "" {
		return nil, bad("command", "must name a program")
	}
	c := &command{argv: slices.Clone(argv), env: []string{commandPath, commandLang}}
	for _, a := range argv {
		if strings.ContainsRune(a, 0) {
			return nil, bad("command", "holds a zero byte")
		}
	}
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return nil, bad("env", "bad variable "+quote(k))
		}
		c.env = append(c.env, k+"="+v)
	}
	slices.Sort(c.env[2:])
	return c, nil
}

// Call runs the program once.
func (c *command) Call(ctx context.Context, call Call) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := &output{cap: DefaultResult, full: make(chan struct{})}
	errs := &output{tail: true}
	var in, childIn *os.File
	var err error
	defer func() { closeAll(in, childIn, out.r, out.w, errs.r, errs.w) }()
	if childIn, in, err = os.Pipe(); err == nil {
		if out.r, out.w, err = os.Pipe(); err == nil {
			errs.r, errs.w, err = os.Pipe()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Dir = c.env, "/"
	// Plain files, so that nothing but this function copies and decides what
	// the end of a pipe means.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, out.w, errs.w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	// The kernel ties the parent's death signal to the thread that forked, not to
	// its process: that thread must outlive the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	closeAll(childIn, out.w, errs.w)
	var input sync.WaitGroup
	defer input.Wait()
	input.Go(func() {
		_, _ = in.Write(call.Args) // a tool need not read them
		_ = in.Close()
	})
	defer func() { _ = in.Close() }() // wakes the write, whoever holds the other end
	out.start()
	errs.start()

	err = runGroup(ctx, cmd, out.full)
	whole := out.finish(ctx, commandDrain)
	errs.finish(ctx, stderrDrain)
	switch {
	case out.over:
		return nil, refuse(TooLarge, fmt.Sprintf("the tool wrote more than %d bytes", DefaultResult))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, exitError(err, errs.lastLine())
	case !whole:
		return nil, &ToolError{Message: "the tool ended, but a process that it left behind holds its output open"}
	}
	raw := bytes.TrimSpace(out.b)
	if len(raw) == 0 || !validResult(raw) {
		return nil, &ToolError{Message: "the tool's output is not one JSON value in UTF-8"}
	}
	return raw, nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// runGroup waits for the command and kills its whole group when the context or
// the output cap ends it, and in any case once its leader has ended. The leader
// is reaped last, so that no number is ever reused under our hands.
func runGroup(ctx context.Context, cmd *exec.Cmd, full <-chan struct{}) error {
	pid := cmd.Process.Pid
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = sys.ProcAwaitExit(pid) // our own child: it cannot fail but by being gone
	}()
	select {
	case <-exited:
	case <-ctx.Done():
		sys.ProcGroupKill(pid)
		<-exited
	case <-full:
		sys.ProcGroupKill(pid)
		<-exited
	}
	sys.ProcGroupKill(pid)
	return cmd.Wait()
}

// exitError is the tool's declared failure.
func exitError(err error, line string) error {
	var ee *exec.ExitError
	if !errors.As(err, &ee) {
		return err
	}
	if line == "" {
		line = "the tool ended with " + ee.ProcessState.String()
	}
	return &ToolError{Message: line}
}

// output is one of a command's output pipes with what came out of it: up to cap
// bytes, or the end of it.
type output struct {
	r, w *os.File
	cap  int
	tail bool
	full chan struct{} // closed with the first byte beyond cap

	b    []byte
	over bool
	eof  bool
	done chan struct{} // closed when the reading goroutine is over
}

func (o *output) start() {
	o.done = make(chan struct{})
	go func() {
		defer close(o.done)
		buf := make([]byte, 32<<10)
		for {
			n, err := o.r.Read(buf)
			if !o.take(buf[:n]) {
				return
			}
			if err != nil {
				o.eof = errors.Is(err, io.EOF)
				return
			}
		}
	}()
}

// take keeps what was read, false at the cap.
func (o *output) take(p []byte) bool {
	if o.tail {
		if o.b = append(o.b, p...); len(o.b) > commandStderr {
			o.b = append(o.b[:0], o.b[len(o.b)-commandStderr:]...)
		}
		return true
	}
	if len(o.b)+len(p) > o.cap {
		o.over = true
		close(o.full)
		return false
	}
	o.b = append(o.b, p...)
	return true
}

// finish reads what is left of an ended command's output: to the end, for at
// most so long while others hold the pipe, and in any case all that is in it. It
// reports whether the output is whole.
func (o *output) finish(ctx context.Context, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-ctx.Done():
	case <-timer.C:
	}
	_ = o.r.SetReadDeadline(time.Now()) // wakes the goroutine
	<-o.done
	if o.eof || o.over {
		return o.eof
	}
	raw, err := o.r.SyscallConn()
	if err != nil {
		return false
	}
	buf := make([]byte, 32<<10)
	_ = raw.Control(func(fd uintptr) { // the descriptor does not block
		for left := 1 << 20; left > 0; { // more than any pipe holds: who left writes on
			n, err := syscall.Read(int(fd), buf)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if n <= 0 || !o.take(buf[:n]) {
				o.eof = n == 0 && err == nil
				return
			}
			left -= n
		}
	})
	return o.eof
}

// lastLine returns the last line that is not blank, printable and bounded.
func (o *output) lastLine() string {
	lines := strings.Split(strings.TrimRight(string(o.b), " \t\r\n"), "\n")
	line := strings.ReplaceAll(lines[len(lines)-1], "\t", " ")
	return clip(strings.TrimSpace(harmless(line)), maxErrorText)
}

package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
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
	// commandDrain is how long pipes may stay open after the command ended: a
	// process that left the group may hold them.
	commandDrain = 20 * time.Millisecond
)

// Command returns a handler that runs a host program for each call, outside of
// any sandbox: argv as given (no shell, never the arguments), the arguments as one
// JSON object on standard input, one JSON value on standard output. A non-zero exit
// is a tool_error with the last line of standard error. The environment is PATH,
// LANG and env; the working directory is /. The program leads a session of its
// own that is killed whole at the deadline and when the program ends. Output
// beyond DefaultResult bytes kills it (too_large).
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
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = c.env
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(call.Args)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = commandDrain
	out := &cappedBuffer{cap: DefaultResult, full: make(chan struct{})}
	errs := &tailBuffer{}
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	err := runGroup(ctx, cmd, out.full)
	switch {
	case out.over.Load():
		return nil, refuse(TooLarge, fmt.Sprintf("the tool wrote more than %d bytes", DefaultResult))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, exitError(err, errs.lastLine())
	}
	raw := bytes.TrimSpace(out.buf.Bytes())
	if len(raw) == 0 || !json.Valid(raw) {
		return nil, &ToolError{Message: "the tool's output is not one JSON value"}
	}
	return raw, nil
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

// cappedBuffer keeps what is written up to cap bytes; the first byte beyond
// closes full.
type cappedBuffer struct {
	buf  bytes.Buffer // not embedded: its ReadFrom would read without a bound
	cap  int
	over atomic.Bool
	full chan struct{}
}

func (b *cappedBuffer) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.cap {
		if !b.over.Swap(true) {
			close(b.full)
		}
		return 0, errors.New("output over its limit")
	}
	return b.buf.Write(p)
}

// tailBuffer keeps the end of what is written.
type tailBuffer struct{ b []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > commandStderr {
		t.b = append(t.b[:0], t.b[len(t.b)-commandStderr:]...)
	}
	return len(p), nil
}

// lastLine returns the last line that is not blank, printable and bounded.
func (t *tailBuffer) lastLine() string {
	lines := strings.Split(strings.TrimRight(string(t.b), " \t\r\n"), "\n")
	line := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, lines[len(lines)-1])
	return clip(strings.TrimSpace(line), maxErrorText)
}

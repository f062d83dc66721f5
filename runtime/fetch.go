package runtime

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxrun/sbxrun/errdef"
	"github.com/sbxrun/sbxrun/internal/sys"
	"github.com/sbxrun/sbxrun/rootfs"
	"github.com/sbxrun/sbxrun/runtime/plan"
)

// fetch copies the policy's outputs from the workspace. Every process of the
// sandbox is dead, so nothing changes under the reader; what the program left
// is hostile all the same, so each file is opened beneath the workspace's
// descriptor without following links, and must be a regular one.
func (s *Sandbox) fetch(r *Result) {
	for _, o := range s.policy.Outputs {
		f, err := s.fetchOne(o)
		if err != nil {
			r.fail(err)
			continue
		}
		r.Files = append(r.Files, f)
	}
}

func (s *Sandbox) fetchOne(o Output) (FetchedFile, error) {
	inside := workspacePath(o.Path)
	fail := func(what string, err error) (FetchedFile, error) {
		return FetchedFile{}, &errdef.Error{Code: errdef.Invalid, Op: "out", Path: "out " + inside, Msg: what, Err: err}
	}
	dir, err := sys.FileFD(s.proc.Export(plan.SlotWorkspace))
	if err != nil {
		return fail("cannot be fetched", err)
	}
	data, err := sys.ReadUntrusted(dir, strings.TrimPrefix(inside, rootfs.Workspace+"/"), s.policy.Limits.FileBytes)
	if err != nil {
		return fail("cannot be fetched", err)
	}
	f := FetchedFile{Path: inside, Dest: o.Dest, Size: int64(len(data))}
	if o.Dest == "" {
		f.Data = data
		return f, nil
	}
	if err := replaceFile(o.Dest, data); err != nil {
		return fail("cannot be written to "+o.Dest, err)
	}
	return f, nil
}

// replaceFile writes dest by rename, so that a reader sees the old or the new
// content and a link in its place is replaced, not followed.
func replaceFile(dest string, data []byte) error {
	if fi, err := os.Lstat(dest); err == nil && fi.IsDir() {
		return fmt.Errorf("is a directory")
	}
	f, err := os.CreateTemp(filepath.Dir(dest), ".sbxrun-out-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), dest)
}

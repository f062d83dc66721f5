package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/hostfile"
	"github.com/sbxrun/sbxrun/cmd/sbxrun/internal/values"
	"github.com/sbxrun/sbxrun/runtime"
)

// workspace is the only folder that a program can keep files in.
const workspace = "/workspace"

// fileOptions are about what of the host is visible, and which files go in and
// out.
func fileOptions() []*option {
	return []*option{
		{
			name: "rootfs", arg: "host|DIR", usage: "the read-only root: the host's /usr, or a folder",
			allowed: "host, or a folder with a root file system", set: setRootfs,
			show: func(r *request) []string {
				if r.policy.Rootfs.Dir == "" {
					return []string{"host"}
				}
				return []string{r.policy.Rootfs.Dir}
			},
		},
		{
			name: "file", arg: "SRC[:DST]", many: true, usage: "copy a regular file in, to DST in /workspace",
			allowed: "SRC or SRC:DST", set: addFile,
			show: func(r *request) (texts []string) {
				for _, f := range r.policy.Files {
					texts = append(texts, f.Source+":"+f.Target)
				}
				return texts
			},
		},
		{
			name: "out", arg: "PATH[:DST]", many: true, usage: "fetch a regular file of /workspace after the run, to DST",
			allowed: "PATH or PATH:DST", set: addOutput,
			show: func(r *request) (texts []string) {
				for _, o := range r.policy.Outputs {
					texts = append(texts, o.Path+":"+o.Dest)
				}
				return texts
			},
		},
		{
			name: "bind-ro", arg: "SRC[:DST]", many: true, usage: "show a file or folder inside, read-only",
			allowed: "SRC or SRC:DST, DST absolute", set: addBind,
			show: func(r *request) (texts []string) {
				for _, b := range r.policy.Binds {
					texts = append(texts, b.Source+":"+b.Target)
				}
				return texts
			},
		},
	}
}

func setRootfs(r *request, v value) error {
	switch {
	case v.text == "host":
		r.policy.Rootfs.Dir = ""
		return nil
	case v.text == "":
		return values.Bad("the value is empty")
	case strings.HasPrefix(v.text, "oci:"):
		return notInThisVersion("an OCI image as root", "unpack it and give the folder")
	}
	dir, err := hostDir(v)
	if err == nil {
		r.policy.Rootfs.Dir = dir
	}
	return err
}

// hostDir returns the absolute path of a folder on the host that exists.
func hostDir(v value) (string, error) {
	if err := values.NoNUL(v.text); err != nil {
		return "", err
	}
	dir, err := v.hostPath(v.text)
	if err != nil {
		return "", err
	}
	switch st, err := os.Stat(dir); {
	case err != nil:
		return "", hostfile.CheckSource(dir)
	case !st.IsDir():
		return "", values.Bad(values.Quote(v.text) + " is " + hostfile.Kind(st.Mode()) + ", not a folder")
	}
	return dir, nil
}

func addFile(r *request, v value) error {
	src, dst, err := values.PathPair(v.text)
	if err != nil {
		return err
	}
	host, err := v.hostPath(src)
	if err != nil {
		return err
	}
	if dst == "" {
		dst = filepath.Base(host)
	}
	target, err := workspacePath(dst)
	if err != nil {
		return err
	}
	if err := hostfile.CheckSource(host); err != nil {
		return err
	}
	replaces, err := r.claim("file", target, v)
	if err != nil {
		return err
	}
	f := runtime.File{Source: host, Target: target}
	if !replaces {
		r.policy.Files = append(r.policy.Files, f)
		return nil
	}
	for i := range r.policy.Files {
		if r.policy.Files[i].Target == target {
			r.policy.Files[i] = f
		}
	}
	return nil
}

// workspacePath returns the absolute path inside, which must be below the
// workspace and none of the bridge's.
func workspacePath(p string) (string, error) {
	abs := p
	if !path.IsAbs(p) {
		abs = workspace + "/" + p
	}
	abs = path.Clean(abs)
	if !strings.HasPrefix(abs, workspace+"/") || strings.HasSuffix(p, "/") {
		return "", values.Bad(values.Quote(p) + " is not a file below " + workspace)
	}
	if rest := strings.TrimPrefix(abs, workspace+"/"); rest == ".bridge" || strings.HasPrefix(rest, ".bridge/") {
		return "", values.Bad(values.Quote(p) + " belongs to the tool channel")
	}
	return abs, nil
}

func addOutput(r *request, v value) error {
	inside, dst, err := values.PathPair(v.text)
	if err != nil {
		return err
	}
	from, err := workspacePath(inside)
	if err != nil {
		return err
	}
	if dst == "" {
		// Without a DST the file lands where the caller is, also from a profile.
		dst, v.base = path.Base(from), ""
	}
	host, err := v.hostPath(dst)
	if err != nil {
		return err
	}
	if err := hostfile.CheckDest(host); err != nil {
		return err
	}
	replaces, err := r.claim("out", from, v)
	if err != nil {
		return err
	}
	for i, o := range r.policy.Outputs {
		switch {
		case replaces && o.Path == from:
			r.policy.Outputs[i].Dest = host
			return nil
		case o.Dest == host:
			return values.Bad(values.Quote(dst) + " is the destination of two files")
		}
	}
	r.policy.Outputs = append(r.policy.Outputs, runtime.Output{Path: from, Dest: host})
	return nil
}

func addBind(r *request, v value) error {
	src, dst, err := values.PathPair(v.text)
	if err != nil {
		return err
	}
	host, err := v.hostPath(src)
	if err != nil {
		return err
	}
	if dst == "" {
		dst = host
	}
	if !path.IsAbs(dst) {
		return values.Bad(values.Quote(dst) + " is not an absolute path")
	}
	target := path.Clean(dst)
	if _, err := os.Stat(host); err != nil {
		return hostfile.CheckSource(host)
	}
	replaces, err := r.claim("bind-ro", target, v)
	if err != nil {
		return err
	}
	b := runtime.Bind{Source: host, Target: target}
	if !replaces {
		r.policy.Binds = append(r.policy.Binds, b)
		return nil
	}
	for i := range r.policy.Binds {
		if r.policy.Binds[i].Target == target {
			r.policy.Binds[i] = b
		}
	}
	return nil
}

package starter

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

const (
	library = "github.com/roperator/roperator"
	starter = library + "/examples/starter"
)

// A release is the repository as a version on a module proxy.
type release struct {
	version string
	proxy   string // the folder, laid out as `go help goproxy` says
	sums    string // the lines of go.sum about the library
}

// publish releases the library and the starter as they are in the working tree, in a
// folder that it makes under proxy. The version says what is in it, so that what was
// downloaded of it never becomes untrue.
func publish(root, proxy string) (*release, error) {
	files, err := tracked(root)
	if err != nil {
		return nil, err
	}
	version, err := versionOf(files)
	if err != nil {
		return nil, err
	}
	r := &release{version: version, proxy: proxy}
	if err := r.put(library, within(files, "")); err != nil {
		return nil, err
	}
	if r.sums, err = r.sumsOf(library); err != nil {
		return nil, err
	}
	own, err := r.released(within(files, "examples/starter"))
	if err != nil {
		return nil, err
	}
	return r, r.put(starter, own)
}

// A file is one of a module.
type file struct {
	path    string // slash-separated, from the root of the module
	content []byte
	mode    fs.FileMode
}

// Path, Lstat and Open implement zip.File.
func (f file) Path() string                 { return f.path }
func (f file) Lstat() (fs.FileInfo, error)  { return fileInfo{f}, nil }
func (f file) Open() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.content)), nil }

type fileInfo struct{ file }

func (i fileInfo) Name() string       { return path.Base(i.path) }
func (i fileInfo) Size() int64        { return int64(len(i.content)) }
func (i fileInfo) Mode() fs.FileMode  { return i.mode }
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return false }
func (i fileInfo) Sys() any           { return nil }

// tracked returns the files of a working tree that git doesn't ignore.
func tracked(root string) ([]file, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []file
	for name := range strings.SplitSeq(strings.Trim(string(listed), "\x00"), "\x00") {
		full := filepath.Join(root, filepath.FromSlash(name))
		info, err := os.Lstat(full)
		if os.IsNotExist(err) { // removed, and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(full)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, content, info.Mode()})
	}
	return files, nil
}

// versionOf returns a version for these files and no others.
func versionOf(files []file) (string, error) {
	sum := sha256.New()
	for _, f := range files {
		if _, err := fmt.Fprintf(sum, "%q %d\n%s", f.path, len(f.content), f.content); err != nil {
			return "", err
		}
	}
	return "v0.1.0-test." + "x" + hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// within returns the files of the module in a folder, without those of the modules in
// folders below.
func within(files []file, folder string) []file {
	var modules []string
	for _, f := range files {
		if dir := path.Dir(f.path); path.Base(f.path) == "go.mod" && dir != "." && dir != folder {
			modules = append(modules, dir+"/")
		}
	}
	if folder != "" {
		folder += "/"
	}
	var out []file
	for _, f := range files {
		name, ok := strings.CutPrefix(f.path, folder)
		for _, m := range modules {
			if strings.HasPrefix(f.path, m) && strings.HasPrefix(m, folder) {
				ok = false
			}
		}
		if ok {
			out = append(out, file{name, f.content, f.mode})
		}
	}
	return out
}

// released returns the starter's files as a release has them: with the version of the
// library in go.mod, and its sums in go.sum.
func (r *release) released(files []file) ([]file, error) {
	for i, f := range files {
		switch f.path {
		case "go.mod":
			content, err := requiring(f.content, r.version)
			if err != nil {
				return nil, err
			}
			files[i].content = content
		case "go.sum":
			files[i].content = withSums(f.content, r.sums)
		}
	}
	return files, nil
}

// withSums returns a go.sum with the sums of the library in their place.
func withSums(goSum []byte, sums string) []byte {
	at := 0
	for line := range bytes.Lines(goSum) {
		if string(line) > library+" " {
			break
		}
		at += len(line)
	}
	return slices.Concat(goSum[:at], []byte(sums), goSum[at:])
}

// requiring returns a go.mod that requires this version of the library.
func requiring(goMod []byte, version string) ([]byte, error) {
	parsed, err := modfile.Parse("go.mod", goMod, nil)
	if err != nil {
		return nil, err
	}
	if err := parsed.AddRequire(library, version); err != nil {
		return nil, err
	}
	parsed.Cleanup()
	return parsed.Format()
}

// put writes a module to the proxy.
func (r *release) put(name string, files []file) error {
	dir := filepath.Join(r.proxy, filepath.FromSlash(name), "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var archive bytes.Buffer
	var packed []zip.File
	var goMod []byte
	for _, f := range files {
		packed = append(packed, f)
		if f.path == "go.mod" {
			goMod = f.content
		}
	}
	if err := zip.Create(&archive, module.Version{Path: name, Version: r.version}, packed); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	info, err := json.Marshal(map[string]any{"Version": r.version, "Time": time.Now().UTC()})
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{
		"list": []byte(r.version + "\n"), r.version + ".info": info, r.version + ".mod": goMod, r.version + ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sumsOf returns the lines of go.sum about a module that was put.
func (r *release) sumsOf(name string) (string, error) {
	at := filepath.Join(r.proxy, filepath.FromSlash(name), "@v", r.version)
	whole, err := dirhash.HashZip(at+".zip", dirhash.Hash1)
	if err != nil {
		return "", err
	}
	goMod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(at + ".mod") })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", name, r.version, whole, name, r.version, goMod), nil
}

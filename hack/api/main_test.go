package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A module is a module in a repository of its own.
type module struct {
	t   *testing.T
	dir string
}

func newModule(t *testing.T) module {
	m := module{t, t.TempDir()}
	m.write("go.mod", "module example.com/m\n\ngo 1.26\n")
	m.write("p/p.go", "package p\n\ntype S struct{ A, b int }\n\nfunc (s *S) M(n int) (S, error) { return *s, nil }\n\nfunc gone() {}\n")
	m.write("internal/q/q.go", "package q\n\nfunc Hidden() {}\n")
	m.write("test/r/r.go", "package r\n\nfunc Hidden() {}\n")
	m.write("docs/reference/README", "")
	return m
}

func (m module) write(name, text string) {
	path := filepath.Join(m.dir, filepath.FromSlash(name))
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte(text), 0o600))
}

// run runs a command in the module and returns its output.
func (m module) run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = m.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m module) git(args ...string) {
	out, err := m.run("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	require.NoError(m.t, err, "%s", out)
}

func TestListing(t *testing.T) {
	m := newModule(t)
	m.write("p/more.go", `package p

import "io"

const C = 3

var V []S

type A = S

type I interface {
	io.Reader
	N(names ...string)
}

type G[T any] struct {
	S
	F func(T) T
}

func (G[T]) Of(t T) T { return t }

func F[K comparable](m map[K]io.Reader) {}
`)
	require.NoError(t, run(m.dir))
	text, err := os.ReadFile(filepath.Join(m.dir, "docs", "reference", "api.txt"))
	require.NoError(t, err)
	require.Equal(t, `p: const C untyped int = 3
p: func F[K comparable](map[K]io.Reader)
p: method (*G) M(int) (S, error)
p: method (*S) M(int) (S, error)
p: method (G) Of(T) T
p: type A = S
p: type G[T any] struct
p: type G[T any] struct, F func(T) T
p: type G[T any] struct, embedded S
p: type I interface
p: type I interface, N(...string)
p: type I interface, Read([]byte) (int, error)
p: type S struct
p: type S struct, A int
p: var V []S
`, string(text))
}

func TestListingOfNothing(t *testing.T) {
	m := module{t, t.TempDir()}
	m.write("go.mod", "module example.com/m\n\ngo 1.26\n")
	m.write("internal/q/q.go", "package q\n")
	require.ErrorContains(t, run(m.dir), "no public package")
}

// since.sh fails if a program that compiled before may no longer compile, and only then.
func TestSince(t *testing.T) {
	script, err := filepath.Abs("since.sh")
	require.NoError(t, err)
	m := newModule(t)
	m.git("init", "-q")
	m.git("add", "-A")
	m.git("commit", "-qm", "one")
	for _, tc := range []struct {
		reason, file, text string
		want               string // the output
		fails              bool
	}{
		{"nothing has changed", "p/p.go", "package p\n\ntype S struct{ A, b int }\n\nfunc (s *S) M(n int) (S, error) { return *s, nil }\n\nfunc gone() {}\n",
			"api: since HEAD: 0 incompatible, 0 compatible\n", false},
		{"a program does not depend on what is new", "p/more.go", "package p\n\nfunc F(list ...S) {}\n",
			"compatible: ./p.F: added\napi: since HEAD: 0 incompatible, 1 compatible\n", false},
		{"a program imports no package below test", "test/r/r.go", "package r\n",
			"compatible: ./p.F: added\napi: since HEAD: 0 incompatible, 1 compatible\n", false},
		{"a program may call what is gone", "p/p.go", "package p\n\ntype S struct{ A, B int }\n", `incompatible: ./p.(*S).M: removed
compatible: ./p.F: added
compatible: ./p.S.B: added
api: since HEAD: 1 incompatible, 2 compatible
api: incompatible changes need a new minor version (before 1.0), and an entry under Changed or Removed in CHANGELOG.md
`, true},
	} {
		m.write(tc.file, tc.text)
		out, err := m.run(script, "HEAD")
		require.Equal(t, tc.want, out, tc.reason)
		require.Equal(t, tc.fails, err != nil, tc.reason)
	}
	out, err := m.run(script, "v9.9.9")
	require.Error(t, err)
	require.Contains(t, out, "v9.9.9")
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A change of the public API is to be seen in a review.
func TestListingIsThatOfTheCode(t *testing.T) {
	root := filepath.Join("..", "..")
	written, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	require.NoError(t, err)
	now, err := list(root)
	require.NoError(t, err)
	c := compare(strings.Split(strings.TrimSpace(string(written)), "\n"), now)
	require.Empty(t, c.incompatible, "programs may break; if that is meant: go run ./hack/api, and an entry in CHANGELOG.md")
	require.Empty(t, c.compatible, "new in the public API; if that is meant: go run ./hack/api, and an entry in CHANGELOG.md")
	for _, line := range []string{
		"runner: func Main(config.Operator, handler.Handler)",
		"handler: type Handler interface, Sync(context.Context, *SyncRequest) (*SyncResponse, error)",
		"resource: method (*Resource) OwnerReferences() []meta/v1.OwnerReference",
		"resource: func As[T any](*Resource) (T, error)",
		"resource/k8s: var Pod resource.Type",
		"testkit: func Sync(testing.TB, config.Operator, handler.Handler, any, ...any) *Plan",
	} {
		require.Contains(t, now, line)
	}
	require.NotContains(t, strings.Join(now, "\n"), "internal/")
}

func TestCompare(t *testing.T) {
	base := []string{"p: func F(int)", "p: type I interface", "p: type I interface, M()", "p: type S struct", "p: type S struct, A int"}
	with := func(more ...string) []string { return append(slices.Clip(base), more...) }
	for name, tc := range map[string]struct {
		reason string
		now    []string
		want   changes
	}{
		"Same":            {"nothing has changed", base, changes{}},
		"NewFunction":     {"nobody calls it yet", with("p: func G()"), changes{compatible: []string{"+ p: func G()"}}},
		"NewField":        {"structs are made with names", with("p: type S struct, B int"), changes{compatible: []string{"+ p: type S struct, B int"}}},
		"NewMethod":       {"others implement the interface", with("p: type I interface, N()"), changes{incompatible: []string{"+ p: type I interface, N()"}}},
		"NewInterface":    {"nobody implements it yet", with("p: type J interface", "p: type J interface, N()"), changes{compatible: []string{"+ p: type J interface", "+ p: type J interface, N()"}}},
		"Gone":            {"somebody may name it", base[1:], changes{incompatible: []string{"- p: func F(int)"}}},
		"OtherParameters": {"somebody may call it", append([]string{"p: func F(int, int)"}, base[1:]...), changes{incompatible: []string{"- p: func F(int)"}, compatible: []string{"+ p: func F(int, int)"}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, compare(base, tc.now), tc.reason) })
	}
}

// The whole of it, on a module of two commits.
func TestRunAgainstACommit(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	write("p/p.go", "package p\n\ntype S struct{ A, b int }\n\nfunc (s *S) M(n int) (S, error) { return *s, nil }\n\nfunc gone() {}\n")
	write("internal/q/q.go", "package q\n\ntype Hidden int\n")
	write("docs/reference/README", "")
	git("init", "-q")
	require.ErrorContains(t, run(&strings.Builder{}, dir, "HEAD"), "name a commit that has the listing")
	require.NoError(t, run(nil, dir, ""))
	git("add", "-A")
	git("commit", "-qm", "one")

	var same, other strings.Builder
	require.NoError(t, run(&same, dir, "HEAD"))
	require.Equal(t, "api: since HEAD: 0 incompatible, 0 compatible\n", same.String())
	write("p/p.go", "package p\n\ntype S struct{ A, B int }\n\nfunc (s S) M(m int) (S, error) { return s, nil }\n\nfunc F(list ...S) {}\n")
	require.ErrorContains(t, run(&other, dir, "HEAD"), "CHANGELOG.md")
	require.Equal(t, `incompatible: - p: method (*S) M(int) (S, error)
compatible:   + p: func F(...S)
compatible:   + p: method (S) M(int) (S, error)
compatible:   + p: type S struct, B int
api: since HEAD: 1 incompatible, 3 compatible
`, other.String())
}

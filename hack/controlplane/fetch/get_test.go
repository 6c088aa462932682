package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A checkout is hack/controlplane with programs that are built in no time.
type checkout struct {
	dir    string
	folder string // that the programs come into
	host   *host
	url    string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles")
	}
	c := &checkout{dir: t.TempDir(), host: newHost(t)}
	c.folder, c.url = filepath.Join(c.dir, "out"), c.host.start(t)
	for _, name := range []string{"get.sh", "build.sh", "kwok.sums"} {
		content, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		c.write(t, name, string(content), 0o700)
	}
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(here, filepath.Join(c.dir, "fetch")))
	c.want(t, release.Kubernetes, release.Kwok)
	c.write(t, "go.sum", "", 0o600)
	for name := range programs() {
		c.write(t, "cmd/"+name+"/main.go", "package main\n\nfunc main() { print(\"built "+name+"\\n\") }\n", 0o600)
	}
	return c
}

func (c *checkout) write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
}

// want is the versions in go.mod.
func (c *checkout) want(t *testing.T, kubernetes, kwok string) {
	t.Helper()
	c.write(t, "go.mod", fmt.Sprintf("module programs\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes %s\n\tsigs.k8s.io/kwok %s\n)\n", kubernetes, kwok), 0o600)
}

// get runs the script for all programs but kubectl.
func (c *checkout) get(t *testing.T, env ...string) (code int, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.dir, "get.sh"), c.folder,
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
	cmd.Env = append(os.Environ(), "CONTROLPLANE_MIRROR="+c.url, "CONTROLPLANE=", "NO_PROXY=*", "GOWORK=off")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// says is what the programs in the folder print: who has made them.
func (c *checkout) says(t *testing.T) string {
	t.Helper()
	var out []string
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"} {
		text, err := exec.CommandContext(t.Context(), filepath.Join(c.folder, name)).CombinedOutput()
		require.NoError(t, err, name)
		line, _, _ := strings.Cut(string(text), "\n")
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

const (
	allDownloaded = "etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok"
	allBuilt      = "built etcd, built kube-apiserver, built kube-controller-manager, built kube-scheduler, built kwok"
)

// requireClean finds nothing but the programs and what they are.
func (c *checkout) requireClean(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(c.folder)
	require.NoError(t, err)
	for _, entry := range entries {
		name := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), "."), ".recipe")
		require.True(t, name == "lock" || known(name), entry.Name())
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	step := func(reason, says string, asks bool, env ...string) string {
		t.Helper()
		before := len(c.host.requests())
		code, said := c.get(t, env...)
		require.Zero(t, code, "%s: %s", reason, said)
		require.Equal(t, says, c.says(t), "%s: %s", reason, said)
		require.Equal(t, asks, len(c.host.requests()) > before, "requests: %s: %s", reason, said)
		c.requireClean(t)
		return said
	}
	step("auto downloads", allDownloaded, true)
	require.Empty(t, step("what is there isn't asked for again, nor told of", allDownloaded, false))
	step("build means built, and makes no request", allBuilt, false, "CONTROLPLANE=build")
	require.Empty(t, step("auto takes what is there, built or not", allBuilt, false))
	step("download means downloaded", allDownloaded, true, "CONTROLPLANE=download")
	c.host.own[release.ProgramPath(kwok)] = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusTeapot) }
	require.Empty(t, step("and is so already", allDownloaded, false, "CONTROLPLANE=download"))

	require.NoError(t, os.Remove(filepath.Join(c.folder, kwok)))
	said := step("auto builds what can't be had, and nothing else", strings.Replace(allDownloaded, "kwok", "built kwok", 1), true)
	require.Contains(t, said, "418 I'm a teapot")
	require.Contains(t, said, "NOT DOWNLOADED, for the reason above: kwok. Building instead")

	c.want(t, "v1.37.0", release.Kwok)
	said = step("another version replaces all, and the mirror has none", allBuilt, true)
	require.Contains(t, said, "its index has no 1.37 for ")
	require.Empty(t, step("once", allBuilt, false))
}

func TestGetFails(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	code, said := c.get(t, "CONTROLPLANE=maybe")
	require.Equal(t, 1, code)
	require.Contains(t, said, "CONTROLPLANE=maybe: must be auto, download or build")

	c.host.replace(release.ProgramPath(kwok)+".sha256", []byte(strings.Repeat("0", 64)))
	code, said = c.get(t, "CONTROLPLANE=download")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "WRONG SUM")
	require.Contains(t, said, "not there: kwok; CONTROLPLANE=build builds them from Go modules, CONTROLPLANE_MIRROR=URL names")
	require.NoFileExists(t, filepath.Join(c.folder, kwok))
	c.requireClean(t)

	file := filepath.Join(c.dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	before := len(c.host.requests())
	for _, folder := range []string{file, filepath.Join(file, "below")} {
		c.folder = folder
		code, said = c.get(t)
		require.Equal(t, 1, code, said)
		require.Contains(t, said, "controlplane: folder "+folder+": can't be made")
	}
	require.Len(t, c.host.requests(), before, "nothing is asked for")
}

// TestGetBroken is a build that fails: what was there stays.
func TestGetBroken(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	code, said := c.get(t, "CONTROLPLANE=build")
	require.Zero(t, code, said)
	c.write(t, "cmd/etcd/main.go", "package main\n\nfunc main() { undefined() }\n", 0o600)
	code, said = c.get(t, "CONTROLPLANE=build")
	require.NotZero(t, code, said)
	require.Contains(t, said, "undefined: undefined")
	require.Equal(t, allBuilt, c.says(t))
	c.requireClean(t)
}

func TestGetTwice(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("without flock, both download")
	}
	c := newCheckout(t)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if code, said := c.get(t); code != 0 {
				t.Errorf("%d: %s", code, said)
			}
		})
	}
	group.Wait()
	require.Equal(t, allDownloaded, c.says(t))
	asked := 0
	for _, path := range c.host.requests() {
		if path == release.ArchivePath() {
			asked++
		}
	}
	require.Equal(t, 1, asked, "the second waits for the first, and finds all there")
	c.requireClean(t)
}

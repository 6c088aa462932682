package starter

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/testkit"
)

const root = "../.."

// timeout only bounds a hang.
const timeout = 10 * time.Minute

// A copied is a copy of the starter, made by the command of its README.
type copied struct {
	dir string
	env []string
}

// TestStarter makes an operator of the starter, and does with it all that its README
// says, without an edit.
func TestStarter(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	absolute, err := filepath.Abs(root)
	require.NoError(t, err)
	r, err := publish(absolute, t.TempDir())
	require.NoError(t, err)
	cluster, err := testkit.Start(testkit.ClusterOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	c := copied{dir: t.TempDir(), env: environment(t, r, cluster)}
	t.Cleanup(func() { require.NoError(t, r.forget(c)) })

	begin, use := commands(t)
	if os.Getenv("STARTER_TIDY") != "" {
		begin, _, _ = strings.Cut(begin, "\n")
	}
	t.Log(c.run(t, begin)) // copies and tests
	c.dir = filepath.Join(c.dir, "sites")
	if os.Getenv("STARTER_TIDY") != "" {
		c.run(t, "go mod tidy")
		require.NoError(t, keepTidy(c.dir, filepath.Join(root, "examples/starter")))
		return
	}
	goMod, err := os.ReadFile(filepath.Join(c.dir, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(goMod), "module example.com/you/sites\n")

	require.Empty(t, c.run(t, "go mod tidy -diff"), "STARTER_TIDY=1 go test . in test/starter writes go.mod and go.sum anew")
	c.run(t, "go vet ./...")
	before := contents(t, c.dir)
	c.run(t, "make generate golden")
	require.Equal(t, before, contents(t, c.dir), "what is generated is up to date")
	c.run(t, imageBuild(t, c.dir))
	t.Run("Run", func(t *testing.T) { c.running(t, use) })
	t.Run("InCluster", c.inCluster)
}

// environment returns that of a user who has the proxy, and whose cluster is this one.
func environment(t *testing.T, r *release, cluster *testkit.Cluster) []string {
	t.Helper()
	proxies, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output()
	require.NoError(t, err)
	return append(os.Environ(),
		"GOPROXY=file://"+r.proxy+","+strings.TrimSpace(string(proxies)), "GONOSUMDB="+library, "GOWORK=off", "GOFLAGS=",
		"KUBECONFIG="+cluster.Kubeconfig(), "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// commands returns what the README's blocks of shell commands say: one that makes a
// copy, and one for an operator that runs.
func commands(t *testing.T) (begin, use string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "examples/starter/README.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(readme, -1)
	require.Len(t, blocks, 2)
	begin = string(blocks[0][1])
	require.Contains(t, begin, "golang.org/x/tools/cmd/gonew@latest "+starter+"@latest example.com/you/sites")
	return begin, string(blocks[1][1])
}

// imageBuild returns the command by which the Dockerfile builds the program, with -n:
// that it is understood is enough, since the tests have built the program.
func imageBuild(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^RUN (.* go build) (.* -o /operator \.)$`).FindSubmatch(text)
	require.NotNil(t, found)
	return string(found[1]) + " -n " + string(found[2])
}

// run runs a command of a shell in the copy, and returns what it prints.
func (c *copied) run(t *testing.T, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euc", command)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s:\n%s", command, out)
	return string(out)
}

// inCluster applies what installs the operator. There are no nodes: that the API
// server takes it, is all there is to see.
func (c *copied) inCluster(t *testing.T) {
	c.run(t, "kubectl apply -k deploy")
	require.Contains(t, c.run(t, "kubectl get -n sites-system deployment/sites -o jsonpath={.spec.template.spec.containers[0].image}"), "sites:latest")
}

// running runs the operator as `make run` does, and has it make what the sample asks for
// that use applies.
func (c *copied) running(t *testing.T, use string) {
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "make", "run")
	cmd.Dir, cmd.Env = c.dir, c.env
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what make starts is to end as well
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
		require.Error(t, <-ended, "make tells of the signal by its exit code")
		require.NotContains(t, log.String(), "level=ERROR")
	}()
	c.run(t, "until kubectl get crd sites.example.com; do :; done")
	require.Contains(t, c.run(t, use), "docs")
	// Of two that aren't there yet, one command says so and ends, since kubectl waits for errors about one object.
	c.run(t, "kubectl wait --for=create --timeout=5m deployment/docs && kubectl wait --for=create --timeout=5m service/docs")
	c.run(t, `kubectl wait --for=condition=Available=False --timeout=5m site/docs`)
	c.run(t, "kubectl wait --for=condition=Reconciling --timeout=5m site/docs")
	require.Contains(t, c.run(t, "make plan"), "Nothing to do.")
}

// contents returns the files of the copy.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		out[name] = string(content)
		return err
	}))
	return out
}

// keepTidy writes the go.mod and go.sum of the copy to the starter, without what a
// release adds.
func keepTidy(from, to string) error {
	goMod, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return err
	}
	if goMod, err = requiring(goMod, "v0.1.0"); err != nil {
		return err
	}
	goMod = []byte(strings.Replace(string(goMod), "module example.com/you/sites\n", "module "+starter+"\n", 1))
	if err := os.WriteFile(filepath.Join(to, "go.mod"), goMod, 0o644); err != nil {
		return err
	}
	goSum, err := os.ReadFile(filepath.Join(from, "go.sum"))
	if err != nil {
		return err
	}
	var kept strings.Builder
	for line := range strings.Lines(string(goSum)) {
		if !strings.HasPrefix(line, library+" ") {
			kept.WriteString(line)
		}
	}
	return os.WriteFile(filepath.Join(to, "go.sum"), []byte(kept.String()), 0o644)
}

// forget takes the release out of the module cache, where nothing else needs it.
func (r *release) forget(c copied) error {
	cmd := exec.Command("go", "env", "GOMODCACHE")
	cmd.Env = c.env
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	cache := strings.TrimSpace(string(out))
	for _, name := range []string{library, starter} {
		unpacked := filepath.Join(cache, filepath.FromSlash(name)+"@"+r.version)
		if err := removeAll(unpacked); err != nil {
			return err
		}
		downloads, err := filepath.Glob(filepath.Join(cache, "cache/download", filepath.FromSlash(name), "@v", r.version+".*"))
		if err != nil {
			return err
		}
		for _, file := range downloads {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeAll removes a folder of the module cache, which nobody may write to.
func removeAll(dir string) error {
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(name, 0o700)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.RemoveAll(dir)
}

package main

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/hack/controlplane/fetch/mirror"
)

// TestDemo serves the programs that were built here, and runs `make demo` in a cache of its own: what
// has been downloaded runs.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the demo")
	}
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	served := map[string][]byte{}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", kwok} {
		assets := os.Getenv("KUBEBUILDER_ASSETS")
		if assets == "" {
			assets = filepath.Join(root, ".cache", "controlplane")
		}
		served[name], err = os.ReadFile(filepath.Join(assets, name))
		if err != nil {
			t.Skip("make controlplane hasn't been run: ", err)
		}
	}
	files, err := mirror.New(served, wanted(t))
	require.NoError(t, err)
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)

	const generous = 10 * time.Minute // the demo is compiled, perhaps
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	cache := t.TempDir()
	cmd := exec.CommandContext(ctx, "make", "demo", "CACHE="+cache)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CONTROLPLANE=download", "CONTROLPLANE_MIRROR="+server.URL, "NO_PROXY=*", "KUBEBUILDER_ASSETS=", "KEEP=", "MAKEFLAGS=",
		"MAKELEVEL=0") // as from a shell: a make under another make says which folders it enters and leaves
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "controlplane: downloading etcd kube-apiserver kube-controller-manager kube-scheduler kwok")
	require.True(t, strings.HasSuffix(strings.TrimSpace(string(out)), "demo: ok"), string(out))
	for name, content := range served {
		got, err := os.ReadFile(filepath.Join(cache, "controlplane", name))
		require.NoError(t, err)
		require.Equal(t, brief(content), brief(got), name)
	}
}

// wanted is the release that hack/controlplane/go.mod names.
func wanted(t *testing.T) mirror.Release {
	t.Helper()
	data, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	version := func(module string) string {
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == module {
				return fields[1]
			}
		}
		t.Fatal("go.mod has no " + module)
		return ""
	}
	return mirror.Release{Kubernetes: version("k8s.io/kubernetes"), Kwok: version("sigs.k8s.io/kwok")}
}

// TestSums finds that there is a sum for the version of kwok that go.mod names, on every platform
// that it is published for.
func TestSums(t *testing.T) {
	t.Parallel()
	for platform := range map[string]bool{"linux/amd64": true, "linux/arm64": true, "darwin/arm64": true} {
		opts := here()
		opts.kwok, opts.kwokSums = wanted(t).Kwok, "../kwok.sums"
		opts.goos, opts.goarch, _ = strings.Cut(platform, "/")
		sum, err := kwokSum(opts, nil)(t.Context(), "")
		require.NoError(t, err, platform)
		require.Len(t, sum, 64, platform)
	}
}

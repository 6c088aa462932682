package plane

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// What listens where outgoing connections begin can't listen again, since one may have its
// port by then.
func TestFreePort(t *testing.T) {
	for range 20 {
		port, err := FreePort()
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Less(t, n, 32768, "the first of Linux's; see ip_local_port_range")
	}
}

func TestBinary(t *testing.T) {
	put := func(dir string, names ...string) string {
		t.Helper()
		require.NoError(t, os.MkdirAll(dir, 0o700))
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(dir, executable(name)), nil, 0o700))
		}
		return dir
	}
	both := put(t.TempDir(), "etcd", "kube-apiserver")
	half := put(t.TempDir(), "etcd")
	module := put(t.TempDir(), "etcd") // not there: the cache is
	require.NoError(t, os.WriteFile(filepath.Join(module, "go.mod"), nil, 0o600))
	cached := put(filepath.Join(module, ".cache", "controlplane"), "etcd", "kube-apiserver")
	below := put(filepath.Join(module, "a", "b"))
	for name, tc := range map[string]struct {
		reason, assets, program string
		want, wrong             string
	}{
		"Named":      {"the variable names the folder", both, "etcd", filepath.Join(both, executable("etcd")), ""},
		"Incomplete": {"a typo must not go unnoticed, though the cache has all", half, "kube-apiserver", "", filepath.Join(half, executable("kube-apiserver")) + " isn't there (KUBEBUILDER_ASSETS=" + half + ")"},
		"Optional":   {"the others aren't part of every download", both, "kwok", "", "kwok: " + filepath.Join(both, executable("kwok")) + " isn't there; make controlplane gets it"},
		"Cache":      {"the cache of the module that the working directory is in", "", "etcd", filepath.Join(cached, executable("etcd")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(below)
			t.Setenv(assetsVariable, tc.assets)
			path, err := Binary(tc.program)
			require.Equal(t, tc.want, path, tc.reason)
			if tc.wrong == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.wrong, tc.reason)
			require.ErrorIs(t, err, os.ErrNotExist, tc.reason)
		})
	}
}

// newPlane returns a Plane of which etcd runs.
func newPlane(t *testing.T) *Plane {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	p, err := New(Options{Dir: t.TempDir(), Users: []string{"jane"}, ServerFlags: map[string]string{"max-requests-inflight": "300"}})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	if err := p.StartEtcd(t.Context()); errors.Is(err, os.ErrNotExist) {
		t.Skipf("needs etcd and kube-apiserver: %v", err)
	}
	require.NoError(t, err)
	return p
}

// A control plane from its start over a crash, in which etcd finds its port taken, to processes that run on.
func TestPlane(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	t.Setenv("ROPERATOR_COUNT_STARTS", starts)
	p := newPlane(t)
	require.NoError(t, p.StartServer(t.Context()))
	for user, want := range map[string]struct {
		reason string
		lists  bool
	}{
		Admin: {"an administrator", true}, "jane": {"as Options say", true}, SchedulerUser: {"RBAC gives it nothing in Secrets", false},
	} {
		file, err := p.Kubeconfig(user, "kube-system")
		require.NoError(t, err)
		cfg, err := clientcmd.BuildConfigFromFlags("", file)
		require.NoError(t, err)
		require.False(t, cfg.Insecure)
		client, err := kubernetes.NewForConfig(cfg)
		require.NoError(t, err)
		_, err = client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
		if want.lists {
			require.NoError(t, err, want.reason)
		} else {
			require.True(t, apierrors.IsForbidden(err), "%s: %v", want.reason, err)
		}
	}

	// etcd has its port for good once a kube-apiserver knows it: it waits until it is free.
	first := p.etcdURL
	p.Server.Kill()
	p.Etcd.Kill()
	busy, err := net.Listen("tcp", first[len("http://"):])
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- p.StartEtcd(t.Context()) }()
	require.NoError(t, Until(t.Context(), time.Minute, func() error {
		text, err := os.ReadFile(p.path("etcd.log"))
		if err == nil && !strings.Contains(string(text), "address already in use") {
			err = errors.New("etcd hasn't found its port taken")
		}
		return err
	}))
	require.NoError(t, busy.Close())
	require.NoError(t, <-ended)
	require.Equal(t, first, p.etcdURL)
	require.NoError(t, p.StartServer(t.Context()))
	text, err := os.ReadFile(starts)
	require.NoError(t, err)
	require.Equal(t, filepath.Base(os.Args[0])+"\n", string(text), "it is one control plane still")

	command := p.Leave()
	require.False(t, p.Etcd.Ended())
	require.NoError(t, exec.Command("sh", "-c", command).Run())
	<-p.Server.Done()
	<-p.Etcd.Done()
	require.NoDirExists(t, p.opts.Dir)
}

// What a program said last is what helps.
func TestStartSaysWhyItFailed(t *testing.T) {
	p, err := New(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	log := p.path("sh.log")
	require.NoError(t, os.WriteFile(log, []byte("of an earlier start\n"), 0o600))
	failing, err := StartBinary(log, "/bin/sh", "-c", "for i in 1 2 3 4; do echo early; echo early; echo early; echo early; done; echo late; exit 3")
	require.NoError(t, err)
	err = failing.await(t.Context(), func() bool { return false })
	require.EqualError(t, err, "sh: ended: exit status 3\nthe end of sh.log:\n"+strings.Repeat("  early\n", tailLines-1)+"  late")

	silent, err := StartBinary(p.path("silent.log"), "/bin/sh", "-c", "exit 0")
	require.NoError(t, err)
	require.EqualError(t, silent.await(t.Context(), func() bool { return false }), "sh: ended: exit status 0\nsilent.log is empty")
	require.Empty(t, (*Process)(nil).Said())
}

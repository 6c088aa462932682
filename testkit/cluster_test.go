package testkit

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestClusterServes(t *testing.T) {
	t.Parallel()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig())
	require.NoError(t, err)
	require.Equal(t, cluster.RESTConfig().Host, config.Host)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	require.NoError(t, err)
	types, err := client.Discovery().ServerResourcesForGroupVersion("testkit.roperator.com/v1")
	require.NoError(t, err)
	require.NotEmpty(t, types.APIResources)
}

func TestFindBinaries(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "typo")
	t.Setenv(assetsVariable, missing)
	_, err := Start(ClusterOptions{})
	require.ErrorContains(t, err, missing+"/etcd and "+missing+"/kube-apiserver isn't there")
	for _, help := range []string{assetsVariable + "=", "make controlplane", "setup-envtest use -p path", "USE_EXISTING_CLUSTER"} {
		require.ErrorContains(t, err, help)
	}
}

func TestExistingCluster(t *testing.T) {
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	t.Setenv("KUBECONFIG", cluster.Kubeconfig())
	t.Setenv(assetsVariable, "/nothing/here")
	c, err := Start(ClusterOptions{CRDPaths: []string{"testdata/crds.yaml"}, ControllerManager: true})
	require.NoError(t, err)
	require.Equal(t, cluster.RESTConfig().Host, c.RESTConfig().Host)
	require.Equal(t, cluster.HasControllerManager(), c.HasControllerManager())
	require.NotEqual(t, cluster.Kubeconfig(), c.Kubeconfig())
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	require.NoError(t, c.Stop())
	require.NoFileExists(t, c.Kubeconfig())
	_, err = client.Discovery().ServerVersion()
	require.NoError(t, err, "it isn't ours to stop")

	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	_, err = Start(ClusterOptions{})
	require.ErrorContains(t, err, "existing cluster: the kubeconfig (set KUBECONFIG, or select a context)")
}

func TestStartSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		opts   ClusterOptions
		want   []string
	}{
		"a flag that doesn't exist": {
			reason: "what the process said last is what helps",
			opts:   ClusterOptions{APIServerFlags: map[string]string{"no-such-flag": "1"}},
			want:   []string{"the end of kube-apiserver-1.log", "unknown flag: --no-such-flag"},
		},
		"a CRD path that doesn't exist": {
			reason: "the path must be named",
			opts:   ClusterOptions{CRDPaths: []string{"testdata/absent.yaml"}},
			want:   []string{"cluster: CRDs [testdata/absent.yaml]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Start(c.opts)
			for _, want := range c.want {
				require.ErrorContains(t, err, want, c.reason)
			}
		})
	}
}

func TestStopRemovesEverything(t *testing.T) {
	t.Parallel()
	c, err := Start(ClusterOptions{})
	require.NoError(t, err)
	require.False(t, c.HasControllerManager())
	ids := c.plane.watchdog.pids()
	require.Len(t, ids, 2)
	require.NoError(t, c.Stop())
	require.NoError(t, c.Stop(), "stopping twice is stopping once")
	require.NoDirExists(t, c.dir)
	for _, id := range ids {
		require.False(t, alive(id), "process %s", id)
	}
}

func TestAClusterThatIsKeptRunsOn(t *testing.T) {
	t.Parallel()
	c, err := Start(ClusterOptions{})
	require.NoError(t, err)
	ids := c.plane.watchdog.pids()
	t.Cleanup(func() {
		for _, id := range ids {
			if pid, err := strconv.Atoi(id); err == nil {
				require.NoError(t, syscall.Kill(-pid, syscall.SIGKILL))
			}
		}
		require.NoError(t, os.RemoveAll(c.dir))
	})
	c.keep.Store(true)
	require.NoError(t, c.Stop())
	for _, id := range ids {
		require.True(t, alive(id))
	}
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	_, err = client.Discovery().ServerVersion()
	require.NoError(t, err)
	require.FileExists(t, c.Kubeconfig())
}

// victimVariable makes TestMain of a second test binary start a cluster and
// wait for its death. Its value is the TMPDIR where the cluster lives.
const victimVariable = "ROPERATOR_TESTKIT_VICTIM"

// victim prints a line when its cluster is up.
func victim() {
	if _, err := Start(ClusterOptions{ControllerManager: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("up")
	select {}
}

func TestNothingSurvivesAKilledTest(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		signal syscall.Signal
		moment func(t *testing.T, tmp string, out *bufio.Reader) // returns when it is time
	}{
		"kill -9": {
			reason: "nothing in the process can clean up",
			signal: syscall.SIGKILL,
			moment: waitUntilUp,
		},
		"kill -9 while starting": {
			reason: "the watchdog must know processes from the moment they start",
			signal: syscall.SIGKILL,
			moment: func(t *testing.T, tmp string, _ *bufio.Reader) {
				t.Helper()
				require.Eventually(t, func() bool { return len(recorded(tmp)) > 0 }, patience, time.Millisecond)
			},
		},
		"Ctrl-C": {
			reason: "etcd and kube-apiserver aren't in the group that the terminal signals",
			signal: syscall.SIGINT,
			moment: waitUntilUp,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victimVariable+"=1", "TMPDIR="+tmp)
			cmd.SysProcAttr = ownGroup()
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			c.moment(t, tmp, bufio.NewReader(out))
			ids := recorded(tmp)
			require.NotEmpty(t, ids)
			require.NoError(t, syscall.Kill(-cmd.Process.Pid, c.signal))
			require.Error(t, cmd.Wait())
			require.Eventually(t, func() bool {
				left, err := filepath.Glob(filepath.Join(tmp, "roperator-testkit-*"))
				return err == nil && len(left) == 0
			}, patience, 50*time.Millisecond, "%s: the folder is still there", c.reason)
			for _, id := range ids {
				require.Eventually(t, func() bool { return !alive(id) }, patience, 50*time.Millisecond,
					"%s: process %s", c.reason, id)
			}
		})
	}
}

func waitUntilUp(t *testing.T, _ string, out *bufio.Reader) {
	t.Helper()
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "up\n", line)
}

// recorded returns the process IDs that a cluster below tmp has recorded.
func recorded(tmp string) []string {
	files, err := filepath.Glob(filepath.Join(tmp, "roperator-testkit-*", "pids", "*"))
	if err != nil {
		return nil
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}

// alive says whether the process runs. One that has ended but that its new
// parent hasn't waited for doesn't.
func alive(id string) bool {
	pid, err := strconv.Atoi(id)
	if err != nil || syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", id).Output()
	return err != nil || !bytes.HasPrefix(bytes.TrimSpace(state), []byte("Z"))
}

func TestAnIDThatWasReusedIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	require.NoError(t, os.Mkdir(dir, 0o700))
	w, err := startWatchdog(dir)
	require.NoError(t, err)
	stranger, err := startProcess("stranger", os.Stderr, "/bin/sleep", "600")
	require.NoError(t, err)
	record := filepath.Join(dir, "pids", strconv.Itoa(stranger.cmd.Process.Pid))
	require.NoError(t, os.WriteFile(record, nil, 0o600))
	require.NoError(t, w.stop())
	require.NoDirExists(t, dir)
	require.True(t, alive(strconv.Itoa(stranger.cmd.Process.Pid)))
	require.NoError(t, stranger.stop())
}

func TestTails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long, empty := filepath.Join(dir, "long.log"), filepath.Join(dir, "empty.log")
	require.NoError(t, os.WriteFile(long, []byte(strings.Repeat("early\n", 50)+"late\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	text := tails(long, empty)
	require.Contains(t, text, "the end of long.log:")
	require.Contains(t, text, "  late\n")
	require.Equal(t, tailLines-1, strings.Count(text, "early"))
	require.Contains(t, text, "empty.log is empty")
}

package testkit

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/childprocess"
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

func TestMissingBinaries(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "typo")
	t.Setenv("KUBEBUILDER_ASSETS", missing)
	_, err := Start(ClusterOptions{})
	require.ErrorContains(t, err, missing+"/etcd and "+missing+"/kube-apiserver isn't there")
	for _, help := range []string{"KUBEBUILDER_ASSETS=", "make controlplane", "setup-envtest use -p path", "USE_EXISTING_CLUSTER"} {
		require.ErrorContains(t, err, help)
	}
}

func TestExistingCluster(t *testing.T) {
	t.Setenv("USE_EXISTING_CLUSTER", "true")
	t.Setenv("KUBECONFIG", cluster.Kubeconfig())
	t.Setenv("KUBEBUILDER_ASSETS", "/nothing/here")
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

	_, err = Start(ClusterOptions{CRDPaths: []string{"testdata/absent.yaml"}})
	require.ErrorContains(t, err, "cluster: CRDs [testdata/absent.yaml]")

	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	_, err = Start(ClusterOptions{})
	require.ErrorContains(t, err, "existing cluster: the kubeconfig (set KUBECONFIG, or select a context)")
}

// What the process said last is what helps.
func TestStartSaysWhyItFailed(t *testing.T) {
	budget.Slow(t)
	t.Parallel()
	_, err := Start(ClusterOptions{APIServerFlags: map[string]string{"no-such-flag": "1"}})
	require.ErrorContains(t, err, "kube-apiserver: ended: exit status 1\nthe end of kube-apiserver.log:\n")
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
}

const (
	// victimVariable makes TestMain of a second test binary start a cluster. Its value is what becomes
	// of that.
	victimVariable = "ROPERATOR_TESTKIT_VICTIM"
	waits          = "waits" // for its death
	keeps          = "keeps" // the cluster
)

// victim starts a cluster.
func victim(what string) error {
	c, err := Start(ClusterOptions{ControllerManager: what == waits})
	if err != nil {
		return err
	}
	if what == keeps {
		c.keep.Store(true)
		return c.Stop()
	}
	fmt.Println("up")
	select {}
}

// startVictim starts a second test binary, whose cluster is below tmp.
func startVictim(t *testing.T, what string) (cmd *exec.Cmd, tmp string, said *bytes.Buffer) {
	t.Helper()
	tmp, said = t.TempDir(), &bytes.Buffer{}
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+what, "TMPDIR="+tmp)
	cmd.Stderr = said
	return cmd, tmp, said
}

// requireNothing waits until no process and no file of a cluster below tmp is left.
func requireNothing(t *testing.T, tmp string) {
	t.Helper()
	require.Eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(tmp, "roperator-testkit-*"))
		return err == nil && len(files) == 0 && len(running(t, tmp)) == 0
	}, patience, 50*time.Millisecond, "processes %v", running(t, tmp))
}

// running returns the IDs of the processes of clusters below a folder.
func running(t *testing.T, dir string) []int {
	t.Helper()
	ids, err := childprocess.Find(dir)
	require.NoError(t, err)
	return ids
}

// Other moments and signals are tested in internal/testing/childprocess.
func TestNothingSurvivesAKilledTest(t *testing.T) {
	budget.Slow(t)
	t.Parallel()
	cmd, tmp, said := startVictim(t, waits)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, said)
	require.Equal(t, "up\n", line)
	require.GreaterOrEqual(t, len(running(t, tmp)), 4, "etcd, kube-apiserver, and their guards")
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	requireNothing(t, tmp)
}

func TestAClusterThatIsKeptRunsOn(t *testing.T) {
	budget.Slow(t)
	t.Parallel()
	cmd, tmp, said := startVictim(t, keeps)
	require.NoError(t, cmd.Run(), said)
	for _, id := range running(t, tmp) {
		t.Cleanup(func() {
			if p, err := os.FindProcess(id); err == nil {
				_ = p.Kill() // unless the test has ended it
			}
		})
	}
	told := regexp.MustCompile(`(?s)testkit: cluster kept: kubectl --kubeconfig (.+)\ntestkit: end it by: (.+)\n`).FindStringSubmatch(said.String())
	require.Len(t, told, 3, said)
	config, err := clientcmd.BuildConfigFromFlags("", told[1])
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = client.Discovery().ServerVersion()
	require.NoError(t, err)
	require.Len(t, running(t, tmp), 2, "etcd and kube-apiserver")
	require.NoError(t, exec.Command("sh", "-c", told[2]).Run())
	requireNothing(t, tmp)
}

package explain

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/runner"
)

// A process whose own code protects its metrics is found by its Pod, and asked with TLS, though the
// Pod's arguments say nothing of it. The API server passes no token on, so that it refuses; what to do
// then is said. A process that serves them to everybody answers.
func TestProcessFoundByItsPod(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		secure *runner.MetricsSecurity
		args   []string
		want   string
	}{
		"Open":      {"it answers", nil, nil, "└─ process HOST: nothing is due\n"},
		"OpenAfter": {"an argument counts less than the answer", nil, []string{"--metrics-secure"}, "└─ process HOST: nothing is due\n"},
		"Protected": {"by Options.MetricsSecure", &runner.MetricsSecurity{}, nil, "it is protected, and answers 401 Unauthorized, since the API server passes no token on; run kubectl -n NAMESPACE port-forward pod/sites-0 PORT,"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStageWith(t, config.Operator{}, always(func(*handler.SyncRequest) []any { return []any{configMap("blog", "x")} }), hostAddress(t), tc.secure)
			s.begin(object{})
			s.podOf(tc.args)
			s.url = ""
			_, port, err := net.SplitHostPort(s.address)
			require.NoError(t, err)
			s.normalize = []string{port, "PORT"}
			require.Contains(t, s.normal(s.explain("--process-namespace="+s.Namespace)), tc.want, tc.reason)
		})
	}
}

// hostAddress returns an address of this machine at which an API server asks a Pod: any but those of
// the loopback.
func hostAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but those of the loopback, at which no API server asks a Pod")
	return ""
}

// podOf creates the Pod of the operator's process, as manifests has it, with these arguments.
func (s *stage) podOf(args []string) {
	s.t.Helper()
	createPod(s.t, s.Namespace, "sites-0", s.address, args)
}

// createPod creates a Pod with the label of the program sites, whose process listens at this address.
func createPod(t *testing.T, namespace, name, address string, args []string) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	pods := client.CoreV1().Pods(namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "sites"}},
		Spec: corev1.PodSpec{NodeName: "none", Containers: []corev1.Container{{
			Name: "operator", Image: "i", Args: args, Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: int32(port)}},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: host, PodIPs: []corev1.PodIP{{IP: host}}}
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
}

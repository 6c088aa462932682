package helm

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roperator/roperator/internal/testing/operatorproc"
)

// A kubelet runs the Pods of a namespace: each is a process of the test's own binary, with the
// arguments and the ServiceAccount of the Pod, and no other rights. It works while the test calls
// step.
type kubelet struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
	pods      map[types.UID]*podProcess
}

// A podProcess is the process of a Pod.
type podProcess struct {
	*operatorproc.Process
	name, account string
	args          []string
	stopped, told bool // it has been asked to end; its end is in the Pod's status
}

// step does what there is to do.
func (k *kubelet) step() {
	k.t.Helper()
	list, err := k.client.CoreV1().Pods(k.namespace).List(k.t.Context(), metav1.ListOptions{})
	require.NoError(k.t, err)
	there := map[types.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		there[pod.UID] = pod.DeletionTimestamp == nil
		p := k.pods[pod.UID]
		switch {
		case p == nil && pod.DeletionTimestamp == nil:
			k.start(pod)
		case p != nil && p.Ended() && !p.told:
			k.ended(pod, p)
		}
	}
	for uid, p := range k.pods {
		if !there[uid] && !p.stopped {
			p.stopped = true
			p.SignalIfRunning(syscall.SIGTERM)
		}
	}
}

// start starts the process of a Pod. A program finds the namespace of its Pod in a file that a kubelet
// mounts; this one is told by a flag.
func (k *kubelet) start(pod *corev1.Pod) {
	k.t.Helper()
	main := pod.Spec.Containers[0]
	command := operatorproc.Command{Name: main.Image, Args: append(slices.Clone(main.Args), "--leader-elect-resource-namespace="+k.namespace), Env: []string{"KUBECONFIG=" + k.kubeconfig(pod.Spec.ServiceAccountName)}}
	for _, env := range main.Env {
		command.Env = append(command.Env, env.Name+"="+env.Value)
	}
	k.pods[pod.UID] = &podProcess{Process: command.Start(k.t), name: pod.Name, account: pod.Spec.ServiceAccountName, args: main.Args}
	k.says(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
}

// ended says how the process of a Pod has ended.
func (k *kubelet) ended(pod *corev1.Pod, p *podProcess) {
	k.t.Helper()
	p.told = true
	code, phase := p.Exit(), corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	k.says(pod, phase, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), FinishedAt: metav1.Now()}})
}

// says writes the status of a Pod.
func (k *kubelet) says(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	k.t.Helper()
	ready := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		ready = corev1.ConditionTrue
	}
	pod.Status = corev1.PodStatus{
		Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: state, Ready: phase == corev1.PodRunning}},
	}
	pod.ResourceVersion = ""
	_, err := k.client.CoreV1().Pods(k.namespace).UpdateStatus(k.t.Context(), pod, metav1.UpdateOptions{})
	require.True(k.t, err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err), "%v", err)
}

// kubeconfig returns one with the token of a ServiceAccount.
func (k *kubelet) kubeconfig(account string) string {
	k.t.Helper()
	answer, err := k.client.CoreV1().ServiceAccounts(k.namespace).CreateToken(k.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(k.t, err)
	rc := cluster.RESTConfig()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["it"] = &clientcmdapi.Cluster{Server: rc.Host, CertificateAuthorityData: rc.CAData, CertificateAuthority: rc.CAFile}
	cfg.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: answer.Status.Token}
	cfg.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	cfg.CurrentContext = "it"
	file := filepath.Join(k.t.TempDir(), "kubeconfig")
	require.NoError(k.t, clientcmd.WriteToFile(*cfg, file))
	return file
}

// until works until a condition holds.
func (k *kubelet) until(what string, condition func() bool) {
	k.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); k.step() {
		require.True(k.t, time.Now().Before(deadline), "%s", what)
		select {
		case <-k.t.Context().Done():
			require.NoError(k.t, k.t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// during works while something else is done, and returns how that ended.
func (k *kubelet) during(what string, do func() error) error {
	k.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- do() }() // ends with what it does, for which the test waits
	var err error
	k.until(what, func() bool {
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	return err
}

// ran returns the processes whose first argument is this one.
func (k *kubelet) ran(first string) (out []*podProcess) {
	for _, p := range k.pods {
		if len(p.args) > 0 && p.args[0] == first {
			out = append(out, p)
		}
	}
	return out
}

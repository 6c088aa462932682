package client

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/internal/process"
)

// LoadRESTConfig finds the API server: by the kubeconfig named, else by the
// Pod that this process runs in, else by KUBECONFIG or ~/.kube/config. The
// namespace is the Pod's or the kubeconfig's.
func LoadRESTConfig(kubeconfig, kubeContext string) (rc *rest.Config, namespace string, err error) {
	if kubeconfig == "" && kubeContext == "" {
		if rc, err := rest.InClusterConfig(); err == nil {
			return rc, process.PodNamespace(), nil
		} else if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("in-cluster configuration: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	if rc, err = config.ClientConfig(); err == nil {
		namespace, _, err = config.Namespace()
	}
	if err != nil {
		tried := kubeconfig
		if tried == "" {
			tried = fmt.Sprint(rules.Precedence)
		}
		return nil, "", fmt.Errorf("kubeconfig: tried %s: %w; name one by --kubeconfig or KUBECONFIG", tried, err)
	}
	return rc, namespace, nil
}

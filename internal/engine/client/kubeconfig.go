package client

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadRESTConfig returns the configuration for the API server. It takes it from the
// kubeconfig file or its context, if one is named; else from the Pod that this process
// runs in; else from the file that KUBECONFIG names or ~/.kube/config. It makes no
// request.
func LoadRESTConfig(kubeconfig, kubeContext string) (*rest.Config, error) {
	if kubeconfig == "" && kubeContext == "" {
		if rc, err := rest.InClusterConfig(); err == nil {
			return rc, nil
		} else if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("in-cluster configuration: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext})
	rc, err := config.ClientConfig()
	if err != nil {
		tried := kubeconfig
		if tried == "" {
			tried = fmt.Sprint(rules.Precedence)
		}
		return nil, fmt.Errorf("kubeconfig: tried %s: %w; name one by --kubeconfig or KUBECONFIG", tried, err)
	}
	return rc, nil
}

// ContextName returns the name of the context that LoadRESTConfig uses, for people. It is
// "in-cluster" in a Pod, and empty if there is no kubeconfig.
func ContextName(kubeconfig, kubeContext string) string {
	if kubeconfig == "" && kubeContext == "" {
		if _, err := rest.InClusterConfig(); err == nil {
			return "in-cluster"
		}
	}
	if kubeContext != "" {
		return kubeContext
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loaded, err := rules.Load()
	if err != nil {
		return ""
	}
	return loaded.CurrentContext
}

package manifests

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/testing/kubelet"
)

// create creates what YAML documents say, strictly. Kinds that aren't built in are left out.
func create(ctx context.Context, rc *rest.Config, text string, options metav1.CreateOptions) (created int, err error) {
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return 0, err
	}
	options.FieldValidation = metav1.FieldValidationStrict
	for doc := range strings.SplitSeq(text, "---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			return created, err
		}
		if len(o.Object) == 0 || o.GetKind() == "ServiceMonitor" {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if _, err := client.Resource(resource).Namespace(o.GetNamespace()).Create(ctx, o, options); err != nil {
			return created, err
		}
		created++
	}
	return created, nil
}

// The API server takes everything that can be asked for.
func TestEverythingIsAccepted(t *testing.T) {
	rules := t.TempDir() + "/rules.yaml"
	require.NoError(t, os.WriteFile(rules, []byte(`- {apiGroups: [""], resources: [nodes/proxy], verbs: [get]}
- {nonResourceURLs: [/metrics], verbs: [get]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: more, namespace: kube-system}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: more}, rules: [{apiGroups: [storage.k8s.io], resources: [storageclasses], verbs: [get]}]}
`), 0o600))
	all := []string{
		"--install-namespace=default", "--replicas=3", "--env=A=1", "--env-from-secret=B=cred/pass", "--env-from-configmap=C=cm/key", "--arg=--parent-metrics=3",
		"--cpu-limit=2", "--memory-request=100Mi", "--rules=" + rules, "--parent-roles", "--network-policy", "--service-monitor",
	}
	for name, more := range map[string][]string{"ClusterWide": nil, "Namespaced": {"--namespace=default"}} {
		t.Run(name, func(t *testing.T) {
			created, err := create(t.Context(), cluster.RESTConfig(), manifestsFor(t, "rights", append(more, all...)...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			require.Greater(t, created, 10)
		})
	}
}

// The Deployment's Pods get a node, and become ready there.
func TestManifestsRun(t *testing.T) {
	nodes, err := kubelet.Start(t.Context(), cluster.Kubeconfig())
	if errors.Is(err, os.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Skipf("kwok or kube-scheduler is missing: %v", err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, nodes.Stop()) }()

	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	ctx := t.Context()
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rights-system"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = create(ctx, cluster.RESTConfig(), manifestsFor(t, "rights", "--replicas=2", "--network-policy", "--parent-roles"), metav1.CreateOptions{})
	require.NoError(t, err)
	var d *appsv1.Deployment
	require.Eventually(t, func() bool {
		d, err = client.AppsV1().Deployments("rights-system").Get(ctx, "rights", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 2
	}, patience, 100*time.Millisecond, "%+v", d)
	pods, err := client.CoreV1().Pods("rights-system").List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	on := map[string]bool{}
	for _, pod := range pods.Items {
		require.Equal(t, corev1.PodRunning, pod.Status.Phase)
		on[pod.Spec.NodeName] = true
	}
	require.Len(t, on, 2, "each on a node of its own")
	budget, err := client.PolicyV1().PodDisruptionBudgets("rights-system").Get(ctx, "rights", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "1", budget.Spec.MaxUnavailable.String())
	// Who may edit may edit parents; who may view may not.
	require.Eventually(t, func() bool {
		edit, err := client.RbacV1().ClusterRoles().Get(ctx, "edit", metav1.GetOptions{})
		return err == nil && strings.Contains(edit.String(), "conformance.roperator.com")
	}, patience, 100*time.Millisecond)
}

package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func clusterTypes() []resource.Type {
	return []resource.Type{
		k8s.Namespace, k8s.ClusterRole, k8s.ClusterRoleBinding, k8s.PersistentVolume, k8s.StorageClass, k8s.PriorityClass, k8s.IngressClass,
		k8s.RuntimeClass, k8s.MutatingWebhookConfiguration, k8s.ValidatingWebhookConfiguration, k8s.CSIDriver,
		{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
	}
}

// clusterObjects returns an object of each of these types, and a second
// ClusterRole whose rules a controller fills in.
func clusterObjects(t *testing.T, name, version string) []any {
	t.Helper()
	const hook = `webhooks: [{name: a.example.com, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "https://127.0.0.1:1/%[2]s"},
		rules: [{apiGroups: [absent.example.com], apiVersions: [v1], resources: [absents], operations: [CREATE]}]}]`
	var children []any
	for _, text := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s, labels: {version: "%[2]s"}}}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s, labels: {"%[1]s": "yes"}}, rules: [{apiGroups: [""], resources: [pods], verbs: [get], resourceNames: ["%[2]s"]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s-all, annotations: {version: "%[2]s"}}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {"%[1]s": "yes"}}]}, rules: null}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s}, roleRef: {kind: ClusterRole, name: %[1]s}, subjects: [{kind: User, name: "user-%[2]s"}]}`,
		`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %[1]s}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 10%[2]s00Mi}, persistentVolumeReclaimPolicy: Retain, hostPath: {path: /none}, storageClassName: absent}}`,
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: %[1]s, annotations: {version: "%[2]s"}}, provisioner: example.com/none}`,
		`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %[1]s}, value: 1, description: "%[2]s"}`,
		`{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: %[1]s}, spec: {controller: example.com/none, parameters: {kind: Parameters, apiGroup: example.com, name: p%[2]s}}}`,
		`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: %[1]s}, handler: none, scheduling: {nodeSelector: {version: "%[2]s"}}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: %[1]s}, ` + hook + `}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: %[1]s}, ` + hook + `}`,
		`{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: %[1]s, labels: {version: "%[2]s"}}, spec: {}}`,
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.%[1]s.example.com}, spec: {group: %[1]s.example.com, scope: Namespaced, names: {kind: Thing, plural: things},
			versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, description: "%[2]s", properties: {a: {type: integer, default: 1, enum: [1, 2]}}}}}}}]}}`,
	} {
		children = append(children, manifest(t, fmt.Sprintf(text, name, version)))
	}
	return children
}

func TestC22c_ClusterScopedKinds(t *testing.T) {
	scenario(t, "C22c", "cluster-scoped kinds: silent, converge after a change, silent again, nothing to do after a restart")
	needsControllerManager(t)
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			cfg := operator("c22-cluster-"+lower(strategy), childrenBy(strategy, clusterTypes()...)...)
			cfg.Parent = clusterParentType
			s := newStageWith(t, cfg, testkit.KitOptions{})
			name := fmt.Sprintf("%s-%s", cfg.Name, rand.String(5)) // of no other run either
			s.parent = name
			s.want(clusterObjects(t, name, "1")...)
			s.undisturbed()
			s.silent()
			s.restart()
			s.want(clusterObjects(t, name, "2")...)
			s.undisturbed()
			// By the engine's own comparison, but for what is spelled differently.
			for _, child := range clusterObjects(t, name, "2") {
				if kind := child.(map[string]any)["kind"]; kind != "PersistentVolume" {
					s.Eventually(child, patience)
				}
			}
			require.Equal(t, "10200Mi", s.field(clusterObjects(t, name, "2")[4], "spec", "capacity", "storage"))
			eventually(t, "a controller aggregates", func() bool {
				rules, _ := s.field(clusterObjects(t, name, "2")[2], "rules").([]any)
				return len(rules) == 1
			})
			s.silent()
			s.restart()
			s.want()
			for _, child := range clusterObjects(t, name, "2") {
				s.EventuallyGone(child, patience)
			}
		})
	}
}

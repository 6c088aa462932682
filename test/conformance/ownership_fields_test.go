package conformance

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC139_IgnoredFieldsAreNoChange(t *testing.T) {
	scenario(t, "C139", "a random ignored value is no change: no write, no loop, no generation; ignored annotations or labels don't cover the engine's own")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			child := config.Child{Type: k8s.Deployment, Strategy: strategy, IgnoreFields: []string{"spec.replicas", "metadata.annotations", "metadata.labels", "spec.template.spec.containers[*].resources"}}
			s := newStage(t, "c139-"+lower(strategy), child)
			var calls atomic.Int64
			want := func(image string) *handler.SyncResponse {
				n := calls.Add(1)
				d := podsOf(t, fmt.Sprintf(`{containers: [{name: a, image: %s, resources: {limits: {cpu: %d}}}]}`, image, n))
				d["spec"].(map[string]any)["replicas"] = n % 3
				d["metadata"].(map[string]any)["annotations"] = map[string]any{"call": fmt.Sprint(n)}
				return &handler.SyncResponse{Children: []any{d}}
			}
			s.answer(func(*handler.SyncRequest) *handler.SyncResponse { return want("a") })
			settle(t, s.Kit)
			one := podsOf(t, "{}")
			generation := s.field(one, "metadata", "generation")
			s.answer(func(*handler.SyncRequest) *handler.SyncResponse { return want("a") })
			settle(t, s.Kit)
			require.Equal(t, []string{"create"}, verbs(s.Writes(), "Deployment", "one"))
			require.Equal(t, generation, s.field(one, "metadata", "generation"))
			s.restart()

			mark := s.field(one, "metadata", "annotations", "roperator.com/applied")
			replicas := s.field(one, "spec", "replicas")
			uid := s.Get(one).UID()
			s.answer(func(*handler.SyncRequest) *handler.SyncResponse { return want("b") })
			settle(t, s.Kit)
			require.NotEqual(t, mark, s.field(one, "metadata", "annotations", "roperator.com/applied"), "the mark is the engine's")
			require.Equal(t, "b", s.containersOf(one)[0].(map[string]any)["image"])
			if strategy != config.Recreate {
				require.Equal(t, replicas, s.field(one, "spec", "replicas"))
				require.Equal(t, uid, s.Get(one).UID())
				require.Equal(t, 1, s.updates("Deployment"), "one write for one change")
			}
			s.silent()
			s.restart()
		})
	}
}

func TestC157_AtomicValues(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C157", "atomic maps and items of atomic lists are owned whole: what others put into them goes; defaults of the server in them are no difference")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c157-"+lower(strategy), childrenBy(strategy, k8s.NetworkPolicy, k8s.Service, k8s.Deployment, k8s.RoleBinding, k8s.Role, widgetType)...)
			policy := manifest(t, `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: one}, spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: 80}]}]}}`)
			service := manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: one}, ports: [{port: 80}]}}`)
			deployment := podsOf(t, `{nodeSelector: {a: b}, containers: [{name: a, image: a, env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]}`)
			widget := manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {labels: {a: b}, steps: [{run: a}]}}`)
			role := manifest(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: one}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`)
			binding := manifest(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: one}, roleRef: {kind: Role, name: one}, subjects: [{kind: User, name: a}]}`)
			s.want(policy, service, deployment, widget, role, binding)
			s.undisturbed()
			for _, kind := range []string{"NetworkPolicy", "Service", "Deployment", "Widget", "Role", "RoleBinding"} {
				require.Equal(t, []string{"create"}, verbs(s.Writes(), kind, "one"))
			}
			s.silent()
			s.restart()
			narrow := func() {
				s.patch(k8s.NetworkPolicy, "one", `{"spec":{"podSelector":{"matchLabels":{"theirs":"x"}},"ingress":[{"ports":[{"port":80,"protocol":"TCP","endPort":90}]}]}}`)
				s.patch(k8s.Service, "one", `{"spec":{"selector":{"theirs":"x"}}}`)
				s.patch(k8s.Deployment, "one", `{"spec":{"template":{"spec":{"nodeSelector":{"theirs":"x"}}}}}`)
				s.patch(widgetType, "one", `{"spec":{"labels":{"theirs":"x"},"steps":[{"run":"a","times":2}]}}`)
				s.patch(k8s.Role, "one", `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"],"resourceNames":["x"]}]}`)
			}
			check := func() {
				settle(t, s.Kit)
				require.Empty(t, s.field(policy, "spec", "podSelector"))
				require.Equal(t, []any{map[string]any{"ports": []any{map[string]any{"port": int64(80), "protocol": "TCP"}}}}, s.field(policy, "spec", "ingress"))
				require.Equal(t, map[string]any{"app": "one"}, s.field(service, "spec", "selector"))
				require.Equal(t, map[string]any{"a": "b"}, s.field(deployment, "spec", "template", "spec", "nodeSelector"))
				require.Equal(t, map[string]any{"a": "b"}, s.field(widget, "spec", "labels"))
				require.Equal(t, []any{map[string]any{"run": "a", "times": int64(1)}}, s.field(widget, "spec", "steps"))
				require.NotContains(t, s.field(role, "rules").([]any)[0], "resourceNames")
				s.silent()
				s.restart()
			}
			narrow()
			check()
			s.rebuild(s.config, narrow, policy, service, deployment, widget, role, binding)
			check()
		})
	}
}

func TestC168_AggregatedRules(t *testing.T) {
	needsControllerManager(t)
	scenario(t, "C168", "beside an aggregationRule the rules of a ClusterRole are no opinion, [] or not: its controller fills them in")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			name := "c168-" + lower(strategy)
			cfg := operator(name, childrenBy(strategy, k8s.ClusterRole)...)
			cfg.Parent = clusterParentType
			s := newClusterStage(t, cfg)
			part := manifest(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: `+name+`-part, labels: {aggregate: `+name+`}},
				rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`)
			whole := func(rules string) map[string]any {
				return manifest(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: `+name+`},
					aggregationRule: {clusterRoleSelectors: [{matchLabels: {aggregate: `+name+`}}]}, rules: `+rules+`}`)
			}
			for _, rules := range []string{"[]", "null", `[{apiGroups: [""], resources: [secrets], verbs: [get]}]`} {
				s.want(part, whole(rules))
				eventually(t, "the controller fills in the rules", func() bool {
					list, _ := s.field(whole(rules), "rules").([]any)
					return len(list) == 1 && fmt.Sprint(list[0].(map[string]any)["resources"]) == "[pods]"
				})
				settle(t, s.Kit)
				s.silent()
				s.restart()
			}
		})
	}
}

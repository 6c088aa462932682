package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// plural guesses where a type is served.
func plural(of resource.Type) schema.GroupVersionResource {
	guess, _ := meta.UnsafeGuessKindToResource(of.GroupVersionKind())
	return guess
}

// An immutable is an object of which a field can't be changed.
type immutable struct {
	of    resource.Type
	field string // as the error names it
	text  string // with %d for what changes
}

func immutableObjects() []immutable {
	return []immutable{
		{k8s.Deployment, "spec.selector", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one%[1]d}}, template: {
			metadata: {labels: {app: one%[1]d}}, spec: {containers: [{name: main, image: example.com/app}]}}}}`},
		{k8s.StatefulSet, "spec", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: one}, spec: {replicas: 0, serviceName: s%d, selector: {matchLabels: {app: one}}, template: {
			metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app}]}}}}`},
		{k8s.Job, "spec.template", `{apiVersion: batch/v1, kind: Job, metadata: {name: one}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: "example.com/app:%d", resources: {limits: {cpu: 1000m}}}]}}}}`},
		{k8s.ConfigMap, "data", `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, immutable: true, data: {k: v%d}}`},
		{k8s.Secret, "type", `{apiVersion: v1, kind: Secret, metadata: {name: one}, type: example.com/t%d, stringData: {k: v}}`},
		{k8s.RoleBinding, "roleRef", `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: one}, roleRef: {kind: Role, name: r%d, apiGroup: rbac.authorization.k8s.io}}`},
		{k8s.PersistentVolumeClaim, "spec", `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: one}, spec: {storageClassName: s%d, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}`},
		{k8s.Pod, "spec", `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {hostname: h%d, containers: [{name: main, image: example.com/app, resources: {limits: {cpu: 1000m}}}]}}`},
		{k8s.EndpointSlice, "addressType", `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: one}, addressType: %s, endpoints: []}`},
		{widgetType, "spec.fixed", `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {fixed: f%d}}`},
	}
}

func immutableTypes() []resource.Type {
	var types []resource.Type
	for _, i := range immutableObjects() {
		types = append(types, i.of)
	}
	return types
}

func immutables(t *testing.T, version int) []any {
	t.Helper()
	var children []any
	for _, i := range immutableObjects() {
		if i.of == k8s.EndpointSlice {
			children = append(children, manifest(t, fmt.Sprintf(i.text, []string{"IPv4", "IPv6"}[version])))
			continue
		}
		children = append(children, manifest(t, fmt.Sprintf(i.text, version)))
	}
	return children
}

func TestC34_ReplaceImmutable(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C34", "Replace on an immutable field: a clear error, no loop")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			name := "c34-" + lower(strategy)
			s := newStageWith(t, patient(name, childrenBy(strategy, immutableTypes()...)...), testkit.KitOptions{})
			s.want(immutables(t, 0)...)
			before := s.identities()
			from := needsAudit(t).mark(t)
			s.ask(immutables(t, 1)...)
			eventually(t, "the operator fails", func() bool { return len(s.errors()) > 0 })
			settle(t, s.Kit)
			require.Equal(t, before, s.identities())
			writes := map[string]int{}
			for _, r := range needsAudit(t).since(t, from, name) {
				if r.persists() {
					writes[r.Resource]++
				}
			}
			text := s.errors()[0].Error()
			require.Equal(t, len(immutableObjects()), strings.Count(text, "; strategy Recreate would"), "%s", text)
			for _, i := range immutableObjects() {
				require.Contains(t, text, fmt.Sprintf("%s %s/one: ", i.of.Kind, s.Namespace))
				require.Contains(t, text, fmt.Sprintf("strategy %s can't change the immutable field %s", strategy, i.field), "%s", i.of)
				require.LessOrEqual(t, writes[plural(i.of).Resource], 20, "%s: tried with growing distance, by every means: %v", i.of, writes)
			}
			require.NotEmpty(t, s.Kit.Events(parent("one", nil)))

			s.ask(immutables(t, 0)...)
			eventually(t, "the pass is over that the retry's backoff may hold back", func() bool {
				it := s.Get(s.it())
				seen, _ := it.Field("status", "observedGeneration")
				return seen == it.Generation()
			})
			settle(t, s.Kit)
			failures := len(s.errors()) // a retry may have come before the change
			s.silent()
			require.Len(t, s.errors(), failures, "the former state is as good as ever")
		})
	}
}

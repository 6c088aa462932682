package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// newClusterStage is newStage for a configuration with cluster-scoped parents.
func newClusterStage(t *testing.T, cfg config.Operator) *stage {
	t.Helper()
	s := newStageWith(t, cfg, testkit.KitOptions{})
	s.parent = cfg.Name
	return s
}

// inPlace are the strategies that change a child in its place.
func inPlace() []config.UpdateStrategy {
	return []config.UpdateStrategy{config.Replace, config.Apply}
}

// updates returns how often the operator has written a child that is there.
func (s *stage) updates(kind string) int {
	s.t.Helper()
	n := 0
	for _, verb := range verbs(s.Writes(), kind, "one") {
		if verb != "create" {
			n++
		}
	}
	return n
}

// names returns the values of one field of the items of a list, in order.
func names(list any, field string) []any {
	var out []any
	items, _ := list.([]any)
	for _, item := range items {
		out = append(out, item.(map[string]any)[field])
	}
	return out
}

// containersOf returns the containers of a child with a template.
func (s *stage) containersOf(child any) []any {
	s.t.Helper()
	list, _ := s.field(child, "spec", "template", "spec", "containers").([]any)
	return list
}

// podsOf returns a Deployment without Pods whose template has this spec.
func podsOf(t *testing.T, spec string) map[string]any {
	t.Helper()
	return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}},
		template: {metadata: {labels: {app: one}}, spec: `+spec+`}}}`)
}

func TestC135_OrderOfItems(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C135", "a desired list in another order is written where order has a meaning, keyed or without a schema; one that others reorder isn't")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c135-"+lower(strategy), childrenBy(strategy, k8s.Deployment, widgetType, gadgetType)...)
			want := func(a, b string) []any {
				return []any{
					podsOf(t, fmt.Sprintf(`{containers: [{name: %s, image: a}, {name: %s, image: a}]}`, a, b)),
					manifest(t, fmt.Sprintf(`{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {named: [{name: %s}, {name: %s}]}}`, a, b)),
					manifest(t, fmt.Sprintf(`{apiVersion: conformance.roperator.com/v1, kind: Gadget, metadata: {name: one}, spec: {steps: [{name: %s}, {name: %s}]}}`, a, b)),
				}
			}
			check := func(a, b string) {
				require.Equal(t, []any{a, b}, names(s.containersOf(want(a, b)[0]), "name"))
				require.Equal(t, []any{a, b}, names(s.field(want(a, b)[1], "spec", "named"), "name"))
				require.Equal(t, []any{a, b}, names(s.field(want(a, b)[2], "spec", "steps"), "name"))
			}
			s.want(want("a", "b")...)
			s.want(want("b", "a")...)
			check("b", "a")
			s.silent()
			s.restart()
			s.rebuild(s.config, nil, want("a", "b")...)
			check("a", "b")
			s.restart()

			before := s.updates("Gadget")
			s.patch(gadgetType, "one", `{"spec":{"steps":[{"name":"b"},{"name":"a"}]}}`)
			settle(t, s.Kit)
			require.Equal(t, before, s.updates("Gadget"), "others may reorder what we named in our order")
			s.restart()
		})
	}
}

func TestC135b_OrderOfVariables(t *testing.T) {
	scenario(t, "C135b", "a ValidatingAdmissionPolicy whose variables change places is accepted, since each refers only to those before it")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			cfg := operator("c135-vap-"+lower(strategy), childrenBy(strategy, k8s.ValidatingAdmissionPolicy)...)
			cfg.Parent = clusterParentType
			s := newClusterStage(t, cfg)
			policy := func(variables string) map[string]any {
				return manifest(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: c135-`+lower(strategy)+`}, spec: {
					matchConstraints: {resourceRules: [{apiGroups: [c135.example.com], apiVersions: [v1], operations: [CREATE], resources: [absents]}]},
					variables: [`+variables+`], validations: [{expression: "variables.a || variables.b"}]}}`)
			}
			s.want(policy(`{name: a, expression: "true"}, {name: b, expression: variables.a}`))
			s.want(policy(`{name: b, expression: "true"}, {name: a, expression: variables.b}`))
			require.Equal(t, []any{"b", "a"}, names(s.field(policy(""), "spec", "variables"), "name"))
			s.silent()
			s.restart()
		})
	}
}

func TestC140_OrderWithoutMeaning(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C140", "Service ports, container ports, mounts and elements of sets that come in any order are the same desired state: nothing is written")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c140-"+lower(strategy), childrenBy(strategy, k8s.Service, k8s.Deployment, widgetType)...)
			want := func(i int) []any {
				swap := func(a, b string) string {
					if i%2 == 1 {
						return b + ", " + a
					}
					return a + ", " + b
				}
				child := podsOf(t, `{volumes: [`+swap("{name: a, emptyDir: {}}", "{name: b, emptyDir: {}}")+`], imagePullSecrets: [`+swap("{name: a}", "{name: b}")+`],
					hostAliases: [`+swap("{ip: 192.0.2.1, hostnames: [a]}", "{ip: 192.0.2.2, hostnames: [a]}")+`],
					containers: [{name: a, image: a, ports: [`+swap("{containerPort: 1}", "{containerPort: 2}")+`], volumeMounts: [`+swap("{name: a, mountPath: /a}", "{name: b, mountPath: /b}")+`]}]}`)
				return []any{
					manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {ports: [`+swap("{name: a, port: 80}", "{name: b, port: 81}")+`]}}`),
					manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {tags: [`+swap("a", "b")+`]}}`),
					child,
				}
			}
			s.want(want(0)...)
			for i := range 4 {
				s.want(want(i + 1)...)
			}
			for _, kind := range []string{"Service", "Deployment", "Widget"} {
				require.Equal(t, []string{"create"}, verbs(s.Writes(), kind, "one"))
			}
			s.rebuild(s.config, nil, want(1)...)
			for _, kind := range []string{"Service", "Deployment", "Widget"} {
				require.Equal(t, []string{"create"}, verbs(s.Writes(), kind, "one"))
			}
		})
	}
}

func TestC143_Duplicates(t *testing.T) {
	scenario(t, "C143", "of duplicate items one that is dropped goes, and a twin that somebody adds is noticed")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c143-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			child := func(env string) map[string]any {
				return podsOf(t, `{containers: [{name: a, image: a, env: [`+env+`]}]}`)
			}
			env := func() []any {
				return names(s.containersOf(child(""))[0].(map[string]any)["env"], "value")
			}
			s.want(child(`{name: A, value: "1"}, {name: B, value: b}, {name: A, value: "2"}`))
			s.want(child(`{name: A, value: "1"}, {name: B, value: b}`))
			require.Equal(t, []any{"1", "b"}, env(), "the second A is gone")
			s.silent()
			s.restart()

			s.patch(k8s.Deployment, "one", `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"a","env":[
				{"name":"A","value":"1"},{"name":"B","value":"b"},{"name":"A","value":"theirs"},{"name":"C","value":"theirs"}]}]}}}}`)
			settle(t, s.Kit)
			require.Equal(t, []any{"1", "b", "theirs"}, env(), "another A would win; C is somebody else's")
			s.silent()
			s.restart()
			s.rebuild(s.config, func() {
				s.patch(k8s.Deployment, "one", `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"a","env":[
					{"name":"A","value":"theirs"},{"name":"A","value":"1"},{"name":"B","value":"b"}]}]}}}}`)
			}, child(`{name: A, value: "1"}, {name: B, value: b}`))
			require.Equal(t, []any{"1", "b"}, env())
			s.restart()
		})
	}
}

func TestC149_EmptyStruct(t *testing.T) {
	scenario(t, "C149", "an empty struct that is no longer said leaves what others have set in it")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c149-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			s.want(podsOf(t, `{securityContext: {}, containers: [{name: a, image: a, resources: {}}]}`))
			s.patch(k8s.Deployment, "one", `{"spec":{"template":{"spec":{"securityContext":{"runAsUser":7},"containers":[{"name":"a","image":"a","resources":{"limits":{"cpu":"1"}}}]}}}}`)
			settle(t, s.Kit)
			s.want(podsOf(t, `{containers: [{name: a, image: b}]}`))
			container := s.containersOf(podsOf(t, "{}"))[0].(map[string]any)
			require.Equal(t, map[string]any{"limits": map[string]any{"cpu": "1"}}, container["resources"])
			require.Equal(t, "b", container["image"])
			require.Equal(t, map[string]any{"runAsUser": int64(7)}, s.field(podsOf(t, "{}"), "spec", "template", "spec", "securityContext"))
			s.silent()
			s.restart()
		})
	}
}

func TestC150_NameAmongKeys(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C150", "where name is one of several keys, somebody else's item of that name is another item")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c150-"+lower(strategy), childrenBy(strategy, widgetType)...)
			widget := manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {named: [{name: a, protocol: TCP, value: ours}]}}`)
			s.want(widget)
			s.patch(widgetType, "one", `{"spec":{"named":[{"name":"a","protocol":"UDP","value":"theirs"}]}}`)
			settle(t, s.Kit)
			s.Eventually(widget, patience)
			require.ElementsMatch(t, []any{"TCP", "UDP"}, names(s.field(widget, "spec", "named"), "protocol"))
			require.ElementsMatch(t, []any{"ours", "theirs"}, names(s.field(widget, "spec", "named"), "value"))
			s.silent()
			s.restart()
		})
	}
}

func TestC156b_RawNumbersAndNulls(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C156b", "a raw 2.0 in a status costs nothing at a restart; a null in a desired list is what a create would make of it")
	s := newStage(t, "c156", childrenBy(config.Replace, gadgetType)...)
	gadget := func(list string) map[string]any {
		return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Gadget, metadata: {name: one}, spec: {list: `+list+`, ratio: 2.0}}`)
	}
	answer := func(list string) func(*handler.SyncRequest) *handler.SyncResponse {
		return func(*handler.SyncRequest) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{gadget(list)}, Status: json.RawMessage(`{"ratio":2.0,"big":1e3,"list":[2.0,-0.0]}`)}
		}
	}
	s.answer(answer(`[a, null, c]`))
	settle(t, s.Kit)
	require.Equal(t, []any{"a", nil, "c"}, s.field(gadget("[]"), "spec", "list"))
	statuses := len(verbs(s.Writes(), "Parent", "one"))
	s.silent()
	s.restart()
	s.answer(answer(`[a, b, c]`))
	settle(t, s.Kit)
	s.answer(answer(`[a, null, c]`))
	settle(t, s.Kit)
	require.Equal(t, []any{"a", nil, "c"}, s.field(gadget("[]"), "spec", "list"))
	s.patch(gadgetType, "one", `{"spec":{"list":["a","theirs","c"]}}`)
	settle(t, s.Kit)
	require.Equal(t, []any{"a", nil, "c"}, s.field(gadget("[]"), "spec", "list"))
	s.silent()
	s.restart()
	require.GreaterOrEqual(t, len(verbs(s.Writes(), "Parent", "one")), statuses)
}

func TestC163_ItemsWithoutNames(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C163", "in a list without a schema an item that loses its name loses what was dropped with it")
	for _, strategy := range inPlace() {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c163-"+lower(strategy), childrenBy(strategy, gadgetType)...)
			gadget := func(ports string) map[string]any {
				return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Gadget, metadata: {name: one}, spec: {ports: `+ports+`}}`)
			}
			for _, ports := range []string{
				`[{name: http, containerPort: 80, hostPort: 80}]`, `[{containerPort: 80}]`, `[{name: http, containerPort: 80}]`,
				`[{name: http, containerPort: 80}, {name: b, containerPort: 81}]`, `[{containerPort: 80}, {name: b, containerPort: 81}]`, `[{name: b}, {name: b}]`, `[{name: a}, {name: b}]`,
			} {
				s.want(gadget(ports))
				require.Equal(t, gadget(ports)["spec"].(map[string]any)["ports"], s.field(gadget("[]"), "spec", "ports"))
			}
			s.silent()
			s.restart()
		})
	}
}

func TestC140b_PortsOfOthers(t *testing.T) {
	scenario(t, "C140b", "a Service whose ports somebody renumbers, renames or adds to comes back to the desired ports; what can stand beside them stays")
	for name, c := range map[string]struct {
		ports, edited string
		want          []any // the numbers of the ports in the end
	}{
		"unnamed":        {`[{port: 80, targetPort: 1}]`, `[{port: 81, protocol: TCP, targetPort: 1}]`, []any{int64(80)}},
		"replaced":       {`[{port: 80, targetPort: 1}]`, `[{port: 81, protocol: TCP, name: a}, {port: 82, protocol: TCP, name: b}]`, []any{int64(80), int64(82)}},
		"named":          {`[{port: 80, name: http}]`, `[{port: 81, protocol: TCP, name: http}]`, []any{int64(80)}},
		"of another":     {`[{port: 80, name: http}]`, `[{port: 80, protocol: TCP, name: old}, {port: 81, protocol: TCP, name: http}]`, []any{int64(80)}},
		"with a sibling": {`[{port: 80, name: http}]`, `[{port: 81, protocol: TCP, name: http}, {port: 9, protocol: TCP, name: x}]`, []any{int64(80), int64(9)}},
	} {
		for _, strategy := range inPlace() {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c140-ports-"+strings.ReplaceAll(name, " ", "-")+"-"+lower(strategy), childrenBy(strategy, k8s.Service)...)
				service := manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: one}, ports: `+c.ports+`}}`)
				s.want(service)
				change, err := json.Marshal(map[string]any{"spec": manifest(t, "{ports: "+c.edited+"}")})
				require.NoError(t, err)
				s.patch(k8s.Service, "one", string(change))
				settle(t, s.Kit)
				require.Equal(t, c.want, names(s.field(service, "spec", "ports"), "port"))
				s.silent()
				s.restart()
			})
		}
	}
}

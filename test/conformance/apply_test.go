package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func TestC138_ScaledWhileTheHandlerThinks(t *testing.T) {
	scenario(t, "C138", "what an autoscaler writes to an ignored field while the handler thinks isn't lost, whatever else the handler changes")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c138-"+lower(strategy), config.Child{Type: k8s.Deployment, Strategy: strategy, IgnoreFields: []string{"spec.replicas"}})
			typed, _ := clients(t, "somebody")
			var scaleTo atomic.Int32 // while the next call thinks; 0: nobody scales
			var delay atomic.Int32
			deployment := func() map[string]any {
				return manifest(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {paused: true, replicas: 0, minReadySeconds: %d, selector: {matchLabels: {app: one}}, template: {
					metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app}]}}}}`, delay.Load()))
			}
			wanted := func(*handler.SyncRequest) *handler.SyncResponse {
				if n := scaleTo.Swap(0); n > 0 {
					_, err := typed.AppsV1().Deployments(s.Namespace).Patch(t.Context(), "one", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n), metav1.PatchOptions{}, "scale")
					assert.NoError(t, err)
				}
				return &handler.SyncResponse{Children: []any{deployment()}}
			}
			delay.Store(1)
			s.answer(wanted)
			settle(t, s.Kit)
			for round := range int32(4) {
				delay.Add(1)
				scaleTo.Store(round + 2)
				s.answer(wanted)
				settle(t, s.Kit)
				require.Empty(t, s.errors())
				require.EqualValues(t, round+2, s.field(deployment(), "spec", "replicas"))
				require.EqualValues(t, delay.Load(), s.field(deployment(), "spec", "minReadySeconds"))
			}
			s.undisturbed()
			s.silent()
			s.restart()
		})
	}
}

func TestC138b_IgnoredSinceABuild(t *testing.T) {
	scenario(t, "C138b", "a field that a build applied and the next one ignores isn't the operator's any more after the next removal: whoever applies it meets no conflict")
	deployment := func(spec string) map[string]any {
		return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {paused: true, selector: {matchLabels: {app: one}}, template: {
			metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app}]}}, `+spec+`}}`)
	}
	s := newStage(t, "c138-build", childrenBy(config.Apply, k8s.Deployment)...)
	s.want(deployment("replicas: 2, minReadySeconds: 1"))
	s.want(deployment("replicas: 2, minReadySeconds: 2")) // by an update or an apply: it owns its words by an Apply entry
	s.rebuild(s.withChild(config.Child{Type: k8s.Deployment, Strategy: config.Apply, IgnoreFields: []string{"spec.replicas"}}), nil, deployment("revisionHistoryLimit: 5"))
	_, untyped := clients(t, "somebody")
	scaled := &unstructured.Unstructured{Object: manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 5}}`)}
	_, err := untyped.Resource(deploymentsResource).Namespace(s.Namespace).Apply(t.Context(), "one", scaled, metav1.ApplyOptions{FieldManager: "scaler"})
	require.NoError(t, err)
	settle(t, s.Kit)
	require.EqualValues(t, 5, s.field(deployment(""), "spec", "replicas"))
	s.silent()
}

// A life is what becomes of one object: what is desired of it, and what somebody
// else changes in it by a JSON merge patch, which begins with a brace and a quote. The first
// step is a state.
type life struct {
	reason string
	head   string // what all states have in common, with %s for the rest
	steps  []string
}

const (
	aGadget = `apiVersion: conformance.roperator.com/v1, kind: Gadget, spec: {%s}`
	aWidget = `apiVersion: conformance.roperator.com/v1, kind: Widget, spec: {%s}`
)

func livesUnderApply() map[string]life {
	return map[string]life{
		"values": {"an empty object of values isn't null, and isn't nothing", aGadget, []string{
			`values: {a: {b: 1, c: {d: x}}, l: [1]}`, `values: {a: {b: 1, c: {}}, l: []}`, `values: {a: {}, l: [2]}`, `values: {}`, `values: {a: {c: {}}}`, ``, `values: {a: [], b: {}}`,
		}},
		"values of two": {"the keys and items of others stay where there is no schema", aGadget, []string{
			`values: {a: 1, o: {a: 1}, l: [{name: a, v: 1}]}`, `{"spec":{"values":{"theirs":1,"o":{"theirs":{}},"l":[{"name":"theirs"},{"name":"a","v":1,"theirs":2}]}}}`, `values: {a: 2, o: {a: 1}, l: [{name: a, v: 1}]}`,
			`values: {a: 2, o: {a: 2}, l: [{name: a, v: 2}, {name: b}]}`, `values: {a: 3, o: {}, l: []}`, `values: {a: 3}`, ``,
		}},
		"emptied": {"a list or a map that becomes empty is empty", aWidget, []string{
			`named: [{name: a, value: x}, {name: b}], tags: [a, b], steps: [{run: a}], limits: {cpu: 1}, labels: {a: b}, others: [{name: a}], nested: {known: a}`,
			`named: [], tags: [], steps: [], limits: {}, labels: {}, others: [], nested: {}`, `named: [{name: c}], tags: [c], steps: [{run: b, times: 2}], limits: {memory: 1Gi}, labels: {c: d}, others: [{name: b}], nested: {known: b}`, `named: [], steps: []`, ``,
		}},
		"shared": {"what others have in maps and lists by keys stays", aWidget, []string{
			`named: [{name: a, value: x}], tags: [a], limits: {cpu: 1}, nested: {known: a}`,
			`{"spec":{"size":3,"tags":["theirs","a"],"limits":{"theirs":"2"},"named":[{"name":"theirs","protocol":"UDP"},{"name":"a","protocol":"TCP","value":"x"}]}}`,
			`named: [{name: a, value: w}, {name: b}], tags: [b], limits: {cpu: 2}, nested: {mode: manual}`, `named: [{name: b}], limits: {memory: 1}`, `color: blue`, `tags: [a]`,
		}},
		"one owner": {"a map or a list with one owner", aWidget, []string{
			`labels: {a: b}, steps: [{run: a}, {run: b}]`, `{"spec":{"labels":{"theirs":"x"}}}`, `labels: {a: c}, steps: [{run: b}]`, `{"spec":{"steps":[{"run":"theirs"}]}}`, `steps: [{run: b, times: 3}]`, `labels: {c: d}`,
		}},
		"data": {"the entries of others stay", `apiVersion: v1, kind: ConfigMap, %s`, []string{
			`data: {a: x, b: w}`, `{"data":{"theirs":"z"},"metadata":{"labels":{"theirs":"x"}}}`, `data: {b: z}, metadata: {labels: {ours: a}, annotations: {ours: a}}`, `data: {}`, ``, `data: {c: d}`,
		}},
		"port": {"a port that gets another number keeps what was allocated for it", aService, []string{
			`type: NodePort, ports: [{name: a, port: 80, targetPort: x}, {name: b, port: 81, targetPort: x}]`, `type: NodePort, ports: [{name: a, port: 82, targetPort: x}, {name: b, port: 81, targetPort: z}]`,
			`type: NodePort, ports: [{name: b, port: 83, targetPort: z}]`,
		}},
		"containers": {"sidecars, variables and mounts of others stay", aPodSpec, []string{
			`containers: [{name: a, image: a, env: [{name: A, value: a}], resources: {limits: {cpu: 1000m}}}, {name: b, image: b}]`,
			`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"THEIRS","value":"x"},{"name":"A","value":"a"}],"resources":{"limits":{"cpu":"1"}}},{"name":"theirs","image":"x"},{"name":"b","image":"b"}]}}}}`,
			`containers: [{name: a, image: c, env: [{name: B, value: $(A)}, {name: A, value: a}]}, {name: b, image: b}]`, `containers: [{name: b, image: b}, {name: a, image: c, env: []}]`, `containers: [{name: b, image: d}]`,
		}},
	}
}

func TestC151_ApplyDoesAsReplace(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C151", "under Apply a child becomes what it becomes under Replace: empty objects and lists, values without a schema, maps with one owner, others' fields")
	table := livesUnderApply()
	both := newPair(t, "c151", table)
	length := 0
	for _, l := range table {
		length = max(length, len(l.steps))
	}
	for i := range length {
		both.step(func(name string) int { return min(i, len(table[name].steps)-1) })
	}
	both.end()
}

func TestC151b_AnyWay(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C151b", "under Apply a child becomes what it becomes under Replace, whichever way it goes through its states, with restarts in between")
	table := livesUnderApply()
	for _, transitions := range []map[string]transition{podTransitions(), otherTransitions()} {
		for name, tr := range transitions {
			table[name] = life{tr.reason, tr.head, tr.states}
		}
	}
	delete(table, "configmap") // once it is immutable, there is no way back
	both := newPair(t, "c151-any", table)
	both.compareNew = false // which needs states in an order that no default goes stale in
	random := rand.New(rand.NewPCG(22, 35))
	for round := range 7 {
		both.step(func(name string) int {
			if round == 0 || table[name].head == aJob { // whose states are ordered
				return min(round, len(table[name].steps)-1)
			}
			return random.IntN(len(table[name].steps))
		})
		if round%3 == 2 {
			both.restart()
		}
	}
	both.end()
}

// A pair is an operator with Replace and one with Apply, of whose children the
// same is desired.
type pair struct {
	t       *testing.T
	table   map[string]life
	stages  []*stage
	desired map[string]map[string]any // by the name of the life
	foreign map[string]bool           // somebody else has changed the object, too
	// compareNew: children that nobody else has changed are compared with new ones.
	compareNew bool
}

func newPair(t *testing.T, name string, table map[string]life) *pair {
	t.Helper()
	p := &pair{t: t, table: table, desired: map[string]map[string]any{}, foreign: map[string]bool{}, compareNew: true}
	var kinds []resource.Type
	for name := range table {
		child := p.state(name, 0)
		of := typeOf(child)
		if !slices.Contains(kinds, of) {
			kinds = append(kinds, of)
		}
	}
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		p.stages = append(p.stages, newStage(t, name+"-"+lower(strategy), childrenBy(strategy, kinds...)...))
	}
	return p
}

// state returns a step of a life as a desired state.
func (p *pair) state(name string, i int) map[string]any {
	p.t.Helper()
	l := p.table[name]
	return transition{head: l.head, states: l.steps}.state(p.t, name, i)
}

// step makes the step of each life that next names, and compares the two children
// with each other and, unless somebody else has changed them, with a new one.
func (p *pair) step(next func(name string) int) {
	p.t.Helper()
	names := slices.Sorted(maps.Keys(p.table))
	var want []any
	for _, name := range names {
		i := next(name)
		if patch := p.table[name].steps[i]; strings.HasPrefix(patch, `{"`) {
			p.patch(name, patch)
		} else {
			p.desired[name] = p.state(name, i)
		}
		want = append(want, p.desired[name])
	}
	_, untyped := clients(p.t, "somebody")
	for _, s := range p.stages {
		before := len(s.errors())
		s.ask(want...)
		settle(p.t, s.Kit)
		require.Empty(p.t, s.errors()[before:], "%s", s.config.Name)
	}
	for _, name := range names {
		desired := p.desired[name]
		replaced, applied := p.stages[0].Get(desired), p.stages[1].Get(desired)
		require.NotNil(p.t, replaced, name)
		require.NotNil(p.t, applied, name)
		assert.Equal(p.t, contentOf(replaced), contentOf(applied), "%s: %s\ndesired: %v", name, p.table[name].reason, desired)
		if p.compareNew && !p.foreign[name] {
			fresh := p.stages[1].dryCreate(untyped, applied.Type(), runtime.DeepCopyJSON(desired))
			assert.Equal(p.t, alike(fresh.Object), alike(applied.Unstructured().Object), "%s: %s", name, p.table[name].reason)
		}
	}
}

// patch lets somebody else change a child of both operators.
func (p *pair) patch(name, patch string) {
	p.t.Helper()
	p.foreign[name] = true
	desired := p.desired[name]
	of := resource.Type{APIVersion: desired["apiVersion"].(string), Kind: desired["kind"].(string)}
	for _, s := range p.stages {
		s.patch(of, desired["metadata"].(map[string]any)["name"].(string), patch)
		settle(p.t, s.Kit)
	}
}

// restart starts both operators again, which find nothing to do.
func (p *pair) restart() {
	p.t.Helper()
	for _, s := range p.stages {
		s.undisturbed()
		s.restart()
	}
}

// end looks at how silent both are, also after a restart.
func (p *pair) end() {
	p.t.Helper()
	for _, s := range p.stages {
		s.undisturbed()
	}
	for _, s := range p.stages {
		s.waits()
	}
	p.restart()
}

// contentOf returns an object without what the API server and controllers make of it
// and the values that differ from one object to the next. Empty objects and lists
// are kept, and the order of lists.
func contentOf(r *resource.Resource) map[string]any {
	object := r.Unstructured()
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.Contains(key, "roperator.com") })
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.Contains(key, "roperator.com") || strings.Contains(key, "kubernetes.io")
	})
	out := maps.Clone(object.Object)
	out["metadata"] = []any{labels, annotations}
	delete(out, "status")
	if spec, ok := out["spec"].(map[string]any); ok && object.GetKind() == "Service" {
		for _, name := range []string{"clusterIP", "clusterIPs", "healthCheckNodePort"} {
			if spec[name] != nil {
				spec[name] = "allocated"
			}
		}
		ports, _ := spec["ports"].([]any)
		for _, port := range ports {
			if port := port.(map[string]any); port["nodePort"] != nil {
				port["nodePort"] = "allocated"
			}
		}
	}
	if spec, ok := out["spec"].(map[string]any); ok && object.GetKind() == "Job" { // which has its UID in a label
		delete(spec, "selector")
		spec["template"] = spec["template"].(map[string]any)["spec"]
	}
	return out
}

func TestC151c_WhatWasAllocatedStays(t *testing.T) {
	scenario(t, "C151c", "a port that gets another number keeps its nodePort; a nodePort that is ignored, and no longer said, stays too")
	for i, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c151-port-"+lower(strategy), config.Child{Type: k8s.Service, Strategy: strategy, IgnoreFields: []string{"spec.ports[*].nodePort"}})
			service := func(port string) map[string]any {
				return manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: NodePort, ports: [`+port+`]}}`)
			}
			nodePort := func() any {
				ports, _ := s.field(service(""), "spec", "ports").([]any)
				require.Len(t, ports, 1)
				return ports[0].(map[string]any)["nodePort"]
			}
			fixed := fmt.Sprint(32751 + i)
			s.want(service(`{name: a, port: 80, nodePort: ` + fixed + `}`))
			s.want(service(`{name: a, port: 80, targetPort: x, nodePort: ` + fixed + `}`)) // an apply says the port
			for _, port := range []string{`{name: a, port: 80, targetPort: x}`, `{name: a, port: 80, targetPort: w}`, `{name: a, port: 81, targetPort: w}`, `{name: a, port: 81, targetPort: z, appProtocol: http}`} {
				s.want(service(port))
				require.Equal(t, fixed, fmt.Sprint(nodePort()), "after %s", port)
			}
			s.silent()
			s.restart()
		})
	}
}

func TestC164_AnEmptiedObject(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C164", "Apply: an object that is emptied becomes {}, not null, and a restart finds it so")
	s := newStage(t, "c164", childrenBy(config.Apply, gadgetType)...)
	gadget := func(values string) map[string]any {
		return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Gadget, metadata: {name: one}, spec: {values: `+values+`}}`)
	}
	for _, values := range []string{`{a: {b: 1}, c: x}`, `{a: {b: 2}, c: x}`, `{a: {}, c: x}`, `{a: {}, c: w}`, `{a: {}}`} {
		s.want(gadget(values))
		require.Equal(t, gadget(values)["spec"], s.field(gadget(values), "spec"))
	}
	s.silent()
	s.restart()
	require.Equal(t, map[string]any{"values": map[string]any{"a": map[string]any{}}}, s.field(gadget(`{}`), "spec"))
}

func TestC165_TheTruthIsTold(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C165", "Apply: where an apply can't take an object, and the update in its place is refused, it is told why the update was refused")
	s := newStageWith(t, operator("c165", childrenBy(config.Apply, widgetType, k8s.Job)...), testkit.KitOptions{FieldValidation: "Warn"})
	widget := func(fixed string) map[string]any {
		return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {fixed: `+fixed+`, misspelled: a}}`)
	}
	job := func(image string) map[string]any {
		return manifest(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: one}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [
			{name: main, image: `+image+`, env: [{name: A, value: a}, {name: A, value: b}]}]}}}}`)
	}
	s.want(widget("a"), job("a"))
	s.ask(widget("b"), job("b"))
	eventually(t, "both are refused", func() bool { return len(s.errors()) > 0 })
	told := s.errors()[0].Error()
	require.Contains(t, told, "fixed is immutable")
	require.Contains(t, told, "spec.template")
	require.NotContains(t, told, "typed patch object")
	s.ask(widget("a"), job("a"))
	settle(t, s.Kit)
	s.silent()
}

func TestC169_OneWrite(t *testing.T) {
	scenario(t, "C169", "Apply: a change is one write, whether it sets something or removes something, and the operator's applies own what is desired")
	s := newStage(t, "c169-apply", childrenBy(config.Apply, k8s.ConfigMap)...)
	typed, _ := clients(t, "somebody")
	log := needsAudit(t)
	child := func(text string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {`+text+`}}`)
	}
	s.want(child(`keep: a, a: x, b: x, c: x`))
	for i, text := range []string{`keep: a, b: x, c: x`, `keep: a, b: w, c: x`, `keep: a, c: x, d: x`, `keep: a, d: x`, `keep: b`} {
		from := log.mark(t)
		s.want(child(text))
		var writes []string
		for _, r := range log.since(t, from, "c169-apply") {
			if r.Resource == "configmaps" && r.persists() {
				writes = append(writes, r.Verb)
			}
		}
		require.Len(t, writes, 1, "state %d", i)
		require.Equal(t, child(text)["data"], s.field(child(text), "data"))
		live, err := typed.CoreV1().ConfigMaps(s.Namespace).Get(t.Context(), "one", metav1.GetOptions{})
		require.NoError(t, err)
		owned := ""
		for _, entry := range live.ManagedFields {
			if entry.Manager == "c169-apply" && entry.Operation == metav1.ManagedFieldsOperationApply {
				owned = string(entry.FieldsV1.GetRawBytes())
			}
		}
		if i < 4 { // the last update changes the value, which falls to the update
			require.Contains(t, owned, `"f:keep"`, "state %d: %v", i, live.ManagedFields)
		}
	}
	s.silent()
	s.restart()
}

func TestC138c_ApplyAcrossVersions(t *testing.T) {
	scenario(t, "C138c", "a child that somebody has written in another version of its type, which lacks some fields, can't be applied, and is updated")
	for name, writer := range map[string]string{"an earlier build": "", "somebody else": "somebody"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := "c138-" + strings.Fields(name)[0] + ".roperator.com"
			crd := thingCRD(t, group, `{type: object, properties: {size: {type: integer}, new: {type: string}}}`, "v2", "v1")
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			require.NoError(t, err)
			lacking := manifest(t, `{type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
			require.NoError(t, unstructured.SetNestedMap(versions[1].(map[string]any), lacking, "schema", "openAPIV3Schema"))
			require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
			installCRD(t, group, crd)
			of := func(version string) []config.Child {
				return childrenBy(config.Apply, resource.Type{APIVersion: group + "/" + version, Kind: "Thing"})
			}
			thing := func(version, spec string) map[string]any {
				return manifest(t, `{apiVersion: `+group+`/`+version+`, kind: Thing, metadata: {name: one}, spec: {`+spec+`}}`)
			}
			s := newStage(t, strings.TrimSuffix(group, ".roperator.com"), of(map[bool]string{true: "v1", false: "v2"}[writer == ""])...)
			if writer == "" {
				s.want(thing("v1", "size: 1"))
				s.want(thing("v1", "size: 2")) // by an apply
				s.rebuild(s.withChild(of("v2")[0]), nil, thing("v2", "size: 2, new: a"))
			} else {
				s.want(thing("v2", "size: 1"))
				_, theirs := clients(t, writer)
				noted := thing("v1", "")
				require.NoError(t, unstructured.SetNestedField(noted, "theirs", "metadata", "annotations", "note"))
				_, err := theirs.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}).Namespace(s.Namespace).
					Apply(t.Context(), "one", &unstructured.Unstructured{Object: noted}, metav1.ApplyOptions{FieldManager: writer})
				require.NoError(t, err)
				settle(t, s.Kit)
			}
			for _, spec := range []string{"size: 3, new: b", "new: c", "size: 4", "size: 5, new: d"} {
				s.want(thing("v2", spec))
				require.Equal(t, thing("v2", spec)["spec"], s.field(thing("v2", ""), "spec"), spec)
			}
			if writer != "" {
				require.Equal(t, "theirs", s.field(thing("v2", ""), "metadata", "annotations", "note"))
			}
			s.silent()
			s.restart()
		})
	}
}

package explain

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// newObject returns an object with these fields beside its name.
func newObject(t *testing.T, typ resource.Type, name, rest string) *resource.Resource {
	t.Helper()
	fields := sample.YAML(t, rest)
	meta, _ := fields["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["namespace"], meta["name"], meta["uid"], meta["resourceVersion"] = "ns", name, name, "1"
	fields["apiVersion"], fields["kind"], fields["metadata"] = typ.APIVersion, typ.Kind, meta
	res, err := resource.New(fields)
	require.NoError(t, err)
	return res
}

func TestMake_State(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refused := `status: {conditions: [{type: Ready, status: "False", reason: WriteRefused, message: refused, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`
	looping := `status: {conditions: [{type: Ready, status: "False", reason: ConflictLoop, message: somebody, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`
	child := Object{"v1", "ConfigMap", "ns", "c"}
	for name, tc := range map[string]struct {
		reason string
		parent string
		ready  bool // ReadyCondition
		change func(in *Input)
		state  State
		text   string // of Reason, or of Error
		since  bool
	}{
		"Settled":         {"nothing is in the way", `{}`, false, nil, Settled, "all is as desired", false},
		"NotSelected":     {"before all others", `metadata: {deletionTimestamp: "2026-01-02T03:04:05Z"}`, false, func(in *Input) { in.Unselected = "elsewhere" }, NotSelected, "elsewhere", false},
		"Others hold it":  {"its deletion goes on without the operator", `metadata: {deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: [example.com/other]}`, false, nil, Finalizing, "the finalizers of others hold it: example.com/other", false},
		"Nobody holds it": {"it is all but gone", `metadata: {deletionTimestamp: "2026-01-02T03:04:05Z"}`, false, nil, Finalizing, "nothing holds it any more", false},
		"Paused":          {"whatever else there is", `metadata: {annotations: {roperator.com/paused: "true"}}`, false, func(in *Input) { in.Process.LastError = "x" }, Paused, "by the annotation roperator.com/paused", false},
		"Not paused":      {"only true pauses", `metadata: {annotations: {roperator.com/paused: "yes"}}`, false, nil, Settled, "", false},
		"Throttled": {"the process knows the loop", `{}`, false, func(in *Input) {
			in.Process = Process{Held: true, Throttled: true, LastError: "x", Loop: &Loop{Object: child, Path: "data.k", Values: []string{`"a"`, `"b"`}}}
		}, Throttled, `ConfigMap ns/c is written again and again: data.k alternates between "a" and "b"; somebody undoes`, false},
		"Throttled without a loop":  {"it has only just ended", `{}`, false, func(in *Input) { in.Process = Process{Held: true, Throttled: true} }, Throttled, "somebody undoes", false},
		"Throttled by conditions":   {"nobody else can be asked", looping, true, func(in *Input) { in.Process.Unknown = "x" }, Throttled, "somebody", false},
		"Conditions of the handler": {"they aren't the operator's own", looping, false, func(in *Input) { in.Process.Unknown = "x" }, Settled, "", false},
		"Old conditions":            {"the process knows better", looping, true, func(in *Input) { in.Process.Held = true }, Settled, "", false},
		"Failing by process":        {"and since when", `{}`, false, func(in *Input) { in.Process = Process{Held: true, LastError: "handler: no", FailingSince: &since} }, Failing, "handler: no", true},
		"Failing by conditions":     {"and since when", refused, true, func(in *Input) { in.Process.Unknown = "x" }, Failing, "refused", true},
		"Failing now":               {"the handler has failed", `{}`, false, func(in *Input) { in.Err = errors.New("oh"); in.Planned = nil }, Failing, "oh", false},
		"A refused child": {"the last pass couldn't write it", `{}`, false, func(in *Input) {
			in.Planned = &plan.Plan{Refused: []plan.Refusal{{Failure: plan.Failure{Ref: object.Ref{Type: k8s.ConfigMap, Key: types.NamespacedName{Namespace: "ns", Name: "c"}}, Verb: plan.VerbCreate, Err: errors.New("bad")}}}}
		}, Failing, "ConfigMap ns/c: bad", false},
		"Pending": {"a child is to go", `{}`, false, func(in *Input) {
			in.Former = []object.Ref{{Type: k8s.Secret, Key: types.NamespacedName{Namespace: "ns", Name: "old"}}}
		}, Pending, "1 child is to be written", false},
		"The status": {"it is to be written alone", `{}`, false, func(in *Input) { in.Status = []plan.FieldChange{{Path: "status.a", Desired: "x"}} }, Pending, "1 field is of the parent to be written", false},
		"Waiting": {"a type isn't served", `{}`, false, func(in *Input) {
			in.Planned = &plan.Plan{Unserved: []object.Ref{{Type: k8s.Secret, Key: types.NamespacedName{Namespace: "ns", Name: "s"}}}}
		}, Waiting, "the API server doesn't serve v1/Secret", false},
		"NotReady": {"a child isn't Current", `{}`, false, func(in *Input) { in.Kept = true }, NotReady, "all is as desired, but Deployment ns/web is InProgress", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Secret, Strategy: config.Replace}, config.Child{Type: k8s.Deployment, Strategy: config.Replace})
			s.Config.ReadyCondition = tc.ready
			in := Input{Settings: s, Parent: newObject(t, sample.ParentType(), "p", tc.parent), Planned: &plan.Plan{}}
			if tc.change != nil {
				tc.change(&in)
			}
			if tc.state == NotReady {
				in.Children = []*resource.Resource{newObject(t, k8s.Deployment, "web", `spec: {replicas: 1}`)}
			}
			got := Make(in).Parent
			require.Equal(t, tc.state, got.State, tc.reason)
			text := got.Reason
			if got.State == Failing {
				text = got.Error
			}
			require.Contains(t, text, tc.text, tc.reason)
			require.Equal(t, tc.since, got.FailingSince != nil, tc.reason)
			if tc.since {
				require.True(t, since.Equal(*got.FailingSince))
			}
		})
	}
}

// TestMake_Children has the children that no pass looks at.
func TestMake_Children(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.Secret, Strategy: config.Replace}, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	children := []*resource.Resource{
		newObject(t, k8s.ConfigMap, "a", `{}`), newObject(t, k8s.ConfigMap, "b", `metadata: {deletionTimestamp: "2026-01-02T03:04:05Z", finalizers: [x/y]}`), newObject(t, k8s.Secret, "c", `{}`),
	}
	in := Input{Settings: s, Parent: newObject(t, sample.ParentType(), "p", `{}`), Children: children, Err: errors.New("no")}
	in.Process = Process{Held: true, ChildErrors: []ChildError{{Object: Object{"v1", "ConfigMap", "ns", "a"}, Verb: "update", Message: "refused"}}}
	got := Make(in).Children
	require.Equal(t, []Child{
		{Object: Object{"v1", "Secret", "ns", "c"}, State: LeftAlone, Reason: "the handler has failed before it was looked at", Readiness: readiness.Current, ReadinessMessage: got[0].ReadinessMessage},
		{Object: Object{"v1", "ConfigMap", "ns", "a"}, State: LeftAlone, Reason: "the handler has failed before it was looked at", Readiness: readiness.Current, ReadinessMessage: got[1].ReadinessMessage, Error: "refused"},
		{Object: Object{"v1", "ConfigMap", "ns", "b"}, State: Deleting, Readiness: readiness.Terminating, ReadinessMessage: got[2].ReadinessMessage, Finalizers: []string{"x/y"}},
	}, got, "in the order of their types")
}

// A child that goes later says whose end it waits for: that of the next type's children alone.
func TestMake_Teardown(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap}, config.Child{Type: k8s.Secret}, config.Child{Type: k8s.Service}, config.Child{Type: k8s.Pod, Retain: true})
	s.Config.Teardown = config.TeardownOrdered
	in := Input{Settings: s, Parent: newObject(t, sample.ParentType(), "p", `metadata: {deletionTimestamp: "2026-01-02T03:04:05Z"}`)}
	for _, of := range []resource.Type{k8s.ConfigMap, k8s.Secret, k8s.Service, k8s.Pod} {
		in.Children = append(in.Children, newObject(t, of, "c", `{}`))
	}
	torn := plan.TearDown(s, plan.Input{Parent: in.Parent, Children: in.Children, Memory: &plan.ParentMemory{}})
	in.Teardown = &torn
	var texts []string
	for _, c := range Make(in).Children {
		texts = append(texts, fmt.Sprint(c.Object.Kind, ": ", c.State, ", ", c.WaitsFor))
	}
	require.Equal(t, []string{
		fmt.Sprint("ConfigMap: ", WaitsFor, ", ", []Object{{"v1", "Secret", "ns", "c"}}), fmt.Sprint("Secret: ", WaitsFor, ", ", []Object{{"v1", "Service", "ns", "c"}}),
		fmt.Sprint("Service: ", Undesired, ", []"), fmt.Sprint("Pod: ", LeftAlone, ", []"),
	}, texts)
}

// A parent that waits for hundreds of objects has a reason of one line.
func TestWaitingReason(t *testing.T) {
	for n, want := range map[int]string{0: "ConfigMap ns/c: not yet", 2: "not yet: Secret ns/s0, Secret ns/s1", 10: "Secret ns/s9", 500: "Secret ns/s9 and 490 more"} {
		c := Child{Object: Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c"}, Reason: "not yet"}
		for i := range n {
			c.WaitsFor = append(c.WaitsFor, Object{APIVersion: "v1", Kind: "Secret", Namespace: "ns", Name: fmt.Sprint("s", i)})
		}
		got := waitingReason(c)
		require.True(t, strings.HasSuffix(got, want), "%d: %s", n, got)
	}
}

// A child behind a gate says what keeps the gate closed: what it needs, the handler's own condition, or both.
func TestMake_Gated(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap}, config.Child{Type: k8s.Secret})
	parent := newObject(t, sample.ParentType(), "p", `{}`)
	child := newObject(t, k8s.ConfigMap, "c", `{}`).Unstructured().Object
	child["metadata"] = map[string]any{"name": "c"}
	need := object.Ref{Type: k8s.Secret, Key: types.NamespacedName{Namespace: "ns", Name: "s"}}
	const needs, condition = "it isn't created before these are there and ready", "the handler's own condition for it isn't met (When)"
	for want, tc := range map[string]struct {
		wanted any
		needs  []object.Ref
	}{
		needs:                        {handler.After(child, handler.Ref{Type: k8s.Secret, Name: "s"}), []object.Ref{need}},
		condition:                    {handler.When(child, false), nil},
		condition + ", and " + needs: {handler.When(handler.After(child, handler.Ref{Type: k8s.Secret, Name: "s"}), false), []object.Ref{need}},
	} {
		desired, err := plan.Desire(s, parent, []any{tc.wanted}, &plan.ParentMemory{})
		require.NoError(t, err)
		got := Make(Input{Settings: s, Parent: parent, Desired: desired, Planned: &plan.Plan{Gated: []plan.Gated{{Want: desired[0], Needs: tc.needs}}}}).Children
		require.Len(t, got, 1)
		require.Equal(t, want, got[0].Reason)
		require.Len(t, got[0].WaitsFor, len(tc.needs))
	}
}

package plan

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// gateSettings has ConfigMaps, claims and Jobs as children.
func gateSettings() *catalog.Settings {
	return settings.For(
		config.Child{Type: k8s.ConfigMap, Strategy: config.Replace},
		config.Child{Type: k8s.PersistentVolumeClaim, Strategy: config.Replace},
		config.Child{Type: k8s.Job, Strategy: config.Recreate},
		config.Child{Type: k8s.Pod, Strategy: config.OnDelete},
	)
}

func plain(of resource.Type, name string) map[string]any {
	return map[string]any{"apiVersion": of.APIVersion, "kind": of.Kind, "metadata": map[string]any{"name": name}}
}

func cmNamed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// needsOf returns what the children need, or the error.
func needsOf(t *testing.T, in Needed, children ...any) ([]*Desired, error) {
	t.Helper()
	s, parent := gateSettings(), sample.Object(t, sample.ParentType(), "p", "uid-p", 1, "")
	desired, err := Desire(s, parent, children, &ParentMemory{})
	require.NoError(t, err)
	return desired, FindNeeds(s, parent, desired, children, in)
}

func TestFindNeeds(t *testing.T) {
	claim := plain(k8s.PersistentVolumeClaim, "data")
	typed := cmNamed("typed")
	for name, tc := range map[string]struct {
		reason string
		need   any
		want   string
	}{
		"Same":      {"the very value that is returned", claim, "PersistentVolumeClaim ns/data"},
		"Typed":     {"the very pointer that is returned", typed, "ConfigMap ns/typed"},
		"Equal":     {"another value for the same object", plain(k8s.PersistentVolumeClaim, "data"), "PersistentVolumeClaim ns/data"},
		"Namespace": {"with its namespace", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "typed", Namespace: "ns"}}, "ConfigMap ns/typed"},
		"Ref":       {"by name alone", handler.Ref{Type: k8s.ConfigMap, Name: "typed"}, "ConfigMap ns/typed"},
		"Wrapped":   {"what After returns is the child", handler.After(handler.Leave(typed, "data"), claim), "ConfigMap ns/typed"},
		"JSON":      {"in any form", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"typed"}}`), "ConfigMap ns/typed"},
	} {
		t.Run(name, func(t *testing.T) {
			desired, err := needsOf(t, Needed{}, claim, handler.After(cmNamed("late"), tc.need), typed)
			require.NoError(t, err, tc.reason)
			require.Len(t, desired[1].gate.needs, 1)
			require.Equal(t, tc.want, desired[1].gate.needs[0].ref.String(), tc.reason)
			require.NotNil(t, desired[1].gate.needs[0].child)
		})
	}
}

func TestFindNeeds_Related(t *testing.T) {
	refers := func(ref object.Ref) bool { return ref.String() == "Secret ns/token" }
	desired, err := needsOf(t, Needed{Refers: refers}, handler.After(cmNamed("late"), handler.Ref{Type: k8s.Secret, Name: "token"}))
	require.NoError(t, err)
	require.Nil(t, desired[0].gate.needs[0].child)
}

func TestFindNeeds_Refuses(t *testing.T) {
	a, b, c := plain(k8s.ConfigMap, "a"), plain(k8s.ConfigMap, "b"), plain(k8s.ConfigMap, "c")
	for name, tc := range map[string]struct {
		reason   string
		children []any
		want     string
	}{
		"Nil":      {"nothing", []any{handler.After(a, nil)}, "child 0: v1/ConfigMap ns/a: handler.After: need 0: object is nil"},
		"NoName":   {"it must be one object", []any{handler.After(a, plain(k8s.ConfigMap, ""))}, "metadata.name: missing"},
		"NoKind":   {"it must be one object", []any{handler.After(a, map[string]any{"metadata": map[string]any{"name": "x"}})}, "apiVersion or kind is missing"},
		"Selector": {"it must be one object", []any{handler.After(a, handler.Ref{Type: k8s.Secret, Selector: "a=b"})}, "the handler.Ref of type v1/Secret has no Name"},
		"Unknown":  {"nobody would create it", []any{handler.After(a, plain(k8s.ConfigMap, "x"))}, "ConfigMap ns/x is neither a child of this response nor what the parent refers to"},
		"Elsewhere": {
			"it is another object", []any{handler.After(a, handler.Ref{Type: k8s.ConfigMap, Namespace: "other", Name: "b"}), b},
			"ConfigMap other/b is neither a child of this response nor",
		},
		"Second": {"each need counts", []any{handler.After(a, b, plain(k8s.ConfigMap, "x")), b}, "child 0: v1/ConfigMap ns/a: handler.After: need 1: ConfigMap ns/x"},
		"All":    {"all mistakes at once", []any{handler.After(a, "text"), handler.After(b, 7)}, "child 1: v1/ConfigMap ns/b"},
		"Itself": {"it would wait for ever", []any{handler.After(a, a)}, "handler.After: children need each other: ConfigMap ns/a needs ConfigMap ns/a"},
		"Cycle": {
			"they would wait for ever", []any{handler.After(a, b), handler.After(b, c), handler.After(c, b)},
			"handler.After: children need each other: ConfigMap ns/b needs ConfigMap ns/c needs ConfigMap ns/b",
		},
		"CycleOfAThing": {"whether it is there already", []any{handler.When(handler.After(a, b), false), handler.After(b, a)}, "children need each other"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := needsOf(t, Needed{}, tc.children...)
			require.ErrorContains(t, err, tc.want, tc.reason)
			var invalid *InvalidResponseError
			require.ErrorAs(t, err, &invalid)
		})
	}
}

// A chain and a diamond are no cycle.
func TestFindNeeds_NoCycle(t *testing.T) {
	a, b, c, d := plain(k8s.ConfigMap, "a"), plain(k8s.ConfigMap, "b"), plain(k8s.ConfigMap, "c"), plain(k8s.ConfigMap, "d")
	_, err := needsOf(t, Needed{}, handler.After(a, b, c), handler.After(b, d), handler.After(c, d), d)
	require.NoError(t, err)
}

// ofStatus returns an object that is as the API server has it.
func ofStatus(t *testing.T, of resource.Type, name string, status any, meta map[string]any) *resource.Resource {
	t.Helper()
	all := map[string]any{"name": name, "namespace": "ns", "uid": "uid-" + name, "resourceVersion": "7"}
	maps.Copy(all, meta)
	res, err := resource.New(map[string]any{"apiVersion": of.APIVersion, "kind": of.Kind, "metadata": all, "spec": map[string]any{}, "status": status})
	require.NoError(t, err)
	return res
}

func conditionNamed(name string) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{"type": name, "status": "True"}}, "startTime": "2026-01-01T00:00:00Z"}
}

// Jobs and Pods ask for more than kstatus does.
func TestReadinessOf(t *testing.T) {
	for name, tc := range map[string]struct {
		of     resource.Type
		status any
		want   readiness.State
	}{
		"JobRuns":     {k8s.Job, map[string]any{"startTime": "2026-01-01T00:00:00Z", "active": 1}, readiness.InProgress},
		"JobRests":    {k8s.Job, conditionNamed("Suspended"), readiness.Current},
		"JobFailed":   {k8s.Job, conditionNamed("Failed"), readiness.Failed},
		"JobComplete": {k8s.Job, conditionNamed("Complete"), readiness.Current},
		"PodFailed":   {k8s.Pod, map[string]any{"phase": "Failed"}, readiness.Failed},
		"PodDone":     {k8s.Pod, map[string]any{"phase": "Succeeded"}, readiness.Current},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, ReadinessOf(ofStatus(t, tc.of, "n", tc.status, nil)).State)
		})
	}
}

// A child is created once what it needs is there, is ready, and has nothing left to write.
func TestBuild_Gates(t *testing.T) {
	claim, job, pod := plain(k8s.PersistentVolumeClaim, "n"), plain(k8s.Job, "n"), plain(k8s.Pod, "n")
	other := plain(k8s.PersistentVolumeClaim, "n")
	other["spec"] = map[string]any{"volumeName": "other"}
	live := func(of resource.Type, status any) *resource.Resource { return ofStatus(t, of, "n", status, nil) }
	bound := map[string]any{"phase": "Bound"}
	going := map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []any{"a/b"}}
	for name, tc := range map[string]struct {
		reason  string
		need    any
		live    *resource.Resource // the need as it is
		settled bool               // nothing is left to write to it
		opens   bool
	}{
		"Absent":      {"it is created only now", claim, nil, false, false},
		"Pending":     {"it isn't bound", claim, live(k8s.PersistentVolumeClaim, map[string]any{"phase": "Pending"}), true, false},
		"Terminating": {"it is about to go", claim, ofStatus(t, k8s.PersistentVolumeClaim, "n", bound, going), true, false},
		"Bound":       {"it is ready", claim, live(k8s.PersistentVolumeClaim, bound), true, true},
		"Differs":     {"it is to be written", other, live(k8s.PersistentVolumeClaim, bound), false, false},
		"JobRuns":     {"it isn't done", job, live(k8s.Job, map[string]any{"startTime": "2026-01-01T00:00:00Z", "active": 1}), true, false},
		"JobRests":    {"it is suspended", job, live(k8s.Job, conditionNamed("Suspended")), true, false},
		"JobFailed":   {"it won't be done", job, live(k8s.Job, conditionNamed("Failed")), true, false},
		"JobComplete": {"it is done", job, live(k8s.Job, conditionNamed("Complete")), true, true},
		"PodFailed":   {"it has come to nothing", pod, live(k8s.Pod, map[string]any{"phase": "Failed"}), true, false},
		"PodDone":     {"it is over", pod, live(k8s.Pod, map[string]any{"phase": "Succeeded"}), true, true},
		"RelatedGone": {"it doesn't exist", handler.Ref{Type: k8s.Secret, Name: "gone"}, nil, false, false},
		"Related":     {"it exists", handler.Ref{Type: k8s.Secret, Name: "token"}, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, parent, memory := gateSettings(), sample.Object(t, sample.ParentType(), "p", "uid-p", 1, ""), &ParentMemory{}
			returned := []any{handler.After(cmNamed("late"), tc.need)}
			if _, related := tc.need.(handler.Ref); !related {
				returned = append(returned, tc.need)
			}
			desired, err := Desire(s, parent, returned, memory)
			require.NoError(t, err)
			in := Input{Parent: parent, Desired: desired, Memory: memory, Now: time.Now(), Needed: Needed{
				Related: handler.NewObjects(ofStatus(t, k8s.Secret, "token", nil, nil)),
				Refers:  func(object.Ref) bool { return true },
			}}
			if tc.live != nil {
				in.Children = []*resource.Resource{tc.live}
			}
			if tc.settled {
				memory.Carry(&Action{Want: desired[1], Live: tc.live})
			}
			require.NoError(t, FindNeeds(s, parent, desired, returned, in.Needed))
			p := Build(s, in)
			created := false
			for _, a := range p.Writes {
				created = created || a.Ref.Key.Name == "late" && a.Verb == VerbCreate
			}
			require.Equal(t, tc.opens, created, tc.reason)
			require.Equal(t, !tc.opens, len(p.Gated) == 1)
			if !tc.opens {
				require.Equal(t, "ConfigMap ns/late", p.Gated[0].Ref().String())
				require.Contains(t, p.Gated[0].String(), "waits for ")
			}
		})
	}
}

// Only a creation waits, and not that of a child that was deleted to be created anew.
func TestBuild_GatesHoldUpCreationsAlone(t *testing.T) {
	s, parent := gateSettings(), sample.Object(t, sample.ParentType(), "p", "uid-p", 1, "")
	build := func(memory *ParentMemory, live ...*resource.Resource) Plan {
		returned := []any{handler.When(plain(k8s.Job, "one"), false)}
		desired, err := Desire(s, parent, returned, memory)
		require.NoError(t, err)
		require.NoError(t, FindNeeds(s, parent, desired, returned, Needed{}))
		return Build(s, Input{Parent: parent, Desired: desired, Memory: memory, Children: live, Now: time.Now()})
	}
	p := build(&ParentMemory{})
	require.Empty(t, p.Writes)
	require.Len(t, p.Gated, 1)
	require.Equal(t, "waits for a condition of the handler", p.Gated[0].String())
	require.NotEmpty(t, CreationFields(p.Gated[0].Want))

	p = build(&ParentMemory{}, ofStatus(t, k8s.Job, "one", nil, nil))
	require.NotEmpty(t, p.Writes, "it is there, and written as ever")
	require.Empty(t, p.Gated)

	memory := &ParentMemory{}
	desired, err := Desire(s, parent, []any{plain(k8s.Job, "one")}, memory)
	require.NoError(t, err)
	memory.Recreate(desired[0])
	memory.KeepOnly(desired)
	p = build(memory)
	require.Len(t, p.Writes, 1)
	require.Equal(t, VerbCreate, p.Writes[0].Verb)
	memory.Accept(desired[0], ofStatus(t, k8s.Job, "one", nil, nil), nil)
	memory.Written(desired[0])
	require.Len(t, build(memory).Gated, 1, "it has been created, and somebody has deleted it since")

	memory.Recreate(desired[0])
	memory.KeepOnly(nil)
	require.Len(t, build(memory).Gated, 1, "nobody has wanted it meanwhile")
}

// A creation that was refused once waits for its gate like any other: it isn't repeated.
func TestBuild_GateOfARefusedCreation(t *testing.T) {
	s, parent, memory := gateSettings(), sample.Object(t, sample.ParentType(), "p", "uid-p", 1, ""), &ParentMemory{}
	desired, err := Desire(s, parent, []any{cmNamed("one")}, memory)
	require.NoError(t, err)
	p := Build(s, Input{Parent: parent, Desired: desired, Memory: memory, Now: time.Now()})
	require.Len(t, p.Writes, 1)
	failed := Setback{Action: &p.Writes[0], Failure: Failure{Ref: p.Writes[0].Ref, Verb: VerbCreate, Err: errors.New("no")}}
	memory.SetBack(nil, []Setback{failed}, nil, time.Now(), func(int) time.Duration { return time.Hour })
	returned := []any{handler.When(cmNamed("one"), false)}
	desired, err = Desire(s, parent, returned, memory)
	require.NoError(t, err)
	p = Build(s, Input{Parent: parent, Desired: desired, Memory: memory, Now: time.Now()})
	require.Empty(t, p.Refused)
	require.Len(t, p.Gated, 1)
}

package runner

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// testSettings are those of an operator with these child types, as an API
// server would serve them.
func testSettings(children ...config.Child) *settings {
	cfg := defaults.Apply(config.Operator{Name: "op", Parent: testParentType(), Children: children})
	types := &catalog{
		parent: &kind{Type: cfg.Parent, gvr: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "parents"}, namespaced: true, status: true},
		byType: map[resource.Type]*kind{},
	}
	types.byType[cfg.Parent] = types.parent
	for i, child := range children {
		gv := child.Type.GroupVersionKind().GroupVersion()
		plural := map[string]string{"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "Namespace": "namespaces"}[child.Type.Kind]
		k := &kind{Type: child.Type, gvr: gv.WithResource(plural), namespaced: child.Type != k8s.Namespace, child: child, order: i}
		types.children = append(types.children, k)
		types.byType[child.Type] = k
	}
	return newSettings(cfg, handler.SyncFunc(nil), types)
}

func testConfigMap(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": value}}
}

// lived returns the child as it would be observed after a create by s, changed
// by change.
func lived(t *testing.T, s *settings, parent *resource.Resource, want any, change func(map[string]any)) *resource.Resource {
	t.Helper()
	desired, err := s.desire(parent, []any{want}, &parentMemory{})
	require.NoError(t, err)
	object := s.full(desired[0], parent, newMark(desired[0], nil))
	meta, _ := object["metadata"].(map[string]any)
	meta["uid"], meta["resourceVersion"] = "uid", "10"
	if change != nil {
		change(object)
	}
	res, err := resource.New(object)
	require.NoError(t, err)
	return res
}

func TestPlanOneChild(t *testing.T) {
	drifted := func(o map[string]any) { o["data"] = map[string]any{"k": "drifted"} }
	dying := func(o map[string]any) {
		o["data"] = map[string]any{"k": "drifted"}
		meta, _ := o["metadata"].(map[string]any)
		meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	}
	type verbs map[config.UpdateStrategy]verb
	every := func(v verb) verbs {
		return verbs{config.Replace: v, config.Recreate: v, config.OnDelete: v, config.Apply: v}
	}
	writes := verbs{config.Replace: verbUpdate, config.Recreate: verbRecreate, config.OnDelete: "", config.Apply: verbApply}
	for name, tc := range map[string]struct {
		reason string
		old    string // the value it was created with; "": it isn't there
		change func(map[string]any)
		known  bool // it was accepted by this process
		want   verbs
	}{
		"missing":             {reason: "it is created under every strategy", want: every(verbCreate)},
		"as created":          {reason: "nothing to do", old: "new", want: every("")},
		"as created, known":   {reason: "nothing to do", old: "new", known: true, want: every("")},
		"being deleted":       {reason: "left alone, and not created before it is gone", old: "new", change: dying, want: every("")},
		"dying and outdated":  {reason: "left alone", old: "old", change: dying, want: every("")},
		"outdated":            {reason: "the desired state has changed", old: "old", want: writes},
		"drifted, known":      {reason: "somebody has changed it", old: "new", change: drifted, known: true, want: writes},
		"drifted, unknown":    {reason: "it may be what the server made of it", old: "new", change: drifted, want: verbs{config.Replace: verbVerify, config.Recreate: verbVerify, config.OnDelete: "", config.Apply: verbVerify}},
		"satisfied by chance": {reason: "only the mark is old", old: "old", change: func(o map[string]any) { o["data"] = map[string]any{"k": "new"} }, want: every(verbMark)},
		"mark taken off": {reason: "only the mark is missing", old: "new", change: func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			delete(meta, "annotations")
		}, want: every(verbMark)},
		"others' fields": {reason: "they are theirs", old: "new", change: func(o map[string]any) {
			o["data"] = map[string]any{"k": "new", "theirs": "x"}
		}, want: every("")},
	} {
		for strategy, want := range tc.want {
			t.Run(fmt.Sprint(name, "/", strategy), func(t *testing.T) {
				s := testSettings(config.Child{Type: k8s.ConfigMap, Strategy: strategy})
				parent := testObject(t, testParentType(), "p", "p", 1, "")
				desired, err := s.desire(parent, []any{testConfigMap("new")}, &parentMemory{})
				require.NoError(t, err)
				in := planInput{desired: desired, memory: newMemory().of("p")}
				if tc.old != "" {
					live := lived(t, s, parent, testConfigMap(tc.old), tc.change)
					in.children = []*resource.Resource{live}
					if tc.known {
						in.memory.accepted(desired[0], lived(t, s, parent, testConfigMap("new"), nil), nil)
						in.memory.children.of(desired[0].ref).version = "9"
					}
				}
				p := s.plan(in)
				require.Empty(t, p.deletes)
				var got verb
				if len(p.writes) == 1 {
					got = p.writes[0].verb
				}
				require.Equal(t, want, got, tc.reason)
				if got != "" && tc.known {
					require.True(t, p.writes[0].restores, "somebody else has changed it")
				}
			})
		}
	}
}

func TestPlan(t *testing.T) {
	s := testSettings(
		config.Child{Type: k8s.Namespace, Strategy: config.Replace},
		config.Child{Type: k8s.Secret, Strategy: config.Replace},
		config.Child{Type: k8s.ConfigMap, Strategy: config.Replace},
	)
	parent := testObject(t, testParentType(), "p", "p", 1, "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	live := lived(t, s, parent, testConfigMap("v"), nil)
	desire := func(children ...any) []*desiredChild {
		desired, err := s.desire(parent, children, &parentMemory{})
		require.NoError(t, err)
		return desired
	}

	p := s.plan(planInput{desired: desire(testConfigMap("v"), secret), memory: newMemory().of("p")})
	require.Equal(t, []string{"Secret ns/s", "ConfigMap ns/c"}, refsOf(p.writes), "in the order of the configuration")

	p = s.plan(planInput{children: []*resource.Resource{live}, memory: newMemory().of("p")})
	require.Equal(t, []string{"ConfigMap ns/c"}, refsOf(p.deletes), "no longer desired")

	dying := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	})
	p = s.plan(planInput{children: []*resource.Resource{dying}, memory: newMemory().of("p")})
	require.Empty(t, p.deletes, "it is being deleted already")

	p = s.plan(planInput{keepAll: true, children: []*resource.Resource{live}, memory: newMemory().of("p")})
	require.Equal(t, plan{}, p, "the children are left as they are")

	p = s.plan(planInput{desired: desire(handler.Keep(live)), children: []*resource.Resource{live}, memory: newMemory().of("p")})
	require.Equal(t, plan{}, p, "it is to stay exactly as it is")

	// A refusal is repeated to the user, not to the server.
	memory := newMemory().of("p")
	refusal := errors.New("no")
	desired := desire(secret)
	memory.refuse(desired[0], nil, refusal)
	p = s.plan(planInput{desired: desired, memory: memory})
	require.Equal(t, plan{refused: []error{refusal}}, p)
	changed := secret.DeepCopy()
	changed.Type = "other"
	p = s.plan(planInput{desired: desire(changed), memory: memory})
	require.Len(t, p.writes, 1, "another desired state is another try")
}

// A settled child isn't even compared, and one that was compared and found to
// be as desired is the same from then on.
func TestPlanSettled(t *testing.T) {
	s := testSettings(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := testObject(t, testParentType(), "p", "p", 1, "")
	live := lived(t, s, parent, testConfigMap("v"), nil)
	desired, err := s.desire(parent, []any{testConfigMap("v")}, &parentMemory{})
	require.NoError(t, err)
	in := planInput{desired: desired, children: []*resource.Resource{live}, memory: newMemory().of("p")}
	p := s.plan(in)
	require.Len(t, p.settled, 1)
	in.memory.carry(p.settled[0].want, p.settled[0].live)
	require.Equal(t, plan{}, s.plan(in))
}

// What the server made itself of an accepted desired state is no reason to
// write, and a write for another reason leaves it as it is.
func TestPlanExplained(t *testing.T) {
	s := testSettings(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := testObject(t, testParentType(), "p", "p", 1, "")
	want := testConfigMap("v")
	want.Data["other"] = "x"
	desired, err := s.desire(parent, []any{want}, &parentMemory{})
	require.NoError(t, err)
	normalized := func(version, other string) *resource.Resource {
		return lived(t, s, parent, want, func(o map[string]any) {
			o["data"] = map[string]any{"k": "normalized", "other": other}
			meta, _ := o["metadata"].(map[string]any)
			meta["resourceVersion"] = version
		})
	}
	in := planInput{desired: desired, memory: newMemory().of("p")}
	accepted := normalized("10", "x")
	in.memory.accepted(desired[0], accepted, s.types.byType[k8s.ConfigMap].comparison.compare(accepted.Unstructured().Object, desired[0].object, nil))

	in.children = []*resource.Resource{normalized("11", "x")}
	p := s.plan(in)
	require.Empty(t, p.writes)
	require.Len(t, p.settled, 1)

	in.children = []*resource.Resource{normalized("12", "drifted")}
	p = s.plan(in)
	require.Len(t, p.writes, 1)
	require.Equal(t, []string{"data.k"}, p.writes[0].settledPaths())
	require.Equal(t, []difference{{Path: "data.other", Live: "drifted", Desired: "x"}}, p.writes[0].diffs)
}

func TestSettledPaths(t *testing.T) {
	for name, tc := range map[string]struct {
		reason                 string
		explained, diffs, want []string
	}{
		"elsewhere":  {reason: "they have nothing to do with each other", explained: []string{"spec.a"}, diffs: []string{"spec.b"}, want: []string{"spec.a"}},
		"the same":   {reason: "it differs anew", explained: []string{"spec.a"}, diffs: []string{"spec.a"}, want: []string{}},
		"below":      {reason: "the whole is written again", explained: []string{"spec.a", "spec.l"}, diffs: []string{"spec.a.b", "spec.l[0]"}, want: []string{}},
		"same start": {reason: "the name only begins like it", explained: []string{"spec.a"}, diffs: []string{"spec.ab"}, want: []string{"spec.a"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := action{explained: tc.explained}
			for _, path := range tc.diffs {
				a.diffs = append(a.diffs, difference{Path: path})
			}
			require.Equal(t, tc.want, a.settledPaths(), tc.reason)
		})
	}
}

func refsOf(actions []action) []string {
	var refs []string
	for _, a := range actions {
		refs = append(refs, a.ref.String())
	}
	return refs
}

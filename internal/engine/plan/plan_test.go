package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func testConfigMap(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": value}}
}

// lived returns the child as it would be observed after a create by s, changed
// by change.
func lived(t *testing.T, s *catalog.Settings, parent *resource.Resource, want any, change func(map[string]any)) *resource.Resource {
	t.Helper()
	desired, err := Desire(s, parent, []any{want}, &ParentMemory{})
	require.NoError(t, err)
	object := full(s, desired[0], parent)
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
	type verbs map[config.UpdateStrategy]Verb
	every := func(v Verb) verbs {
		return verbs{config.Replace: v, config.Recreate: v, config.OnDelete: v, config.Apply: v}
	}
	writes := verbs{config.Replace: VerbUpdate, config.Recreate: VerbRecreate, config.OnDelete: "", config.Apply: VerbApply}
	corrects := verbs{config.Replace: VerbUpdate, config.Recreate: VerbUpdate, config.OnDelete: "", config.Apply: VerbApply}
	for name, tc := range map[string]struct {
		reason string
		old    string // the value it was created with; "": it isn't there
		change func(map[string]any)
		known  bool // it was accepted by this process
		want   verbs
	}{
		"missing":             {reason: "it is created under every strategy", want: every(VerbCreate)},
		"as created":          {reason: "nothing to do", old: "new", want: every("")},
		"as created, known":   {reason: "nothing to do", old: "new", known: true, want: every("")},
		"being deleted":       {reason: "left alone, and not created before it is gone", old: "new", change: dying, want: every("")},
		"dying and outdated":  {reason: "left alone", old: "old", change: dying, want: every("")},
		"outdated":            {reason: "the desired state has changed", old: "old", want: writes},
		"drifted, known":      {reason: "somebody has changed it", old: "new", change: drifted, known: true, want: corrects},
		"drifted, unknown":    {reason: "it may be what the server made of it", old: "new", change: drifted, want: corrects},
		"satisfied by chance": {reason: "only the mark is old", old: "old", change: func(o map[string]any) { o["data"] = map[string]any{"k": "new"} }, want: every(VerbMark)},
		"mark taken off": {reason: "only the mark is missing", old: "new", change: func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			delete(meta, "annotations")
		}, want: every(VerbMark)},
		"others' fields": {reason: "they are theirs", old: "new", change: func(o map[string]any) {
			o["data"] = map[string]any{"k": "new", "theirs": "x"}
		}, want: every("")},
	} {
		for strategy, want := range tc.want {
			t.Run(fmt.Sprint(name, "/", strategy), func(t *testing.T) {
				s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: strategy})
				parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
				desired, err := Desire(s, parent, []any{testConfigMap("new")}, &ParentMemory{})
				require.NoError(t, err)
				in := Input{Desired: desired, Memory: NewMemory().Of("p")}
				if tc.old != "" {
					live := lived(t, s, parent, testConfigMap(tc.old), tc.change)
					in.Children = []*resource.Resource{live}
					if tc.known {
						in.Memory.Accept(desired[0], lived(t, s, parent, testConfigMap("new"), nil), nil)
						in.Memory.children.of(desired[0].ref).version = "9"
					}
				}
				p := Build(s, in)
				require.Empty(t, p.Deletes)
				var got Verb
				if len(p.Writes) == 1 {
					got = p.Writes[0].Verb
				}
				require.Equal(t, want, got, tc.reason)
				if got != "" && tc.known {
					require.True(t, p.Writes[0].Restores, "somebody else has changed it")
				}
			})
		}
	}
}

func TestPlan(t *testing.T) {
	s := settings.For(
		config.Child{Type: k8s.Namespace, Strategy: config.Replace},
		config.Child{Type: k8s.Secret, Strategy: config.Replace},
		config.Child{Type: k8s.ConfigMap, Strategy: config.Replace},
	)
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	live := lived(t, s, parent, testConfigMap("v"), nil)
	desire := func(children ...any) []*Desired {
		desired, err := Desire(s, parent, children, &ParentMemory{})
		require.NoError(t, err)
		return desired
	}

	p := Build(s, Input{Desired: desire(testConfigMap("v"), secret), Memory: NewMemory().Of("p")})
	require.Equal(t, []string{"Secret ns/s", "ConfigMap ns/c"}, refsOf(p.Writes), "in the order of the configuration")

	p = Build(s, Input{Children: []*resource.Resource{live}, Memory: NewMemory().Of("p")})
	require.Equal(t, []string{"ConfigMap ns/c"}, refsOf(p.Deletes), "no longer desired")

	dying := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	})
	p = Build(s, Input{Children: []*resource.Resource{dying}, Memory: NewMemory().Of("p")})
	require.Empty(t, p.Deletes, "it is being deleted already")

	p = Build(s, Input{KeepAll: true, Children: []*resource.Resource{live}, Memory: NewMemory().Of("p")})
	require.Equal(t, Plan{}, p, "the children are left as they are")

	p = Build(s, Input{Desired: desire(handler.Keep(live)), Children: []*resource.Resource{live}, Memory: NewMemory().Of("p")})
	require.Equal(t, Plan{}, p, "it is to stay exactly as it is")
}

// TestBuild_PendingSchema: while the schema of a type isn't read, its children are created and deleted, and not updated; what
// depends on one that seems to differ waits. (S154)
func TestBuild_PendingSchema(t *testing.T) {
	app := resource.Type{APIVersion: "example.com/v1", Kind: "App"}
	s := settings.For(config.Child{Type: app, Strategy: config.Replace}, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	s = catalog.NewSettings(s.Config, handler.SyncFunc(nil), s.Types.WithSchemas(nil, app))
	require.True(t, s.Types.Of(app).SchemaPending())
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	of := func(size int64) map[string]any {
		return map[string]any{"apiVersion": app.APIVersion, "kind": app.Kind, "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"size": size}}
	}
	memory := NewMemory().Of("p")
	build := func(live []*resource.Resource, children ...any) Plan {
		desired, err := Desire(s, parent, children, memory)
		require.NoError(t, err)
		require.NoError(t, FindNeeds(s, parent, desired, children, Needed{}))
		return Build(s, Input{Parent: parent, Desired: desired, Children: live, Memory: memory})
	}
	require.Len(t, build(nil, of(1)).Writes, 1, "it is created")
	live := []*resource.Resource{lived(t, s, parent, of(1), nil)}
	require.Len(t, build(live).Deletes, 1, "it is deleted")

	p := build(live, of(1), handler.After(testConfigMap("v"), of(1)))
	require.Empty(t, p.Pending)
	require.Equal(t, []string{"ConfigMap ns/c"}, refsOf(p.Writes), "it is as desired")

	p = build(live, of(2), handler.After(testConfigMap("v"), of(2)))
	require.Equal(t, []string{"App ns/a"}, refsOf(p.Pending))
	require.Empty(t, p.Writes)
	require.Len(t, p.Gated, 1)
}

// A settled child isn't even compared, and one that was compared and found to
// be as desired is the same from then on.
func TestPlanSettled(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	live := lived(t, s, parent, testConfigMap("v"), nil)
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	in := Input{Desired: desired, Children: []*resource.Resource{live}, Memory: NewMemory().Of("p")}
	p := Build(s, in)
	require.Len(t, p.Settled, 1)
	in.Memory.Carry(&p.Settled[0])
	require.Equal(t, Plan{}, Build(s, in))
}

// What the server made itself of an accepted desired state is no reason to
// write, and a write for another reason leaves it as it is.
func TestPlanExplained(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	want := testConfigMap("v")
	want.Data["other"] = "x"
	desired, err := Desire(s, parent, []any{want}, &ParentMemory{})
	require.NoError(t, err)
	normalized := func(version, other string) *resource.Resource {
		return lived(t, s, parent, want, func(o map[string]any) {
			o["data"] = map[string]any{"k": "normalized", "other": other}
			meta, _ := o["metadata"].(map[string]any)
			meta["resourceVersion"] = version
		})
	}
	in := Input{Desired: desired, Memory: NewMemory().Of("p")}
	accepted := normalized("10", "x")
	in.Memory.Accept(desired[0], accepted, s.Types.Of(k8s.ConfigMap).Comparison.Compare(accepted.Unstructured().Object, desired[0].object, nil))

	in.Children = []*resource.Resource{normalized("11", "x")}
	p := Build(s, in)
	require.Empty(t, p.Writes)
	require.Len(t, p.Settled, 1)

	in.Children = []*resource.Resource{normalized("12", "drifted")}
	p = Build(s, in)
	require.Len(t, p.Writes, 1)
	require.Equal(t, []string{"data.k"}, p.Writes[0].settledPaths())
	require.Equal(t, []merge.Difference{{Path: "data.other", Live: "drifted", Desired: "x"}}, p.Writes[0].Diffs)
}

func TestSettledPaths(t *testing.T) {
	for name, tc := range map[string]struct {
		reason                        string
		explained, added, diffs, want []string
	}{
		"elsewhere":  {reason: "they have nothing to do with each other", explained: []string{"spec.a"}, diffs: []string{"spec.b"}, want: []string{"spec.a"}},
		"the same":   {reason: "it differs anew", explained: []string{"spec.a"}, diffs: []string{"spec.a"}, want: []string{}},
		"below":      {reason: "the whole is written again", explained: []string{"spec.a", "spec.l"}, diffs: []string{"spec.a.b", "spec.l[0]"}, want: []string{}},
		"same start": {reason: "the name only begins like it", explained: []string{"spec.a"}, diffs: []string{"spec.ab"}, want: []string{"spec.a"}},
		"added":      {reason: "what was added follows from what it was added to", added: []string{`spec.l[0].a`, `spec.l[name="b.]c"].a`, `spec["a.b"].c`}, diffs: []string{"spec.l[0].b.c", `spec.l[name="b.]c"].d`, `spec["a.b"].d`}, want: []string{}},
		"added to another": {reason: "and not from others", added: []string{`spec.l[1].a`, `spec.l[name="b"].a`, `spec["a.b"].c`}, diffs: []string{"spec.l[0].b.c", `spec["a.b"][0]`, "spec.l[10].a"},
			want: []string{`spec.l[1].a`, `spec.l[name="b"].a`}},
	} {
		t.Run(name, func(t *testing.T) {
			a := Action{Verb: VerbUpdate}
			for _, path := range tc.explained {
				a.kept.chosen = append(a.kept.chosen, merge.Difference{Path: path, Live: "x", Desired: "y"})
			}
			for _, path := range tc.added {
				a.kept.chosen = append(a.kept.chosen, merge.Difference{Path: path, Live: "x"})
			}
			for _, path := range tc.diffs {
				a.Diffs = append(a.Diffs, merge.Difference{Path: path})
			}
			require.Equal(t, tc.want, a.settledPaths(), tc.reason)
		})
	}
}

// TestSettledPathsSent: what may as well be sent is sent, so that the answer tells
// what becomes of it today.
func TestSettledPathsSent(t *testing.T) {
	stored, pruned := merge.Difference{Path: "spec.a", Live: "x", Desired: "y"}, merge.Difference{Path: "spec.b", Desired: "y"}
	for name, tc := range map[string]struct {
		reason string
		a      Action
		want   []string
	}{
		"learned": {reason: "a webhook may have changed the one at the creation; the other was pruned", a: Action{Verb: VerbUpdate}, want: []string{"spec.a"}},
		"applied": {reason: "an apply with an unknown field is refused", a: Action{Verb: VerbApply}, want: []string{"spec.a", "spec.b"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.a.kept.chosen = []merge.Difference{stored, pruned}
			require.Equal(t, tc.want, tc.a.settledPaths(), tc.reason)
		})
	}
}

func refsOf(actions []Action) []string {
	var refs []string
	for _, a := range actions {
		refs = append(refs, a.Ref.String())
	}
	return refs
}

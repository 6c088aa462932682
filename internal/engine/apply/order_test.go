package apply_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func in(namespace string, object map[string]any) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	meta["namespace"] = namespace
	return object
}

// TestFailureHoldsBackItsNamespace: a failed write holds back the deletes that may be
// connected with it, and no others.
func TestFailureHoldsBackItsNamespace(t *testing.T) {
	f := newFixture(t, "", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: thing(), Strategy: config.Replace})
	live := []*resource.Resource{
		f.given(in("a", child(k8s.ConfigMap, "old", nil)), nil), f.given(in("b", child(k8s.ConfigMap, "old", nil)), nil),
	}
	f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
		if r.Verb == "create" && r.Key.Name == "bad" {
			return apierrors.NewBadRequest("no")
		}
		return nil
	}})
	f.run(t.Context(), f.plan(live, in("a", child(k8s.ConfigMap, "bad", nil)), in("b", child(k8s.ConfigMap, "good", nil))))
	require.NotContains(t, f.asked(), "delete ConfigMap a/old")
	require.Contains(t, f.asked(), "delete ConfigMap b/old")
}

// TestRefusedBefore_HoldsBackNoSooner: a write that was refused in an earlier pass holds back
// what it would if it were tried in this one. The deletes of a type with DeleteFirst come
// before the writes of that type and of later ones.
func TestRefusedBefore_HoldsBackNoSooner(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		first   bool // DeleteFirst
		refused resource.Type
		deletes bool
	}{
		"Same type":    {"its writes come after the delete", true, thing(), true},
		"Later type":   {"so do those of later types", true, k8s.Secret, true},
		"Earlier type": {"whose writes come before the delete", true, k8s.ConfigMap, false},
		"Deletes last": {"after all writes", false, thing(), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace},
				config.Child{Type: thing(), Strategy: config.Replace, DeleteFirst: tc.first}, config.Child{Type: k8s.Secret, Strategy: config.Replace})
			live := f.given(child(thing(), "old", nil), nil)
			p := f.plan([]*resource.Resource{live}, child(tc.refused, "bad", nil))
			require.Len(t, p.Writes, 1)
			refused := p.Writes[0]
			p.Writes = nil
			p.Refused = []plan.Refusal{{Failure: plan.Failure{Ref: refused.Ref, Err: errors.New("refused")}, Action: &refused}}
			f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Verb == "create" {
					return apierrors.NewBadRequest("no")
				}
				return nil
			}})
			f.run(t.Context(), p)
			require.Equal(t, tc.deletes, f.server.Get(thing(), key("old")) == nil, tc.reason)
		})
	}
}

// taken is the answer to a value that another object has.
func taken(field, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: field + ": " + message,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message}}},
	}}
}

// exclusive lets only one ConfigMap have a value of data.port, and refuses data.bad. Of
// updates that are sent at the same time, b's is looked at before a's.
func (f *fixture) exclusive() {
	late := make(chan struct{})
	looked := sync.OnceFunc(func() { close(late) })
	f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
		if r.Verb == "update" && r.Key.Name == "a" {
			<-late
		}
		return nil
	}, Admit: func(r fakeapi.Request, object map[string]any) error {
		if r.Key.Name == "b" {
			defer looked()
		}
		data, _ := object["data"].(map[string]any)
		for _, name := range []string{"old", "new", "a", "b"} {
			other := f.holder[name]
			if port, ok := data["port"]; ok && name != r.Key.Name && other == port {
				return taken("data.port", `Invalid value: "`+port.(string)+`": provided port is already allocated`)
			}
		}
		if _, bad := data["bad"]; bad {
			return apierrors.NewBadRequest("bad")
		}
		if !r.DryRun {
			f.holder[r.Key.Name] = data["port"]
		}
		return nil
	}, Changed: func(was, is map[string]any) {
		if is == nil {
			meta, _ := was["metadata"].(map[string]any)
			name, _ := meta["name"].(string)
			delete(f.holder, name)
		}
	}})
}

// TestRefusedForWhatGoes: a value that a child takes from another one arrives within
// one pass. What stands in the way of a write is deleted before it, but only if nothing
// else is wrong with the write.
func TestRefusedForWhatGoes(t *testing.T) {
	with := func(name string, data map[string]any) map[string]any { return child(k8s.ConfigMap, name, data) }
	for name, tc := range map[string]struct {
		reason  string
		live    []map[string]any
		desired []any
		dryRun  bool
		asked   []string
		failed  int
	}{
		"moved": {
			reason:  "the write is repeated after the other one",
			live:    []map[string]any{with("a", map[string]any{"port": "1"}), with("b", map[string]any{"port": "2"})},
			desired: []any{with("a", map[string]any{"port": "3"}), with("b", map[string]any{"port": "1"})},
			asked:   []string{"update ConfigMap ns/a", "update ConfigMap ns/b", "update ConfigMap ns/b"},
		},
		"renamed": {
			reason:  "the old one goes first",
			live:    []map[string]any{with("old", map[string]any{"port": "1"})},
			desired: []any{with("new", map[string]any{"port": "1"})},
			asked:   []string{"create ConfigMap ns/new", "dry create ConfigMap ns/new", "delete ConfigMap ns/old", "create ConfigMap ns/new"},
		},
		"renamed, and wrong": {
			reason:  "the old one would be gone for nothing",
			live:    []map[string]any{with("old", map[string]any{"port": "1"})},
			desired: []any{with("new", map[string]any{"port": "1", "bad": "x"})},
			asked:   []string{"create ConfigMap ns/new", "dry create ConfigMap ns/new"}, failed: 1,
		},
		"held by another": {
			reason:  "the old one has nothing to do with it",
			live:    []map[string]any{with("old", map[string]any{"port": "1"}), with("a", map[string]any{"port": "2"})},
			desired: []any{with("new", map[string]any{"port": "2"}), with("a", map[string]any{"port": "2"})},
			asked:   []string{"create ConfigMap ns/new"}, failed: 1,
		},
		"renamed, in a dry run": {
			reason:  "it is foreseen as it would be done",
			live:    []map[string]any{with("old", map[string]any{"port": "1"})},
			desired: []any{with("new", map[string]any{"port": "1"})}, dryRun: true,
			asked: []string{"dry create ConfigMap ns/new", "dry create ConfigMap ns/new"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", tc.dryRun, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			f.holder = map[string]any{}
			var live []*resource.Resource
			for _, o := range tc.live {
				res := f.given(o, nil)
				port, _ := res.Field("data", "port")
				f.holder[res.Name()] = port
				live = append(live, res)
			}
			f.exclusive()
			report := f.run(t.Context(), f.plan(live, tc.desired...))
			require.ElementsMatch(t, tc.asked, f.asked(), tc.reason)
			failed := 0
			for _, r := range report.Results {
				if r.Err != nil {
					failed++
				} else if tc.dryRun {
					require.True(t, r.Skipped)
				}
			}
			require.Equal(t, tc.failed, failed, tc.reason)
		})
	}
}

// TestNamespaceOfOthers: nothing is asked for in a namespace that is a desired child and
// isn't the parent's.
func TestNamespaceOfOthers(t *testing.T) {
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "a"}}
	for name, dryRun := range map[string]bool{"run": false, "dry run": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "", dryRun, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Namespace, Strategy: config.Replace})
			_, err := f.server.Create(namespace)
			require.NoError(t, err)
			old := f.given(in("a", child(k8s.ConfigMap, "old", nil)), nil)
			report := f.run(t.Context(), f.plan([]*resource.Resource{old}, namespace, in("a", child(k8s.ConfigMap, "new", nil)), in("b", child(k8s.ConfigMap, "new", nil))))
			for _, line := range f.asked() {
				require.NotContains(t, line, "ConfigMap a/")
			}
			require.Len(t, report.Results, 3)
			require.Error(t, report.Results[0].Err)
			require.NotEqual(t, report.Results[1].HeldBack, report.Results[2].HeldBack)
			for _, r := range report.Results {
				require.Equal(t, r.Action.Ref.Key.Namespace == "a", r.HeldBack)
				require.Equal(t, plan.VerbCreate, r.Action.Verb)
			}
		})
	}
}

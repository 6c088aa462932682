package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/storm"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// stormNotes is a test that notes what a Storm says, and doesn't fail.
type stormNotes struct {
	*testing.T
	said, logged string
}

func (n *stormNotes) Errorf(format string, args ...any) { n.said += fmt.Sprintf(format, args...) }
func (n *stormNotes) Fatalf(format string, args ...any) { n.Errorf(format, args...) }
func (n *stormNotes) Logf(format string, args ...any)   { n.logged += fmt.Sprintf(format, args...) }

func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		faults Faults
		want   storm.Kinds
	}{
		"Zero":      {"the zero value is all of them", Faults{}, storm.All()},
		"Seeds":     {"how many seeds are run says nothing of the kinds", Faults{Seeds: 7}, storm.All()},
		"Kill":      {"one kind alone", Faults{Kill: true}, storm.Kinds{Kill: true}},
		"Lag":       {"one kind alone", Faults{Lag: true}, storm.Kinds{Lag: true}},
		"Errors":    {"one kind alone", Faults{Errors: true}, storm.Kinds{Errors: true}},
		"Conflicts": {"one kind alone", Faults{Conflicts: true}, storm.Kinds{Conflicts: true}},
		"Leader":    {"one kind alone", Faults{Leader: true}, storm.Kinds{Leader: true}},
		"Others":    {"one kind alone", Faults{Others: true}, storm.Kinds{Others: true}},
		"Late":      {"one kind alone", Faults{Late: true}, storm.Kinds{Late: true}},
		"Two":       {"two kinds", Faults{External: true, Kill: true}, storm.Kinds{External: true, Kill: true}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, tc.faults.kinds(), tc.reason) })
	}
}

func TestStormNeedsATest(t *testing.T) {
	f := fake(t, func(tb testing.TB) {
		Storm(tb, widgets("storm"), handler.SyncFunc(children), Faults{}, func(*Scenario) {})
	})
	require.Equal(t, "testkit: storm: it needs a *testing.T, not a *testkit.fakeTB", f.failure())
}

// keys is an outside system with an entry for each Widget.
type keys struct {
	External
	mu   sync.Mutex
	held map[string]int
}

func (k *keys) add(ctx context.Context, name string) error {
	return k.Call(ctx, "add "+name, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.held[name] = 1
		return nil
	})
}

// TestScenario uses all that a scenario has, with an operator of which it is true.
func TestScenario(t *testing.T) {
	outside := &keys{held: map[string]int{}}
	cfg := widgets("storm")
	cfg.Related = []config.Related{{Type: k8s.ServiceAccount, Fields: []string{"spec.account"}}}
	h := handler.Funcs{SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if err := outside.add(ctx, req.Parent.Key().String()); err != nil {
			return nil, err
		}
		resp, err := children(ctx, req)
		if err != nil {
			return nil, err
		}
		phase := ""
		for live := range req.Children.OfType(k8s.ConfigMap).All() {
			phase, _ = live.Annotation("phase")
		}
		accounts := 0
		for range req.Related.OfType(k8s.ServiceAccount).All() {
			accounts++
		}
		resp.Status = map[string]any{"phase": phase, "accounts": accounts}
		return resp, nil
	}}
	made, seeds := 0, int(budget.Runs(60))
	account := &corev1.ServiceAccount{ObjectMeta: configMap("robot", nil).ObjectMeta}
	one, two := widget("one", map[string]any{"value": "a", "account": "robot"}), widget("two", map[string]any{"value": "a"})
	Storm(t, cfg, nil, Faults{Seeds: seeds}, func(s *Scenario) {
		s.External(outside)
		s.Handler(func() handler.Handler { made++; return h })
		s.Controller(k8s.ConfigMap, func(object map[string]any) {
			meta, _ := object["metadata"].(map[string]any)
			notes, _ := meta["annotations"].(map[string]any)
			if notes == nil {
				notes = map[string]any{}
			}
			notes["phase"] = "bound"
			meta["annotations"] = notes
		})
		s.Create(account)
		s.Create(one)
		s.Create(two)
		s.Update(widget("one", map[string]any{"value": "b", "account": "robot"}))
		s.Change(one, func(object map[string]any) { object["spec"].(map[string]any)["value"] = "c" })
		s.Delete(two)
		s.Always(func(w World) error {
			for _, child := range w.List(k8s.ConfigMap) {
				if child.Name() == "two" && len(child.OwnerReferences()) == 0 {
					return errors.New("nobody owns it")
				}
			}
			return nil
		})
		s.Finally(func(w World) error { return arrived(w, outside, one, two) })
	})
	require.Greater(t, made, seeds, "each process has a handler of its own")
}

// arrived says what is missing in the end of TestScenario.
func arrived(w World, outside *keys, one, two any) error {
	outside.mu.Lock()
	defer outside.mu.Unlock()
	live := w.Get(one)
	switch {
	case live == nil || w.Get(two) != nil:
		return errors.New("one is there alone")
	case len(w.Children(one)) != 2 || len(w.Children(two)) != 0:
		return fmt.Errorf("one has %d children", len(w.Children(one)))
	}
	value, _ := w.Children(one)[0].Field("data", "value")
	phase, _ := live.Field("status", "phase")
	if value != "c" || phase != "bound" || outside.held["default/one"] != 1 {
		return fmt.Errorf("value %v, phase %v, outside %v", value, phase, outside.held)
	}
	return nil
}

// TestIgnore holds that what a scenario ignores is no difference, and what it doesn't is.
func TestIgnore(t *testing.T) {
	seen := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		first, _ := req.Parent.Field("status", "first")
		value, _ := req.Parent.Field("spec", "value")
		if first == nil {
			first = value
		}
		return &handler.SyncResponse{Status: map[string]any{"first": first}, Children: []any{configMap(fmt.Sprint("of-", first), nil)}}, nil
	})
	for name, tc := range map[string]struct {
		reason string
		ignore func(s *Scenario)
		want   string
	}{
		"Nothing": {"which value comes first is a matter of time", func(*Scenario) {}, "Widget default/one: status.first is"},
		"Field":   {"the objects that are called so remain", func(s *Scenario) { s.Ignore("status", "first") }, "ConfigMap default/of-"},
		"Both":    {"nothing remains", func(s *Scenario) { s.Ignore("status", "first"); s.IgnoreType(k8s.ConfigMap) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			notes := &stormNotes{T: t}
			Storm(notes, widgets("storm"), seen, Faults{Lag: true, Seeds: 60}, func(s *Scenario) {
				s.Create(widget("one", map[string]any{"value": "a"}))
				s.Update(widget("one", map[string]any{"value": "b"}))
				tc.ignore(s)
			})
			if tc.want == "" {
				require.Empty(t, notes.said, tc.reason)
				require.Contains(t, notes.logged, "60 seeds")
				return
			}
			require.Contains(t, notes.said, tc.want, tc.reason)
		})
	}
}

func TestStormOn(t *testing.T) {
	t.Parallel()
	StormOn(t, cluster, widgets("storm-on"), handler.SyncFunc(children), Faults{Seeds: 4}, func(s *Scenario) {
		s.Create(widget("one", map[string]any{"value": "a"}))
		s.Create(widget("two", map[string]any{"value": "a"}))
		s.Update(widget("one", map[string]any{"value": "b"}))
		s.Delete(widget("two", nil))
		s.Finally(func(w World) error {
			if n := len(w.Children(widget("one", nil))); n != 2 {
				return fmt.Errorf("one has %d children", n)
			}
			return nil
		})
	})
}

// TestStormOnFinds holds that a bug is found that needs somebody who deletes a child.
func TestStormOnFinds(t *testing.T) {
	t.Parallel()
	guarded := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp := &handler.SyncResponse{Status: map[string]any{"phase": "Ready"}}
		if phase, _ := req.Parent.Field("status", "phase"); phase == nil {
			resp.Children = []any{configMap(req.Parent.Name(), nil)}
		}
		for live := range req.Children.OfType(k8s.ConfigMap).All() {
			resp.Children = []any{handler.Keep(live)}
		}
		return resp, nil
	})
	notes := &stormNotes{T: t}
	StormOn(notes, cluster, widgets("storm-finds"), guarded, Faults{Others: true, Seeds: 40}, func(s *Scenario) {
		s.Create(widget("one", nil))
	})
	require.Contains(t, notes.said, "ConfigMap default/one is missing, and without faults it is there")
	require.Contains(t, notes.said, "somebody deletes ConfigMap")
}

func TestStormOnNeedsNamespacedTypes(t *testing.T) {
	t.Parallel()
	cfg := config.Operator{Name: "storm-wide", Parent: clusterWidgetType, Mappings: []resource.Mapping{{Type: clusterWidgetType, Plural: "clusterwidgets", ClusterScoped: true}}}
	notes := &stormNotes{T: t}
	StormOn(notes, cluster, cfg, handler.SyncFunc(children), Faults{}, func(s *Scenario) {
		s.Create(map[string]any{"apiVersion": clusterWidgetType.APIVersion, "kind": clusterWidgetType.Kind, "metadata": map[string]any{"name": "a"}})
	})
	require.Contains(t, notes.said, "is cluster-scoped: runs would meet each other's objects")

	cfg = config.Operator{Name: "storm-none", Parent: resource.Type{APIVersion: "example.com/v1", Kind: "None"}}
	notes = &stormNotes{T: t}
	StormOn(notes, cluster, cfg, handler.SyncFunc(children), Faults{}, func(s *Scenario) {
		s.Create(map[string]any{"apiVersion": "example.com/v1", "kind": "None", "metadata": map[string]any{"name": "a"}})
	})
	require.Contains(t, notes.said, "is its CustomResourceDefinition among ClusterOptions.CRDPaths?")
}

// TestRecorded begins a Storm with what a live operator was asked.
func TestRecorded(t *testing.T) {
	cfg := widgets("storm")
	cfg.Related = []config.Related{{Type: k8s.Pod}}
	owned := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp, err := children(ctx, req)
		pods := 0
		for pod := range req.Related.OfType(k8s.Pod).All() {
			for _, owner := range pod.OwnerReferences() {
				if owner.UID == req.Parent.UID() {
					pods++
				}
			}
		}
		if err == nil {
			resp.Status = map[string]any{"pods": pods}
		}
		return resp, err
	}
	h := handler.Funcs{SyncFunc: owned, RelateFunc: func(*resource.Resource) ([]handler.Ref, error) {
		return []handler.Ref{{Type: k8s.Pod, Selector: "app=web"}}, nil
	}}
	var file bytes.Buffer
	recorded := Record(&file, h)
	record := func(value, deleted string) {
		parent := widget("one", map[string]any{"value": value})
		meta := parent["metadata"].(map[string]any)
		meta["namespace"], meta["uid"], meta["resourceVersion"] = "live", "11111111-2222-3333-4444-555555555555", "7"
		if deleted != "" {
			meta["name"], meta["uid"], meta["deletionTimestamp"] = "two", "another", deleted
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "live", UID: "of-pod", ResourceVersion: "8", Labels: map[string]string{"app": "web"}}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: widgetType.APIVersion, Kind: widgetType.Kind, Name: "one", UID: "11111111-2222-3333-4444-555555555555"}}
		req := Request(t, cfg, parent, Related(pod))
		_, err := recorded.Sync(t.Context(), req)
		require.NoError(t, err)
	}
	record("a", "")
	record("b", "")
	record("c", "2026-01-01T00:00:00Z")
	start, err := ReadRecording(&file)
	require.NoError(t, err)
	Storm(t, cfg, h, Faults{Seeds: 40}, func(s *Scenario) {
		s.Recorded(start)
		s.Finally(func(w World) error {
			live := w.List(widgetType)
			if len(live) != 1 || live[0].Key().String() != "live/one" {
				return fmt.Errorf("there are %d", len(live))
			}
			value, _ := live[0].Field("spec", "value")
			pods, _ := live[0].Field("status", "pods")
			if value != "b" || pods != int64(1) {
				return fmt.Errorf("value %v, pods %v", value, pods)
			}
			return nil
		})
	})

	_, err = ReadRecording(strings.NewReader("nonsense"))
	require.ErrorContains(t, err, "testkit: recording: line 1: ")
	notes := &stormNotes{T: t}
	Storm(notes, cfg, h, Faults{}, func(s *Scenario) { s.Recorded(nil) })
	require.Contains(t, notes.said, "scenario: the recording is nil")
}

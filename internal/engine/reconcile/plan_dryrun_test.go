package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// planOf plans without an operator running, and requires that it writes
// nothing.
func planOf(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler) ([]string, error) {
	t.Helper()
	return planWith(t, server, cfg, h, rig.PlanOptions{})
}

// changesOf is planOf for the changes themselves.
func changesOf(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler, opts rig.PlanOptions) ([]plan.Change, error) {
	t.Helper()
	before := len(server.Writes())
	events := len(server.List(k8s.Event))
	changes, err := rig.PlanWith(server, cfg, h, opts)
	require.Len(t, server.Writes(), before, "a plan writes nothing")
	require.Len(t, server.List(k8s.Event), events, "nor an Event")
	return changes, err
}

// planWith is planOf with options.
func planWith(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler, opts rig.PlanOptions) ([]string, error) {
	t.Helper()
	changes, err := changesOf(t, server, cfg, h, opts)
	var lines []string
	for _, c := range changes {
		require.Equal(t, "ns", c.Parent.Namespace)
		line := fmt.Sprintf("%s: %s %s %s", c.Parent.Name, c.Verb, c.Type.Kind, c.Object.Name)
		if c.Unsure {
			line += " unsure"
		}
		lines = append(lines, line)
		for _, f := range c.Fields {
			live, err := json.Marshal(f.Live)
			require.NoError(t, err)
			desired, err := json.Marshal(f.Desired)
			require.NoError(t, err)
			lines = append(lines, fmt.Sprintf("  %s: %s -> %s", f.Path, live, desired))
		}
	}
	return lines, err
}

func planned(lines ...string) []string { return lines }

// converge runs the operator until it has nothing to do.
func converge(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler) {
	t.Helper()
	r := rig.Start(t, server, cfg, h)
	rig.Elapse(time.Minute)
	r.Stop()
}

// A planCase is a cluster that was converged, what has changed since, and the
// plan for it.
type planCase struct {
	reason   string
	strategy config.UpdateStrategy       // of ConfigMaps
	change   func(object map[string]any) // of the ConfigMap of p
	parent   func(object map[string]any) // of p
	deleted  bool                        // p is being deleted
	config   func(*config.Operator)      // of the new build
	build    handler.Handler             // the new build, else copier
	want     []string
}

func TestPlanChanges(t *testing.T) {
	setValue := func(value string) func(map[string]any) {
		return func(o map[string]any) { o["data"] = map[string]any{"value": value} }
	}
	finalizing := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return nil, errors.New("must not be called")
	}}
	wants := func(children ...any) handler.Handler {
		return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: children}, nil
		})
	}
	for name, tc := range map[string]planCase{
		"Nothing": {reason: "everything is as it shall be"},
		"Drift": {
			reason: "what somebody changed is put right", change: setValue("drifted"),
			want: planned("p: update ConfigMap p", `  data.value: "drifted" -> "1"`),
		},
		"DriftRecreate": {
			reason: "drift recreates nothing (S193)", strategy: config.Recreate, change: setValue("drifted"),
			want: planned("p: update ConfigMap p", `  data.value: "drifted" -> "1"`),
		},
		"DriftOnDelete": {reason: "nothing before somebody else deletes it", strategy: config.OnDelete, change: setValue("drifted")},
		"ParentChanged": {
			reason: "the child follows; the status follows from the child, so it isn't known yet",
			parent: func(o map[string]any) { o["spec"] = map[string]any{"value": "2"} },
			want:   planned("p: update ConfigMap p", `  data.value: "1" -> "2"`),
		},
		"Dropped": {
			reason: "a field that the new build has no more goes",
			build:  wants(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "p"}}),
			want:   planned("p: update ConfigMap p", `  data: {"value":"1"} -> null`),
		},
		"Replaced": {
			reason: "another child instead; deletes come last",
			build:  wants(rig.Copied("q", "new")),
			want: planned(
				"p: create ConfigMap q", `  : null -> {"apiVersion":"v1","data":{"value":"new"},"kind":"ConfigMap","metadata":{"name":"q","namespace":"ns"}}`,
				"p: delete ConfigMap p",
			),
		},
		"SameSpelledDifferently": {
			reason: "only the mark would be written, which doesn't count",
			build: wants(map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "p", "labels": map[string]any{}},
				"data": map[string]any{"value": "1"},
			}),
		},
		"Status": {
			reason: "the parent's own",
			parent: func(o map[string]any) { o["status"] = map[string]any{"value": "1", "children": 7, "theirs": true} },
			want: planned(
				"p: update Parent p", "  status.children: 7 -> 1", "  status.observedGeneration: null -> 1", "  status.theirs: true -> null",
			),
		},
		"Finalizers": {
			reason: "the parent's own", build: finalizing,
			parent: func(o map[string]any) { metaOf(o)["finalizers"] = []any{"example.com/theirs", "old"} },
			config: func(cfg *config.Operator) { cfg.FormerFinalizers = []string{"old"} },
			want: planned(
				"p: update Parent p", `  metadata.finalizers: ["example.com/theirs","old"] -> ["example.com/theirs","roperator.com/op"]`,
			),
		},
		"Finalize": {
			reason: "what Finalize would do can't be known, so it isn't called", build: finalizing,
			parent: func(o map[string]any) { metaOf(o)["finalizers"] = []any{"roperator.com/op"} }, deleted: true,
			want: planned("p: finalize Parent p"),
		},
		"LetGo": {
			reason: "of a finalizer that an earlier build left",
			parent: func(o map[string]any) { metaOf(o)["finalizers"] = []any{"roperator.com/op", "theirs"} }, deleted: true,
			want: planned("p: update Parent p", `  metadata.finalizers: ["roperator.com/op","theirs"] -> ["theirs"]`),
		},
		"Paused": {
			reason: "nothing is done for it",
			parent: func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"roperator.com/paused": "true"} },
			change: setValue("drifted"),
		},
		"LabelsTakenOff": {
			reason: "ours are restored", change: func(o map[string]any) { delete(metaOf(o), "labels") },
			want: planned(
				"p: update ConfigMap p",
				`  metadata.labels: null -> {"roperator.com/operator":"op","roperator.com/parent-uid":"UID"}`,
			),
		},
	} {
		t.Run(name, func(t *testing.T) { rig.Bubble(t, func(t *testing.T) { runPlanCase(t, tc) }) })
	}
}

func runPlanCase(t *testing.T, tc planCase) {
	t.Helper()
	server, cfg := rig.Server(), rig.Config()
	if tc.strategy != "" {
		cfg.Children[0].Strategy = tc.strategy
	}
	made := rig.CreateParent(t, server, "p", "1")
	converge(t, server, cfg, handler.SyncFunc(rig.Copier))
	for of, change := range map[*fakeapi.Kind]func(map[string]any){
		{Type: k8s.ConfigMap}: tc.change, {Type: sample.ParentType()}: tc.parent,
	} {
		if change != nil {
			_, err := server.Change(of.Type, rig.Key("p"), change)
			require.NoError(t, err)
		}
	}
	if tc.deleted {
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
	}
	if tc.config != nil {
		tc.config(&cfg)
	}
	if tc.build == nil {
		tc.build = handler.SyncFunc(rig.Copier)
	}
	lines, err := planOf(t, server, cfg, tc.build)
	require.NoError(t, err)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], string(made.UID()), "UID")
	}
	require.Equal(t, tc.want, lines, tc.reason)
}

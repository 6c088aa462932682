package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// watched starts an operator whose engine keeps a journal.
func watched(t *testing.T, cfg config.Operator, h handler.Handler) *rig.Rig {
	t.Helper()
	server := rig.Server()
	return rig.StartWith(t, server, cfg, h, manager.Options{RESTConfig: server.RESTConfig(), KeepJournal: true})
}

// lineOf returns the line of the survey about a parent.
func lineOf(r *rig.Rig, name string) view.Parent {
	for _, line := range r.Manager.Engine().Survey() {
		if line.Name == name {
			return line
		}
	}
	return view.Parent{}
}

// familyOf returns what the engine knows of a parent.
func familyOf(t *testing.T, r *rig.Rig, name string) view.Family {
	t.Helper()
	family, ok := r.Manager.Engine().Family(rig.Key(name))
	require.True(t, ok)
	return family
}

// writesOf returns what the passes over a parent wrote, the oldest first.
func writesOf(t *testing.T, r *rig.Rig, name string) (writes []string) {
	t.Helper()
	for _, p := range slices.Backward(familyOf(t, r, name).Passes) {
		for _, w := range p.Writes {
			writes = append(writes, strings.TrimSpace(fmt.Sprint(w.Verb, " ", w.Kind, " ", w.Namespace, "/", w.Name, " ", w.Result, " ", strings.Join(w.Fields, ","))))
		}
	}
	return writes
}

func TestJournal_OfAParentsLife(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		h := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}}
		r := watched(t, rig.Config(), h)
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		require.Equal(t, []string{
			"patch finalizers Parent ns/one written metadata.finalizers",
			"create ConfigMap ns/one written",
			"update status Parent ns/one written status.children,status.observedGeneration,status.value",
		}, order(writesOf(t, r, "one")))
		r.SetSpec("one", "v2")
		rig.Elapse(time.Second)
		writes := writesOf(t, r, "one")
		require.Contains(t, writes, "update ConfigMap ns/one written data.value")
		require.Contains(t, writes, "update status Parent ns/one written status.observedGeneration,status.value")
		family := familyOf(t, r, "one")
		require.Len(t, family.Passes, r.Passes())
		newest := family.Passes[0]
		require.Equal(t, uint64(r.Passes()), newest.Number)
		require.Equal(t, "Sync", newest.Call)
		require.NotEmpty(t, newest.Trigger)
		require.NotEmpty(t, family.Events)
		require.Equal(t, "Updated", family.Events[0].Reason)
		require.Equal(t, view.Parent{Namespace: "ns", Name: "one", State: explain.Settled, Children: 1, LastPass: newest.Start.Truncate(time.Second)}, lineOf(r, "one"))

		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
		rig.Elapse(time.Minute)
		_, ok := r.Manager.Engine().Family(rig.Key("one"))
		require.False(t, ok)
		require.Empty(t, r.Manager.Engine().Survey(), "what is gone is forgotten")
		r.Stop()
	})
}

// order puts a finalizer's write first, since it is noted after those of children.
func order(writes []string) []string {
	var first, rest []string
	for _, w := range writes {
		if strings.Contains(w, "finalizer") {
			first = append(first, w)
		} else {
			rest = append(rest, w)
		}
	}
	return append(first, rest...)
}

// TestSurvey_States has one parent for each state that the process itself can tell.
func TestSurvey_States(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		defer close(goOn)
		h := handler.Funcs{
			SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				resp, err := rig.Copier(ctx, req)
				switch req.Parent.Name() {
				case "failing":
					return nil, errors.New("no such plan")
				case "stuck":
					select {
					case <-goOn:
					case <-ctx.Done():
					}
				case "waiting":
					resp.Children = []any{handler.When(resp.Children[0], false)}
				}
				return resp, err
			},
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return &handler.FinalizeResponse{Retry: time.Minute}, nil
			},
		}
		r := watched(t, rig.Config(), h)
		for _, name := range []string{"failing", "stuck", "waiting", "settled", "paused", "finalizing"} {
			r.Create(name, "v")
		}
		rig.Elapse(5 * time.Second)
		r.Change(sample.ParentType(), "paused", func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			meta["annotations"] = map[string]any{"roperator.com/paused": "true"}
		})
		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("finalizing")))
		rig.Elapse(5 * time.Second)
		for name, want := range map[string]struct {
			state  explain.State
			reason string
		}{
			"failing":    {explain.Failing, "handler: Sync: no such plan"},
			"stuck":      {explain.Pending, "its pass has been under way for 10s, and the handler's Sync hasn't returned"},
			"waiting":    {explain.Waiting, "before the handler's own condition for it is met"},
			"settled":    {explain.Settled, ""},
			"paused":     {explain.Paused, "by the annotation"},
			"finalizing": {explain.Finalizing, "it is being deleted"},
		} {
			line := lineOf(r, name)
			require.Equal(t, want.state, line.State, "%s: %s", name, line.Reason)
			require.Contains(t, line.Reason, want.reason, name)
		}
		require.False(t, lineOf(r, "failing").Since.IsZero())
		failing := familyOf(t, r, "failing").Passes
		require.Equal(t, "handler: Sync: no such plan", failing[0].Error)
		r.Cancel()
		require.NoError(t, <-r.Ended)
	})
}

// TestSurvey_Loop: a conflict loop is told with the values that alternate.
func TestSurvey_Loop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := watched(t, rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "ours")
		rig.Elapse(time.Second)
		for range 8 {
			r.Change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": "theirs"} })
			rig.Elapse(time.Second)
		}
		line := lineOf(r, "one")
		require.Equal(t, explain.Throttled, line.State)
		require.Equal(t, `ConfigMap ns/one is written again and again: data.value alternates between "theirs" and "ours"`, line.Reason)
		require.True(t, familyOf(t, r, "one").Passes[0].Throttled)
		r.Stop()
	})
}

// TestSurvey_NotReady: a child that isn't Current is told of, until it is.
func TestSurvey_NotReady(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Custom(k8s.Deployment, "deployments"))
		cfg := rig.Config()
		cfg.Children = []config.Child{{Type: k8s.Deployment, Strategy: config.Replace}}
		h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"replicas": 1},
			}}}, nil
		})
		r := rig.StartWith(t, server, cfg, h, manager.Options{RESTConfig: server.RESTConfig(), KeepJournal: true})
		r.Create("one", "v")
		rig.Elapse(5 * time.Second)
		line := lineOf(r, "one")
		require.Equal(t, explain.NotReady, line.State)
		require.Contains(t, line.Reason, "Deployment ns/web is InProgress: ")
		before := familyOf(t, r, "one").Version
		r.Change(k8s.Deployment, "web", func(o map[string]any) {
			o["status"] = map[string]any{"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1),
				"conditions": []any{map[string]any{"type": "Available", "status": "True"}}}
		})
		rig.Elapse(5 * time.Second)
		require.Equal(t, explain.Settled, lineOf(r, "one").State, lineOf(r, "one").Reason)
		require.NotEqual(t, before, familyOf(t, r, "one").Version)
		r.Stop()
	})
}

// TestSurvey_Order: the lines are by name, whoever comes and goes.
func TestSurvey_Order(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := watched(t, rig.Config(), handler.SyncFunc(rig.Copier))
		for _, step := range []struct {
			reason, create, remove string
			want                   []string
		}{
			{"no parent yet", "", "", nil},
			{"the first one", "m", "", []string{"m"}},
			{"before it", "c", "", []string{"c", "m"}},
			{"behind it", "x", "", []string{"c", "m", "x"}},
			{"in between", "d", "", []string{"c", "d", "m", "x"}},
			{"one goes, another one comes", "a", "m", []string{"a", "c", "d", "x"}},
			{"the last one goes", "", "x", []string{"a", "c", "d"}},
			{"a name comes back", "m", "", []string{"a", "c", "d", "m"}},
		} {
			if step.create != "" {
				r.Create(step.create, "v")
			}
			if step.remove != "" {
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key(step.remove)))
			}
			rig.Elapse(time.Second)
			for range 2 {
				var names []string
				for _, line := range r.Manager.Engine().Survey() {
					names = append(names, line.Name)
				}
				require.Equal(t, step.want, names, step.reason)
			}
		}
		r.Stop()
	})
}

// TestJournal_OfWrites has what becomes of writes that don't succeed at once.
func TestJournal_OfWrites(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Conflict": {"A newer parent is on its way.", conflict(), "update status Parent ns/one awaited status.children,status.observedGeneration,status.value"},
		"Refused":  {"The write has failed.", invalid(), "update status Parent ns/one failed status.children,status.observedGeneration,status.value"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				(&refusal{times: 1, err: tc.err}).install(server)
				r := rig.StartWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: server.RESTConfig(), KeepJournal: true})
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				require.Contains(t, writesOf(t, r, "one"), tc.want, tc.reason)
				r.Stop()
			})
		})
	}
}

// TestJournal_ManyWrites: of many writes, those that failed are kept.
func TestJournal_ManyWrites(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "create" && strings.HasPrefix(req.Key.Name, "z") {
				return invalid()
			}
			return nil
		}})
		h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp := &handler.SyncResponse{Children: []any{rig.Copied("z", "v")}}
			for i := range 3 * journal.WritesOfPass {
				resp.Children = append(resp.Children, rig.Copied(fmt.Sprint("a-", i), "v"))
			}
			return resp, nil
		})
		r := rig.StartWith(t, server, rig.Config(), h, manager.Options{RESTConfig: server.RESTConfig(), KeepJournal: true})
		r.Create("one", "v")
		rig.Elapse(time.Second)
		passes := familyOf(t, r, "one").Passes
		first := passes[len(passes)-1]
		require.Len(t, first.Writes, journal.WritesOfPass)
		require.Equal(t, 3*journal.WritesOfPass+1, len(first.Writes)+first.MoreWrites)
		require.Equal(t, journal.Failed, first.Writes[0].Result)
		require.Equal(t, "z", first.Writes[0].Name)
		require.NotEmpty(t, first.Writes[0].Error)
		r.Stop()
	})
}

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// adopting is the configuration of an operator that may adopt ConfigMaps.
func adopting() config.Operator {
	cfg := rig.Config()
	cfg.Children[0].Adopt = true
	return cfg
}

// unlabelled returns a ConfigMap whose controller is parent, as another program than
// an operator of this library has made it.
func unlabelled(name string, parent *resource.Resource) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"value": "theirs"},
		"metadata": map[string]any{"name": name, "namespace": "ns", "ownerReferences": []any{map[string]any{
			"apiVersion": parent.Type().APIVersion, "kind": parent.Type().Kind, "name": parent.Name(), "uid": string(parent.UID()), "controller": true,
		}}},
	}
}

func create(t *testing.T, server *fakeapi.Server, object map[string]any) *resource.Resource {
	t.Helper()
	res, err := server.Create(object)
	require.NoError(t, err)
	return res
}

// A shower is a handler that wants what Copier wants, and notes which children it is
// shown.
type shower struct {
	mu struct {
		sync.Mutex
		shown []string // for each call, the names of the children
		err   error    // of Sync
		keep  bool     // the response says KeepChildren
	}
}

func (s *shower) sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, req.Children.Len())
	for child := range req.Children.All() {
		value, _ := child.Field("data", "value")
		names = append(names, fmt.Sprint(child.Name(), "=", value))
	}
	s.mu.shown = append(s.mu.shown, strings.Join(names, " "))
	if s.mu.err != nil {
		return nil, s.mu.err
	}
	resp, err := rig.Copier(ctx, req)
	resp.KeepChildren = s.mu.keep
	return resp, err
}

// shown returns, for each call so far, the names of the children.
func (s *shower) shown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.shown)
}

// answer sets how Sync ends from now on.
func (s *shower) answer(err error, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.err, s.mu.keep = err, keep
}

func TestUnlabelled_IsShownAdoptedAndTreatedAsAChild(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, s := rig.Server(), &shower{}
		p := rig.CreateParent(t, server, "one", "1")
		create(t, server, unlabelled("one", p))
		create(t, server, unlabelled("dynamic-x7k", p))
		r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
		require.Equal(t, "dynamic-x7k=theirs one=theirs", s.shown()[0], "with their content")
		require.Equal(t, "dynamic-x7k=theirs one=theirs", s.shown()[1], "now as children")
		require.Nil(t, r.Get(k8s.ConfigMap, "dynamic-x7k"))
		one := r.Get(k8s.ConfigMap, "one")
		require.Equal(t, map[string]string{sample.TrackingLabel: string(p.UID()), "roperator.com/operator": "op"}, one.Labels())
		value, _ := one.Field("data", "value")
		require.Equal(t, "1", value)
		require.ElementsMatch(t, []string{"patch ConfigMap ns/dynamic-x7k", "patch ConfigMap ns/one"}, server.Writes()[:2])
		require.Equal(t, []string{"update ConfigMap ns/one", "delete ConfigMap ns/dynamic-x7k", "update status Parent ns/one"}, slices.Compact(server.Writes()[2:]))
		require.Empty(t, r.Errors("one"))
		require.Equal(t, 1, listsOf(server, k8s.ConfigMap))
		require.Zero(t, r.Manager.Engine().Sizes()["unlabelled"])
		// Another program makes one while the operator runs: that is no migration.
		create(t, server, unlabelled("late", p))
		r.SetSpec("one", "2")
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "late"))
		r.Stop()

		writes, calls := len(server.Writes()), len(s.shown())
		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("late")))
		r = rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
		require.Len(t, server.Writes(), writes, "a restart finds nothing to do")
		require.Len(t, s.shown(), calls+1)
		r.Stop()
	})
}

func TestUnlabelled_WhatIsSomebodyElsesIsNeitherShownNorTouched(t *testing.T) {
	meta := func(change func(meta map[string]any)) func(o map[string]any) {
		return func(o map[string]any) { change(metaOf(o)) }
	}
	labels := func(pairs ...string) func(o map[string]any) {
		return meta(func(m map[string]any) {
			set := map[string]any{}
			for i := 0; i < len(pairs); i += 2 {
				set[pairs[i]] = pairs[i+1]
			}
			m["labels"] = set
		})
	}
	owner := func(change func(ref map[string]any)) func(o map[string]any) {
		return meta(func(m map[string]any) {
			refs, _ := m["ownerReferences"].([]any)
			ref, _ := refs[0].(map[string]any)
			change(ref)
		})
	}
	const hash = "0123456789abcdef0123456789abcdef"
	mark := func(key, maker string) func(o map[string]any) {
		return meta(func(m map[string]any) {
			m["annotations"] = map[string]any{key: "v2:" + maker + ":0:" + hash + ":data{value}"}
		})
	}
	for name, tc := range map[string]struct {
		reason string
		change func(o map[string]any)
	}{
		"AnotherOperator":    {"its ownership label", labels("roperator.com/operator", "other", sample.TrackingLabel, "u")},
		"OneLabelIsLeft":     {"by name, it may be restored", labels("roperator.com/operator", "op")},
		"TheOtherLabel":      {"nobody knows whose", labels(sample.TrackingLabel, "u")},
		"OtherDomain":        {"another operator's labels", labels("example.com/operator", "other", "example.com/parent-uid", "u")},
		"OtherDomainOurName": {"two operators may have the same name in two Domains", labels("example.com/operator", "op", "example.com/parent-uid", "u")},
		"Mark":               {"another operator's mark", mark("roperator.com/applied", "other")},
		"MarkElsewhere":      {"the mark of our namesake in another Domain", mark("example.com/applied", "op")},
		"AnotherController":  {"another parent's kind", owner(func(ref map[string]any) { ref["kind"] = "Other" })},
		"AnotherGroup":       {"the kind of another group", owner(func(ref map[string]any) { ref["apiVersion"] = "other.com/v1" })},
		"AnotherParent":      {"a parent that isn't there", owner(func(ref map[string]any) { ref["uid"] = "gone" })},
		"NoController":       {"an owner that doesn't control", owner(func(ref map[string]any) { ref["controller"] = false })},
		"Deleted":            {"it is going anyway", meta(func(m map[string]any) { m["finalizers"] = []any{"example.com/f"} })},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, s := rig.Server(), &shower{}
				object := unlabelled("theirs", rig.CreateParent(t, server, "one", "1"))
				tc.change(object)
				before := create(t, server, object)
				if name == "Deleted" {
					require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("theirs")))
					before = server.Get(k8s.ConfigMap, rig.Key("theirs"))
				}
				r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
				rig.Elapse(time.Minute)
				require.Empty(t, s.shown()[0], tc.reason)
				require.Equal(t, before.ResourceVersion(), r.Get(k8s.ConfigMap, "theirs").ResourceVersion(), tc.reason)
				r.Stop()
			})
		})
	}
}

func TestUnlabelled_IsLeftUntilTheHandlerAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		err    error
		keep   bool
	}{
		"Error":        {"an error changes no child", errors.New("not yet"), false},
		"KeepChildren": {"the children stay as they are", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, s := rig.Server(), &shower{}
				s.answer(tc.err, tc.keep)
				create(t, server, unlabelled("old", rig.CreateParent(t, server, "one", "1")))
				r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
				r.SetSpec("one", "2")
				rig.Elapse(time.Minute)
				require.Empty(t, r.Get(k8s.ConfigMap, "old").Labels(), tc.reason)
				require.Greater(t, len(s.shown()), 1)
				for _, shown := range s.shown() {
					require.Equal(t, "old=theirs", shown)
				}
				// Neither a watch that begins anew nor a list of the labelled children loses it.
				server.Compact()
				server.BreakWatches()
				rig.Elapse(time.Minute)
				_, err := server.Change(k8s.ConfigMap, rig.Key("old"), func(o map[string]any) { o["data"] = map[string]any{"value": "edited"} })
				require.NoError(t, err)
				r.SetSpec("one", "3")
				rig.Elapse(time.Second) // by which an edit may wait after a failure
				require.Equal(t, "old=edited", s.shown()[len(s.shown())-1], "as it is now")
				s.answer(nil, false)
				r.SetSpec("one", "4")
				rig.Elapse(time.Minute)
				require.Nil(t, r.Get(k8s.ConfigMap, "old"))
				require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
				r.Stop()
			})
		})
	}
}

// handler.Keep leaves the very object as it is, without labels.
func TestUnlabelled_Kept(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		create(t, server, unlabelled("old", rig.CreateParent(t, server, "one", "1")))
		r := rig.Start(t, server, adopting(), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp := &handler.SyncResponse{}
			for child := range req.Children.All() {
				resp.Children = append(resp.Children, handler.Keep(child))
			}
			return resp, nil
		}))
		r.SetSpec("one", "2")
		rig.Elapse(time.Minute)
		require.Empty(t, server.Writes())
		require.Equal(t, 2, r.Passes())
		r.Stop()
	})
}

// A child that the operator has made, and that has lost its labels while no operator ran, gets them back also if the
// handler keeps it as it is: else nobody would be told of its end.
func TestUnlabelled_KeptAndMade(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			for child := range req.Children.All() {
				return &handler.SyncResponse{Children: []any{handler.Keep(child)}}, nil
			}
			return &handler.SyncResponse{Children: []any{rig.Copied("one", "drawn")}}, nil
		})
		r := rig.Start(t, server, adopting(), h)
		r.Create("one", "v")
		rig.Elapse(time.Minute)
		r.Stop()
		made := r.Get(k8s.ConfigMap, "one")
		labels := made.Labels()
		require.NotEmpty(t, labels)
		r.Change(k8s.ConfigMap, "one", func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") })
		changes, err := rig.Plan(server, adopting(), h)
		require.NoError(t, err)
		require.Len(t, changes, 1)
		require.Equal(t, "update", changes[0].Verb)
		for _, f := range changes[0].Fields {
			require.Equal(t, "metadata.labels", f.Path)
		}

		r = rig.Start(t, server, adopting(), h)
		rig.Elapse(time.Minute)
		again := r.Get(k8s.ConfigMap, "one")
		require.Equal(t, labels, again.Labels())
		require.Equal(t, made.UID(), again.UID())
		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("one")))
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"), "its end was told of")
		writes := len(server.Writes())
		rig.Elapse(time.Hour)
		require.Len(t, server.Writes(), writes)
		r.Stop()
	})
}

// A child that is taken back under its name was adopted, not created: log and Event say so.
func TestUnlabelled_TakenBack(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v")
		rig.Elapse(time.Minute)
		made := r.Get(k8s.ConfigMap, "one")
		r.Change(k8s.ConfigMap, "one", func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") })
		rig.Elapse(time.Minute)
		again := r.Get(k8s.ConfigMap, "one")
		events := fmt.Sprint(recorded(r))
		r.Stop()
		require.Equal(t, made.UID(), again.UID())
		require.Equal(t, made.Labels(), again.Labels())
		require.Equal(t, 1, strings.Count(r.Logs.String(), "create ConfigMap ns/one"), r.Logs.String())
		require.Contains(t, r.Logs.String(), "adopt ConfigMap ns/one")
		require.Contains(t, events, "Adopted")
	})
}

func TestUnlabelled_ListThatFails(t *testing.T) {
	refuse := func(server *fakeapi.Server, times int, answer error) {
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "list" && r.Type == k8s.ConfigMap && times > 0 {
				times--
				return answer
			}
			return nil
		}})
	}
	t.Run("Outage", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server, s := rig.Server(), &shower{}
			create(t, server, unlabelled("one", rig.CreateParent(t, server, "one", "1")))
			refuse(server, 5, errors.New("connection refused"))
			r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
			require.Empty(t, s.shown(), "a handler isn't told of children before it is known which there are")
			rig.Elapse(time.Minute)
			require.Equal(t, "one=theirs", s.shown()[0])
			require.Equal(t, 1, strings.Count(r.Logs.String(), "can't look for children yet"))
			r.Stop()
		})
	})
	t.Run("StoppedMeanwhile", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server := rig.Server()
			refuse(server, 1000, errors.New("connection refused"))
			r := rig.Start(t, server, adopting(), handler.SyncFunc(rig.Copier))
			rig.Elapse(time.Minute)
			r.Stop()
		})
	})
	t.Run("Forbidden", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server := rig.Server()
			refuse(server, 1000, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no")))
			r := rig.Start(t, server, adopting(), handler.SyncFunc(rig.Copier))
			err := <-r.Ended
			require.ErrorContains(t, err, "v1/ConfigMap: list: ")
			require.ErrorContains(t, err, `add the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["get", "list", "watch"]}`)
		})
	})
	t.Run("PagesExpire", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server, s := rig.Server(), &shower{}
			p := rig.CreateParent(t, server, "one", "1")
			for i := range 5 {
				create(t, server, unlabelled(fmt.Sprint("old-", i), p))
			}
			server.LimitPages(2)
			expired := false
			server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Verb == "list" && r.Query.Get("continue") != "" && !expired {
					expired = true
					server.Compact()
				}
				return nil
			}})
			r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
			rig.Elapse(time.Minute)
			require.True(t, expired)
			require.Len(t, strings.Fields(s.shown()[0]), 5)
			require.Len(t, server.List(k8s.ConfigMap), 1)
			r.Stop()
		})
	})
}

// If a read fails, so does the pass: the handler is never shown a part of the children.
func TestUnlabelled_ReadThatFails(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, s := rig.Server(), &shower{}
		create(t, server, unlabelled("one", rig.CreateParent(t, server, "one", "1")))
		times := 3
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "get" && r.Type == k8s.ConfigMap && times > 0 {
				times--
				return apierrors.NewInternalError(errors.New("not now"))
			}
			return nil
		}})
		r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
		rig.Elapse(time.Minute)
		require.Equal(t, "one=theirs", s.shown()[0])
		require.Len(t, r.Errors("one"), 3)
		require.ErrorContains(t, r.Errors("one")[0], "ConfigMap ns/one: read: ")
		require.Len(t, r.Get(k8s.ConfigMap, "one").Labels(), 2)
		r.Stop()
	})
}

func TestUnlabelled_NoListWithoutAdopt(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := adopting()
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace})
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		r.Stop()
		require.Equal(t, 1, listsOf(server, k8s.ConfigMap))
		require.Zero(t, listsOf(server, k8s.Secret))
	})
}

func TestUnlabelled_Offered(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, s := rig.Server(), &shower{}
		p := rig.CreateParent(t, server, "one", "1")
		create(t, server, unlabelled("unasked", p))
		offered := unlabelled("one", p)
		metaOf(offered)["annotations"] = map[string]any{"roperator.com/adopt": "op"}
		create(t, server, offered)
		cfg := rig.Config()
		cfg.Children[0].AdoptOffered = true
		r := rig.Start(t, server, cfg, handler.SyncFunc(s.sync))
		require.Equal(t, "one=theirs", s.shown()[0])
		require.Len(t, r.Get(k8s.ConfigMap, "one").Labels(), 2)
		require.Empty(t, r.Get(k8s.ConfigMap, "unasked").Labels())
		r.Stop()
	})
}

func TestUnlabelled_Plan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		p := rig.CreateParent(t, server, "one", "1")
		create(t, server, unlabelled("one", p))
		create(t, server, unlabelled("old", p))
		lines, err := planOf(t, server, adopting(), handler.SyncFunc(rig.Copier))
		require.NoError(t, err)
		require.Equal(t, []string{"one: update ConfigMap one", "one: delete ConfigMap old"}, verbsOnly(lines))
		require.Contains(t, strings.Join(lines, "\n"), `data.value: "theirs" -> "1"`)
		require.Contains(t, strings.Join(lines, "\n"), `metadata.labels`)
		require.Empty(t, server.Writes())
	})
}

// verbsOnly returns the lines of a plan without those of fields.
func verbsOnly(lines []string) []string {
	var out []string
	for _, line := range lines {
		if !strings.HasPrefix(line, " ") {
			out = append(out, line)
		}
	}
	return out
}

// A parent that comes to match the selector later has its unlabelled objects all the
// same, and a cluster-scoped parent has those of every namespace.
func TestUnlabelled_OfOtherParents(t *testing.T) {
	t.Run("SelectedLater", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server, s := rig.Server(), &shower{}
			create(t, server, unlabelled("one", rig.CreateParent(t, server, "one", "1")))
			cfg := adopting()
			cfg.ParentSelector = "mine=yes"
			r := rig.Start(t, server, cfg, handler.SyncFunc(s.sync))
			rig.Elapse(time.Minute)
			require.Empty(t, server.Writes(), "its parent isn't known")
			r.Change(sample.ParentType(), "one", label("yes"))
			require.Equal(t, "one=theirs", s.shown()[0])
			require.Len(t, r.Get(k8s.ConfigMap, "one").Labels(), 2)
			r.Stop()
		})
	})
	t.Run("ClusterScoped", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			kind := fakeapi.Custom(sample.ParentType(), "parents")
			kind.ClusterScoped = true
			server := fakeapi.New(kind, fakeapi.ConfigMaps(), fakeapi.Namespaces())
			p := create(t, server, map[string]any{"apiVersion": "example.com/v1", "kind": "Parent", "metadata": map[string]any{"name": "one"}})
			space := unlabelled("space", p)
			space["kind"] = "Namespace"
			delete(metaOf(space), "namespace")
			delete(space, "data")
			create(t, server, space)
			for _, namespace := range []string{"space", "elsewhere"} {
				cm := unlabelled("cm", p)
				metaOf(cm)["namespace"] = namespace
				create(t, server, cm)
			}
			cfg := config.Operator{Name: "op", Parent: sample.ParentType(), Children: []config.Child{
				{Type: k8s.ConfigMap, Strategy: config.Apply, Adopt: true}, {Type: k8s.Namespace, Strategy: config.Replace, Adopt: true},
			}}
			shown := 0
			r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				shown = max(shown, req.Children.Len())
				cm := rig.Copied("cm", "1")
				metaOf(cm)["namespace"] = "space"
				return &handler.SyncResponse{Children: []any{cm, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "space"}}}}, nil
			}))
			synctest.Wait()
			require.Equal(t, 3, shown)
			left := server.List(k8s.ConfigMap)
			require.Len(t, left, 1, "what isn't desired is deleted")
			value, _ := left[0].Field("data", "value")
			require.Equal(t, "1", value)
			require.Len(t, server.List(k8s.Namespace)[0].Labels(), 2)
			require.NotContains(t, r.Logs.String(), "level=ERROR")
			r.Stop()
		})
	})
}

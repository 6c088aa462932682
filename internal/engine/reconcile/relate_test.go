package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A reader is a handler whose child has what the related objects say, and that notes what it
// is shown.
type reader struct {
	mu     sync.Mutex
	shown  map[string][]string // parent -> for each call, the related objects
	relate func(parent *resource.Resource) ([]handler.Ref, error)
}

func (r *reader) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var texts []string
	for res := range req.Related.All() {
		value, _ := res.Field("data", "value")
		texts = append(texts, fmt.Sprintf("%s=%v", res.Name(), value))
	}
	if r.shown == nil {
		r.shown = map[string][]string{}
	}
	text := strings.Join(texts, " ")
	r.shown[req.Parent.Name()] = append(r.shown[req.Parent.Name()], text)
	return &handler.SyncResponse{Children: []any{rig.Copied(req.Parent.Name(), text)}}, nil
}

func (r *reader) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

func (*reader) Finalizes() bool { return false }

func (r *reader) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	if r.relate == nil {
		return nil, nil
	}
	return r.relate(parent)
}

// seen returns what the handler has been shown of a parent, for each call since the last seen.
func (r *reader) seen(parent string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.shown[parent]
	delete(r.shown, parent)
	return slices.Compact(out)
}

// relating is the configuration of an operator whose parents name a Secret in spec.value.
func relating(change ...func(*config.Related)) config.Operator {
	cfg := rig.Config()
	related := config.Related{Type: k8s.Secret, Fields: []string{"spec.value"}}
	for _, c := range change {
		c(&related)
	}
	cfg.Related = []config.Related{related}
	return cfg
}

func secret(name, value string, labels ...string) map[string]any {
	meta := map[string]any{"name": name, "namespace": "ns"}
	if len(labels) > 0 {
		held := map[string]any{}
		for i := 0; i < len(labels); i += 2 {
			held[labels[i]] = labels[i+1]
		}
		meta["labels"] = held
	}
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": map[string]any{"value": value}}
}

func setData(value string) func(map[string]any) {
	return func(o map[string]any) { o["data"] = map[string]any{"value": value} }
}

// The Secret that a parent names comes after the parent, is edited, and is deleted; then the
// parent names another one.
func TestRelated_LifeOfASecret(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := rig.Server(), &reader{}
		r := rig.Start(t, server, relating(), h)
		r.Create("p", "one")
		rig.Elapse(time.Second)
		require.Equal(t, []string{""}, h.seen("p"))

		create(t, server, secret("one", "1"))
		create(t, server, secret("two", "2"))
		create(t, server, secret("three", "3"))
		rig.Elapse(time.Second)
		require.Equal(t, []string{"one=1"}, h.seen("p"))
		value, _ := r.Get(k8s.ConfigMap, "p").Field("data", "value")
		require.Equal(t, "one=1", value)

		r.Change(k8s.Secret, "one", setData("11"))
		require.Equal(t, []string{"one=11"}, h.seen("p"))
		r.Change(k8s.Secret, "two", setData("22"))
		require.Empty(t, h.seen("p"))

		require.NoError(t, server.Delete(k8s.Secret, rig.Key("one")))
		synctest.Wait()
		require.Equal(t, []string{""}, h.seen("p"))

		r.SetSpec("p", "two")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"two=22"}, h.seen("p"))
		create(t, server, secret("one", "new"))
		rig.Elapse(time.Second)
		require.Empty(t, h.seen("p"), "it refers to it no more")

		require.Equal(t, 1, r.Manager.Engine().Sizes()["related watches"])
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
		rig.Elapse(time.Second)
		for _, name := range []string{"related watches", "related objects", "related queries", "parents that refer"} {
			require.Zero(t, r.Manager.Engine().Sizes()[name], name)
		}
		r.Stop()
		for _, req := range server.Requests() {
			if req.Type == k8s.Secret {
				require.Contains(t, req.Query.Get("fieldSelector"), "metadata.name=", "%s", req)
			}
		}
		require.Empty(t, r.Errors("p"))
	})
}

// An object enters and leaves a selector by a label; the selector changes.
func TestRelated_Selector(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		h := &reader{relate: func(parent *resource.Resource) ([]handler.Ref, error) {
			value, _ := parent.Field("spec", "value")
			return []handler.Ref{{Type: k8s.Secret, Selector: "tier=" + value.(string)}}, nil
		}}
		create(t, server, secret("a", "1", "tier", "gold"))
		create(t, server, secret("b", "2", "tier", "tin"))
		create(t, server, secret("c", "3"))
		r := rig.Start(t, server, relating(func(of *config.Related) { of.Fields = nil }), h)
		r.Create("p", "gold")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"a=1"}, h.seen("p"))
		label := func(name, tier string) {
			r.Change(k8s.Secret, name, func(o map[string]any) { metaOf(o)["labels"] = map[string]any{"tier": tier} })
		}
		label("c", "gold")
		require.Equal(t, []string{"a=1 c=3"}, h.seen("p"))
		label("a", "tin")
		require.Equal(t, []string{"c=3"}, h.seen("p"))
		r.SetSpec("p", "tin")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"a=1 b=2"}, h.seen("p"))
		label("c", "tin")
		require.Equal(t, []string{"a=1 b=2 c=3"}, h.seen("p"))
		r.Stop()
	})
}

// The watch of a related type lags behind. No handler is told that an object isn't there
// which is, neither at the start nor when a reference moves.
func TestRelated_NeverNotThereYet(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := rig.Server(), &reader{}
		create(t, server, secret("one", "1"))
		create(t, server, secret("two", "2"))
		rig.CreateParent(t, server, "p", "one")
		delay := func(req fakeapi.Request) error {
			if req.Type == k8s.Secret {
				<-time.After(5 * time.Second)
			}
			return nil
		}
		server.SetHooks(fakeapi.Hooks{Before: delay})
		r := rig.Start(t, server, relating(), h)
		rig.Elapse(4 * time.Second)
		require.Empty(t, h.seen("p"))
		require.Equal(t, 1, r.Manager.Engine().Activity().Due, "it isn't at rest")
		rig.Elapse(10 * time.Second)
		require.Equal(t, []string{"one=1"}, h.seen("p"))
		require.Zero(t, r.Manager.Engine().Activity().Due)
		r.SetSpec("p", "two")
		rig.Elapse(4 * time.Second)
		require.Empty(t, h.seen("p"))
		rig.Elapse(10 * time.Second)
		require.Equal(t, []string{"two=2"}, h.seen("p"))
		r.Stop()
	})
}

// The answer to the patch of the finalizers has a newer parent, which refers to something
// else. It isn't shown with what the older one referred to.
func TestRelated_ReferenceMovesBeforeTheFinalizerIsThere(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := rig.Server(), &reader{}
		create(t, server, secret("one", "1"))
		create(t, server, secret("two", "2"))
		rig.CreateParent(t, server, "p", "one")
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "patch" && req.Type == sample.ParentType() {
				_, err := server.Change(req.Type, req.Key, func(o map[string]any) { o["spec"] = map[string]any{"value": "two"} })
				return err
			}
			return nil
		}})
		r := rig.Start(t, server, relating(), handler.Funcs{SyncFunc: h.Sync, FinalizeFunc: h.Finalize})
		rig.Elapse(time.Second)
		require.Equal(t, []string{"two=2"}, h.seen("p"))
		r.Stop()
	})
}

// Many names are one watch, of which only what is referred to is held. When they become few
// again, each has its watch.
func TestRelated_Many(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const many = 100
		server, h := rig.Server(), &reader{}
		for i := range 2 * many {
			create(t, server, secret(fmt.Sprint("s", i), fmt.Sprint(i)))
		}
		for i := range many {
			rig.CreateParent(t, server, fmt.Sprint("p", i), fmt.Sprint("s", i))
		}
		r := rig.Start(t, server, relating(), h)
		rig.Elapse(time.Minute)
		for i := range many {
			require.Equal(t, []string{fmt.Sprintf("s%d=%d", i, i)}, h.seen(fmt.Sprint("p", i)))
		}
		sizes := func() (watches, objects int) {
			of := r.Manager.Engine().Sizes()
			return of["related watches"], of["related objects"]
		}
		watches, objects := sizes()
		require.Equal(t, []int{1, many}, []int{watches, objects})

		r.Change(k8s.Secret, "s7", setData("new"))
		require.Equal(t, []string{"s7=new"}, h.seen("p7"))
		r.SetSpec("p7", "s150")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"s150=150"}, h.seen("p7"), "it is looked up")
		r.Change(k8s.Secret, "s150", setData("new"))
		require.Equal(t, []string{"s150=new"}, h.seen("p7"))
		require.NoError(t, server.Delete(k8s.Secret, rig.Key("s150")))
		synctest.Wait()
		require.Equal(t, []string{""}, h.seen("p7"))
		r.Change(k8s.Secret, "s7", setData("newer"))
		r.SetSpec("p8", "s7")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"s7=newer"}, h.seen("p8"))

		for i := range 60 {
			require.NoError(t, server.Delete(sample.ParentType(), rig.Key(fmt.Sprint("p", i))))
		}
		rig.Elapse(time.Minute)
		watches, objects = sizes()
		require.Equal(t, []int{40, 40}, []int{watches, objects})
		r.Change(k8s.Secret, "s70", setData("new"))
		require.Equal(t, []string{"s70=new"}, h.seen("p70"))
		for i := range many {
			require.Empty(t, h.seen(fmt.Sprint("p", i)), "p%d", i)
		}
		r.Stop()
	})
}

// A right to read related objects is missing: the parents that refer to some fail with the
// rule to add, and others go on. Once there is the right, they follow by themselves.
func TestRelated_Forbidden(t *testing.T) {
	const rule = `add the rule {apiGroups: [""], resources: ["secrets"], verbs: ["get", "list", "watch"]}`
	for name, tc := range map[string]struct {
		reason    string
		forbidden []string // verbs
		late      bool     // the API server streams no list, and takes a second to refuse a watch
		shown     []string // before it fails
	}{
		"Everything": {"nothing is known", []string{"get", "list", "watch"}, false, nil},
		"Watch":      {"a list that no watch keeps up to date is as good as none", []string{"watch"}, false, nil},
		"ListFirst":  {"so it is if the list has been shown", []string{"watch"}, true, []string{"one=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, h := rig.Server(), &reader{}
				if tc.late {
					server.RefuseWatchLists()
				}
				create(t, server, secret("one", "1"))
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if req.Type == k8s.Secret && slices.Contains(tc.forbidden, req.Verb) {
						if tc.late && req.Query.Has("sendInitialEvents") {
							return nil
						}
						if tc.late {
							<-time.After(time.Second)
						}
						return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "one", errors.New("no"))
					}
					return nil
				}})
				r := rig.Start(t, server, relating(), h)
				r.Create("p", "one")
				r.Create("other", "")
				rig.Elapse(time.Minute)
				require.Equal(t, []string{""}, h.seen("other"))
				require.Equal(t, tc.shown, h.seen("p"), tc.reason)
				require.ErrorContains(t, r.Errors("p")[0], `related: Secret ns/one: v1/Secret: watch is forbidden`)
				require.ErrorContains(t, r.Errors("p")[0], rule)
				require.Less(t, len(r.Errors("p")), 20, "with backoff")
				require.Zero(t, r.Manager.Engine().Activity().Due, "only a change of the cluster can mend it")
				require.ErrorContains(t, r.Manager.Ready(), "Secret ns/one: ")
				require.ErrorContains(t, r.Manager.Ready(), rule)
				r.Change(k8s.Secret, "one", setData("2"))
				rig.Elapse(time.Minute)
				require.Empty(t, h.seen("p"), tc.reason)

				server.SetHooks(fakeapi.Hooks{})
				rig.Elapse(31 * time.Second) // the longest time between two tries
				require.Equal(t, []string{"one=2"}, h.seen("p"))
				require.NoError(t, r.Manager.Ready())
				r.Stop()
			})
		})
	}
}

// The right to list is missing, where one watch is for all. The parent whose
// reference has to be looked up fails with the rule to add, and readiness names it.
func TestRelated_ForbiddenLookup(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const many = 70
		server, h := rig.Server(), &reader{}
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Type == k8s.Secret && req.Verb == "list" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "new", errors.New("no"))
			}
			return nil
		}})
		create(t, server, secret("new", "1"))
		for i := range many {
			rig.CreateParent(t, server, fmt.Sprint("p", i), fmt.Sprint("s", i))
		}
		r := rig.Start(t, server, relating(), h)
		rig.Elapse(time.Minute)
		require.NoError(t, r.Manager.Ready())
		r.Create("late", "new")
		rig.Elapse(time.Minute)
		require.Empty(t, h.seen("late"))
		for _, err := range []error{r.Errors("late")[0], r.Manager.Ready()} {
			require.ErrorContains(t, err, "Secret ns/new: ")
			require.ErrorContains(t, err, `add the rule {apiGroups: [""], resources: ["secrets"], verbs: ["list"]}`)
		}
		require.Equal(t, []string{""}, h.seen("p0"), "it goes on")
		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(31 * time.Second)
		require.Equal(t, []string{"new=1"}, h.seen("late"))
		require.NoError(t, r.Manager.Ready())
		r.Stop()
	})
}

// What Relate does wrong fails the parent alone, and doesn't end a worker.
func TestRelated_RelateMisbehaves(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		relate func(parent *resource.Resource) ([]handler.Ref, error)
		err    string
	}{
		"Error":  {"it is as one of Sync", func(*resource.Resource) ([]handler.Ref, error) { return nil, errors.New("no idea") }, "handler: Relate: no idea"},
		"Panic":  {"a handler may have a bug", func(*resource.Resource) ([]handler.Ref, error) { panic("no") }, "handler: Relate: panic: no"},
		"Goexit": {"so a failed assertion of a test ends", func(*resource.Resource) ([]handler.Ref, error) { runtime.Goexit(); return nil, nil }, "handler: Relate: ended its goroutine"},
		"Elsewhere": {"who writes a parent must not read there", func(*resource.Resource) ([]handler.Ref, error) {
			return []handler.Ref{{Type: k8s.Secret, Namespace: "kube-system", Name: "x"}}, nil
		}, `related: Relate: v1/Secret: namespace "kube-system" isn't the parent's`},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				h := &reader{relate: func(parent *resource.Resource) ([]handler.Ref, error) {
					if parent.Name() == "bad" {
						return tc.relate(parent)
					}
					return nil, nil
				}}
				r := rig.Start(t, server, relating(), h)
				r.Create("bad", "")
				rig.Elapse(time.Second)
				r.Create("good", "")
				rig.Elapse(time.Second)
				require.Equal(t, []string{""}, h.seen("good"))
				require.Empty(t, h.seen("bad"), tc.reason)
				require.ErrorContains(t, r.Errors("bad")[0], tc.err)
				r.Stop()
			})
		})
	}
}

// References that are refused end those that the parent had before: nothing is watched for it
// any more, and nothing wakes it.
func TestRelated_RefusedAfterAll(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := rig.Server(), &reader{}
		create(t, server, secret("one", "1"))
		r := rig.Start(t, server, relating(), h)
		r.Create("p", "one")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"one=1"}, h.seen("p"))
		r.SetSpec("p", "..")
		rig.Elapse(time.Second)
		require.Len(t, r.Errors("p"), 1)
		r.Change(k8s.Secret, "one", setData("11"))
		rig.Elapse(time.Second)
		require.Len(t, r.Errors("p"), 1, "there was no other pass")
		for _, name := range []string{"related watches", "related objects", "related queries", "parents that refer"} {
			require.Zero(t, r.Manager.Engine().Sizes()[name], name)
		}
		r.SetSpec("p", "one")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"one=11"}, h.seen("p"))
		r.Stop()
	})
}

// A handler refers to something though no type is related: the configuration lacks it.
func TestRelated_NotConfigured(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		h := &reader{relate: func(*resource.Resource) ([]handler.Ref, error) {
			return []handler.Ref{{Type: k8s.Secret, Name: "one"}}, nil
		}}
		r := rig.Start(t, rig.Server(), rig.Config(), h)
		r.Create("p", "")
		rig.Elapse(time.Second)
		require.Empty(t, h.seen("p"))
		require.ErrorContains(t, r.Errors("p")[0], "v1/Secret isn't among config.Operator.Related; add it there")
		r.Stop()
	})
}

// A plan shows the handler what a run would show it, and so does Finalize.
func TestRelated_PlanAndFinalize(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := rig.Server(), &reader{}
		create(t, server, secret("one", "1"))
		rig.CreateParent(t, server, "p", "one")
		rig.CreateParent(t, server, "q", "one")
		lines, err := planOf(t, server, relating(), h)
		require.NoError(t, err)
		require.Equal(t, []string{"p: create ConfigMap p", "q: create ConfigMap q"}, verbsOnly(lines))
		require.Contains(t, strings.Join(lines, "\n"), `"one=1"`)
		gets := 0
		for _, req := range server.Requests() {
			if req.Type == k8s.Secret {
				require.Equal(t, "get", req.Verb)
				gets++
			}
		}
		require.Equal(t, 1, gets, "it is looked up once for all parents")

		var finalized []string
		r := rig.Start(t, server, relating(), &handler.Funcs{SyncFunc: h.Sync, FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			for res := range req.Related.All() {
				finalized = append(finalized, res.Name())
			}
			return &handler.FinalizeResponse{Finalized: true}, nil
		}})
		rig.Elapse(time.Second)
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
		rig.Elapse(time.Second)
		require.Equal(t, []string{"one"}, finalized)
		r.Stop()
	})
}

// A related object changes all the time. That is no conflict loop: the children follow.
func TestRelated_ChangesAllTheTime(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, h := rig.Server(), &reader{}
		create(t, server, secret("one", "0"))
		r := rig.Start(t, server, relating(), h)
		r.Create("p", "one")
		rig.Elapse(time.Second)
		for i := range 30 {
			r.Change(k8s.Secret, "one", setData(fmt.Sprint(i)))
			rig.Elapse(time.Second)
			value, _ := r.Get(k8s.ConfigMap, "p").Field("data", "value")
			require.Equal(t, fmt.Sprint("one=", i), value)
		}
		require.NotContains(t, r.Logs.String(), "conflict loop")
		r.Stop()
	})
}

// TestRelated_Family: a parent refers to ConfigMaps, by a label that its own children have as well, and to its own kind. Its
// family is among the related objects as the handler is shown it otherwise, whatever the other watches have told, and own
// writes trigger nothing more than without references, but for deletes. (S1, S61, S67, S313)
func TestRelated_Family(t *testing.T) {
	labelled := func(name, value string) map[string]any {
		cm := rig.Copied(name, value)
		metaOf(cm)["labels"] = map[string]any{"src": "yes"}
		return cm
	}
	run := func(t *testing.T, start rig.Starter, related bool) (calls int) {
		t.Helper()
		server, count := rig.Server(), &callLog{}
		cfg := rig.Config()
		h := handler.Funcs{SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			count.note()
			value, _ := req.Parent.Field("spec", "value")
			resp := &handler.SyncResponse{Children: []any{labelled("a", fmt.Sprint(value)), rig.Copied("plain", "v")}}
			have := func(name string) bool { _, ok := req.Children.OfType(k8s.ConfigMap).Get("ns", name); return ok }
			if related {
				maps := req.Related.OfType(k8s.ConfigMap)
				have = func(name string) bool { _, ok := maps.Get("ns", name); return ok }
				for child := range req.Children.All() {
					if want, _ := child.Label("src"); want == "yes" {
						got, ok := maps.Get("ns", child.Name())
						require.True(t, ok, child.Name())
						require.Same(t, child, got)
					}
				}
				self, ok := req.Related.OfType(sample.ParentType()).Get("ns", "one")
				require.True(t, ok)
				require.Same(t, req.Parent, self)
			}
			if have("a") {
				resp.Children = append(resp.Children, labelled("b", "v"))
			}
			if have("b") && value != "v2" {
				resp.Children = append(resp.Children, labelled("c", "v"))
			}
			resp.Status = map[string]any{"value": value, "b": have("b"), "c": have("c")}
			return resp, nil
		}}
		if related {
			cfg.Related = []config.Related{{Type: sample.ParentType()}, {Type: k8s.ConfigMap}}
			h.RelateFunc = func(*resource.Resource) ([]handler.Ref, error) {
				return []handler.Ref{{Type: sample.ParentType()}, {Type: k8s.ConfigMap, Selector: "src=yes"}}, nil
			}
		}
		r := start(server, cfg, h)
		r.Create("one", "v1")
		rig.Elapse(10 * time.Second)
		require.Len(t, server.List(k8s.ConfigMap), 4)
		r.SetSpec("one", "v2") // c goes
		rig.Elapse(10 * time.Second)
		require.Len(t, server.List(k8s.ConfigMap), 3)
		status, _ := r.Get(sample.ParentType(), "one").Field("status")
		require.Equal(t, map[string]any{"value": "v2", "b": true, "c": false, "observedGeneration": int64(2)}, status)
		r.Change(k8s.ConfigMap, "b", func(o map[string]any) { o["data"] = map[string]any{"value": "edited"} })
		rig.Elapse(10 * time.Second)
		value, _ := r.Get(k8s.ConfigMap, "b").Field("data", "value")
		require.Equal(t, "v", value)
		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("a")))
		rig.Elapse(10 * time.Second)
		require.Len(t, server.List(k8s.ConfigMap), 3)
		r.Stop()
		return count.len()
	}
	rig.Orders(t, func(t *testing.T, start rig.Starter) {
		alone := run(t, start, false)
		both := run(t, start, true)
		require.LessOrEqual(t, both, alone+2, "one more for each child that has ended")
	})
}

// TestRelated_NoFamily: what only looks like a child is shown and triggers as any related object: one in another namespace than
// its parent's, and one of a type whose own list is forbidden. (S313, S315)
func TestRelated_NoFamily(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Related = []config.Related{{Type: k8s.ConfigMap, AnyNamespace: true}}
		var shown []string
		r := rig.Start(t, server, cfg, handler.Funcs{
			RelateFunc: func(*resource.Resource) ([]handler.Ref, error) {
				return []handler.Ref{{Type: k8s.ConfigMap, Namespace: "other", Name: "x"}}, nil
			},
			SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				shown = nil
				for res := range req.Related.All() {
					v, _ := res.Field("data", "value")
					shown = append(shown, fmt.Sprint(v))
				}
				return wants(rig.Copied("a", "v")), nil
			},
		})
		r.Create("p", "1")
		rig.Elapse(time.Second)
		like := metaOf(r.Get(k8s.ConfigMap, "a").Unstructured().Object)
		key := types.NamespacedName{Namespace: "other", Name: "x"}
		_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
			"namespace": key.Namespace, "name": key.Name, "finalizers": []any{"example.com/hold"},
		}})
		require.NoError(t, err)
		for _, value := range []string{"1", "2"} {
			_, err = server.Change(k8s.ConfigMap, key, func(o map[string]any) {
				metaOf(o)["labels"], metaOf(o)["ownerReferences"], o["data"] = like["labels"], like["ownerReferences"], map[string]any{"value": value}
			})
			require.NoError(t, err)
			rig.Elapse(10 * time.Second)
			require.Equal(t, []string{value}, shown)
		}
		r.Stop()
	})
	rig.Bubble(t, func(t *testing.T) {
		server, h := serverOfWidgets(true), &maker{}
		cfg := optionalWidgets(true)
		cfg.Related = []config.Related{{Type: widgetType(), Fields: []string{"spec.value"}, Optional: true}}
		r := rig.Start(t, server, cfg, h)
		r.Create("a", "a")
		rig.Elapse(time.Second)
		r.Stop()
		server.Hide(widgetType(), true)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == widgetType() && r.Query.Get("labelSelector") != "" {
				return apierrors.NewForbidden(schema.GroupResource{Group: "widgets.example.com", Resource: "widgets"}, "", nil)
			}
			return nil
		}})
		r = rig.Start(t, server, cfg, h)
		rig.Elapse(time.Second)
		server.Hide(widgetType(), false)
		rig.Elapse(30 * time.Second)
		h.seen()
		r.Change(widgetType(), "a", func(o map[string]any) { o["spec"] = map[string]any{"value": "other"} })
		rig.Elapse(30 * time.Second)
		require.Equal(t, []string{"a: 0 widgets, 1 related"}, h.seen())
		r.Stop()
	})
}

package reconcile_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// outlives waits for the end of the parent "one", and says whether its ConfigMap is there after the garbage collector has come.
func outlives(t *testing.T, r *rig.Rig) bool {
	t.Helper()
	rig.Elapse(2 * time.Minute)
	require.Nil(t, r.Get(sample.ParentType(), "one"), "it is let go")
	r.Server.CollectGarbage()
	rig.Elapse(time.Second)
	return r.Get(k8s.ConfigMap, "one") != nil
}

// ownedByOne returns owner references by which the parent "one" controls an object.
func ownedByOne(uid string) []any {
	return []any{map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "name": "one", "uid": uid, "controller": true}}
}

// TestRetainUnseen: a child that is to be retained survives its parent also if no watch has told of it.
func TestRetainUnseen(t *testing.T) {
	pause := func(r *rig.Rig) {
		r.Change(sample.ParentType(), "one", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"roperator.com/paused": "true"} })
		rig.Elapse(time.Minute)
	}
	relabel := func(label, value string) func(t *testing.T, r *rig.Rig) {
		return func(_ *testing.T, r *rig.Rig) {
			r.Create("one", "v")
			rig.Elapse(time.Minute)
			pause(r)
			r.Change(k8s.ConfigMap, "one", func(o map[string]any) { metaOf(o)["labels"].(map[string]any)[label] = value })
			rig.Elapse(time.Minute)
		}
	}
	for name, before := range map[string]func(t *testing.T, r *rig.Rig){ // the parent is deleted
		"the answer to its creation was lost": func(_ *testing.T, r *rig.Rig) {
			var lost atomic.Bool
			r.Server.SetHooks(fakeapi.Hooks{After: func(req fakeapi.Request) error {
				if req.Verb == "create" && req.Type == k8s.ConfigMap && !lost.Swap(true) {
					return errors.New("connection reset")
				}
				return nil
			}})
			r.Server.Hold(k8s.ConfigMap)
			r.Create("one", "v")
			rig.Elapse(50 * time.Millisecond)
		},
		"its labels were taken off, and put back": func(_ *testing.T, r *rig.Rig) {
			r.Create("one", "v")
			rig.Elapse(time.Minute)
			pause(r)
			var labels any
			r.Change(k8s.ConfigMap, "one", func(o map[string]any) { labels = metaOf(o)["labels"]; delete(metaOf(o), "labels") })
			rig.Elapse(time.Second)
			r.Server.Hold(k8s.ConfigMap)
			r.Change(k8s.ConfigMap, "one", func(o map[string]any) { metaOf(o)["labels"] = labels })
		},
		"its tracking label was changed":  relabel("roperator.com/parent-uid", "another"),
		"its ownership label was changed": relabel("roperator.com/operator", "another"),
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.Children[0].Retain = true
				r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(rig.Copier))
				before(t, r)
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(500 * time.Millisecond)
				r.Server.Release()
				require.True(t, outlives(t, r), "it is retained")
				r.Stop()
			})
		})
	}
}

// TestRetainUnseen_Others: what isn't the operator's goes with the parent, whoever has made it.
func TestRetainUnseen_Others(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		cfg := rig.Config()
		cfg.Children[0].Retain = true
		r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(rig.Copier))
		uid := string(r.Create("one", "v").UID())
		rig.Elapse(time.Minute)
		for name, mark := range map[string]any{"unmarked": nil, "another": r.Get(k8s.ConfigMap, "one").Annotations()["roperator.com/applied"]} {
			other := rig.Copied(name, "v")
			meta := metaOf(other)
			meta["namespace"] = "ns"
			meta["ownerReferences"] = ownedByOne(uid)
			if mark != nil { // as an operator with another name makes it
				meta["annotations"] = map[string]any{"roperator.com/applied": "v2:other" + fmt.Sprint(mark)[len("v2:op"):]}
			}
			create(t, r.Server, other)
		}
		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
		require.True(t, outlives(t, r))
		require.Nil(t, r.Get(k8s.ConfigMap, "unmarked"))
		require.Nil(t, r.Get(k8s.ConfigMap, "another"))
		r.Stop()
	})
}

// TestRetainUnseen_Unserved: while the API server doesn't tell of an optional type, nobody knows what there is of it, so the
// parent waits.
func TestRetainUnseen_Unserved(t *testing.T) {
	for name, hide := range map[string]func(s *fakeapi.Server, hidden bool){
		"not told of": func(s *fakeapi.Server, hidden bool) { s.Hide(widgetType(), hidden) },
		"not told of, nor answered": func(s *fakeapi.Server, hidden bool) {
			s.Hide(widgetType(), hidden)
			s.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if hidden && r.Type == widgetType() {
					return errors.New("connection refused")
				}
				return nil
			}})
		},
	} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", while it runs: ", running), func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					s, cfg := serverOfWidgets(true), optionalWidgets(true)
					for i := range cfg.Children {
						cfg.Children[i].Retain = true
					}
					r := rig.Start(t, s, cfg, &maker{})
					r.Create("one", "v")
					rig.Elapse(time.Minute)
					require.NotNil(t, r.Get(widgetType(), "one"))
					if !running {
						r.Stop()
					}
					hide(s, true)
					if !running {
						r = rig.Start(t, s, cfg, &maker{})
					}
					s.BreakWatches()
					rig.Elapse(10 * time.Minute)
					require.NoError(t, s.Delete(sample.ParentType(), rig.Key("one")))
					rig.Elapse(10 * time.Minute)
					require.NotNil(t, r.Get(sample.ParentType(), "one"), "it waits")
					require.NotEmpty(t, r.Errors("one"))
					hide(s, false)
					rig.Elapse(10 * time.Minute)
					require.Nil(t, r.Get(sample.ParentType(), "one"), "it is let go")
					s.CollectGarbage()
					rig.Elapse(time.Second)
					require.NotNil(t, r.Get(widgetType(), "one"), "it is retained")
					r.Stop()
				})
			})
		}
	}
}

// TestRetainUnseen_NothingThere: a parent doesn't wait for a type that isn't served if it has no child of it.
func TestRetainUnseen_NothingThere(t *testing.T) {
	for name, hidden := range map[string]bool{"it has never been served": false, "what there is has somebody else made": true} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				s, cfg := serverOfWidgets(hidden), optionalWidgets(true)
				for i := range cfg.Children {
					cfg.Children[i].Retain = true
				}
				s.Hide(widgetType(), hidden)
				r := rig.Start(t, s, cfg, handler.SyncFunc(rig.Copier))
				uid := string(r.Create("one", "v").UID())
				if hidden {
					other := widget("other", "v")
					other["metadata"] = map[string]any{"name": "other", "namespace": "ns", "ownerReferences": ownedByOne(uid)}
					create(t, s, other)
				}
				rig.Elapse(time.Minute)
				require.NoError(t, s.Delete(sample.ParentType(), rig.Key("one")))
				require.True(t, outlives(t, r))
				r.Stop()
			})
		})
	}
}

// TestRetainUnseen_Lists: parents that are deleted at once share the lists in which their children are looked for.
func TestRetainUnseen_Lists(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const parents = 40
		cfg := rig.Config()
		cfg.Children[0].Retain = true
		cfg.MaxConcurrentSyncs = parents
		r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(rig.Copier))
		for i := range parents {
			r.Create(fmt.Sprint("p", i), "v")
		}
		rig.Elapse(time.Minute)
		r.Server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "list" {
				<-time.After(time.Second)
			}
			return nil
		}})
		before := listsOf(r.Server, k8s.ConfigMap)
		for i := range parents {
			require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key(fmt.Sprint("p", i))))
		}
		rig.Elapse(time.Hour)
		require.Empty(t, r.Server.List(sample.ParentType()))
		require.LessOrEqual(t, listsOf(r.Server, k8s.ConfigMap)-before, 3)
		r.Server.CollectGarbage()
		rig.Elapse(time.Second)
		require.Len(t, r.Server.List(k8s.ConfigMap), parents)
		r.Stop()
	})
}

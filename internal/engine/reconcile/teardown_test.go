package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
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

// three is a handler that wants two ConfigMaps, two Secrets and two Deployments.
func three(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	var children []any
	for _, suffix := range []string{"-1", "-2"} {
		name := req.Parent.Name() + suffix
		secret := rig.Copied(name, "eA==")
		secret["kind"] = "Secret"
		children = append(children, rig.Copied(name, "x"), secret, deployment(name, "x"))
	}
	return &handler.SyncResponse{Children: children}, nil
}

func threeTypes(teardown config.TeardownPolicy) config.Operator {
	cfg := rig.Config()
	cfg.Teardown = teardown
	cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace}, config.Child{Type: k8s.Deployment, Strategy: config.Replace})
	return cfg
}

// deletedKinds returns the kinds of what was deleted, in order, each once while it is the same.
func deletedKinds(server *fakeapi.Server) (kinds []string) {
	for _, w := range server.Writes() {
		if rest, ok := strings.CutPrefix(w, "delete "); ok {
			kind, _, _ := strings.Cut(rest, " ")
			kinds = append(kinds, kind)
		}
	}
	return slices.Compact(kinds)
}

// The children go type by type, from the last to the first, and then the parent.
func TestTeardown_Ordered(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, threeTypes(config.TeardownOrdered), handler.SyncFunc(three))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		require.Contains(t, r.Get(sample.ParentType(), "a").Finalizers(), "roperator.com/op")
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(sample.ParentType(), "a"))
		require.Equal(t, []string{"Deployment", "Secret", "ConfigMap"}, deletedKinds(server))
		require.Empty(t, server.List(k8s.ConfigMap))
		require.Empty(t, r.Errors("a"))
		r.Stop()
	})
}

// A child that finalizers hold holds up the parent alone, over a restart, too.
func TestTeardown_ForeignFinalizer(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, threeTypes(config.TeardownOrdered), handler.SyncFunc(three))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		r.Change(k8s.Secret, "a-1", func(object map[string]any) {
			object["metadata"].(map[string]any)["finalizers"] = []any{"example.com/hold"}
		})
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
		rig.Elapse(time.Minute)
		require.Empty(t, server.List(k8s.ConfigMap), "the types before go on")
		require.Len(t, server.List(k8s.Secret), 1)
		require.NotNil(t, r.Get(sample.ParentType(), "a"))
		require.Equal(t, []string{"waiting for the end of Secret a-1, which the finalizers example.com/hold hold"}, r.Manager.Engine().Waits(rig.Key("a")))
		r.Stop()
		r = rig.Start(t, server, threeTypes(config.TeardownOrdered), handler.SyncFunc(three))
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(sample.ParentType(), "a"))
		r.Change(k8s.Secret, "a-1", func(object map[string]any) { delete(object["metadata"].(map[string]any), "finalizers") })
		rig.Elapse(time.Second)
		require.Nil(t, r.Get(sample.ParentType(), "a"))
		r.Stop()
	})
}

// Retained children are nobody's when their parent is gone, and the next one of that name may
// adopt them.
func TestTeardown_Retain(t *testing.T) {
	for _, teardown := range []config.TeardownPolicy{config.TeardownGC, config.TeardownOrdered} {
		t.Run(string(teardown), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := serverOfDeployments()
				cfg := threeTypes(teardown)
				cfg.Children[1].Retain, cfg.Children[1].Adopt = true, true
				r := rig.Start(t, server, cfg, handler.SyncFunc(three))
				r.Create("a", "1")
				rig.Elapse(time.Second)
				before := r.Get(k8s.Secret, "a-1")
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
				rig.Elapse(time.Second)
				require.Nil(t, r.Get(sample.ParentType(), "a"))
				server.CollectGarbage()
				rig.Elapse(time.Second)
				require.Empty(t, server.List(k8s.ConfigMap))
				require.Len(t, server.List(k8s.Secret), 2)
				kept := r.Get(k8s.Secret, "a-1")
				require.Equal(t, before.UID(), kept.UID())
				require.Empty(t, kept.Labels())
				require.Empty(t, kept.OwnerReferences())
				r.Create("a", "1")
				rig.Elapse(time.Minute)
				require.Empty(t, r.Errors("a"))
				require.Equal(t, before.UID(), r.Get(k8s.Secret, "a-1").UID())
				require.NotEmpty(t, r.Get(k8s.Secret, "a-1").OwnerReferences())
				r.Stop()
			})
		})
	}
}

// Finalize says which children shall exist meanwhile, and is called again as the others go.
func TestTeardown_ChildrenOfFinalize(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		var shown []int
		h := handler.Funcs{SyncFunc: three, FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			shown = append(shown, req.Children.Len())
			kept := []any{}
			for child := range req.Children.OfType(k8s.Secret).All() {
				kept = append(kept, child)
			}
			return &handler.FinalizeResponse{Finalized: len(kept) == req.Children.Len(), Children: kept}, nil
		}}
		r := rig.Start(t, server, threeTypes(config.TeardownGC), h)
		r.Create("a", "1")
		rig.Elapse(time.Second)
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
		rig.Elapse(time.Second)
		require.Nil(t, r.Get(sample.ParentType(), "a"))
		require.Equal(t, []int{6, 2}, shown)
		require.Len(t, server.List(k8s.Secret), 2, "they are the garbage collector's")
		require.Empty(t, r.Errors("a"))
		r.Stop()
	})
}

// A parent that is deleted so that its children stay keeps them, whatever the configuration
// says: the garbage collector is about to take its owner references off them.
func TestTeardown_Orphan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, threeTypes(config.TeardownOrdered), handler.Funcs{
			SyncFunc: three,
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return &handler.FinalizeResponse{Finalized: true, Children: []any{}}, nil
			},
		})
		r.Create("a", "1")
		rig.Elapse(time.Second)
		r.Change(sample.ParentType(), "a", func(object map[string]any) {
			meta := object["metadata"].(map[string]any)
			held, _ := meta["finalizers"].([]any)
			meta["finalizers"] = append(held, "orphan")
		})
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
		rig.Elapse(time.Minute)
		require.Equal(t, []string{"orphan"}, r.Get(sample.ParentType(), "a").Finalizers())
		require.Empty(t, deletedKinds(server))
		r.Stop()
	})
}

// The garbage collector has taken its owner references off the children, and itself off the parent, before the
// operator looks, and the watches of the children are late. Nothing that the operator sees says that the
// children are to stay.
func TestTeardown_OrphanedUnseen(t *testing.T) {
	for name, finalizes := range map[string]bool{"teardown": true, "children of Finalize": false} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := serverOfDeployments()
				r := rig.Start(t, server, threeTypes(config.TeardownOrdered), handler.Funcs{
					SyncFunc: three,
					FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						return &handler.FinalizeResponse{Finalized: finalizes || req.Children.Len() == 0, Children: []any{}}, nil
					},
				})
				r.Create("a", "1")
				rig.Elapse(time.Second)
				types := []resource.Type{k8s.ConfigMap, k8s.Secret, k8s.Deployment}
				server.Hold(append(types, sample.ParentType())...)
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
				for _, of := range types {
					for _, child := range server.List(of) {
						_, err := server.Change(of, child.Key(), func(o map[string]any) { delete(o["metadata"].(map[string]any), "ownerReferences") })
						require.NoError(t, err)
					}
				}
				server.Release(sample.ParentType())
				rig.Elapse(time.Minute)
				server.Release(types...)
				rig.Elapse(time.Minute)
				require.Nil(t, r.Get(sample.ParentType(), "a"))
				for _, of := range types {
					require.Len(t, server.List(of), 2, of.Kind)
				}
				require.Empty(t, r.Errors("a"))
				r.Stop()
			})
		})
	}
}

// The operator ends in the middle of a teardown. The next one goes on where it was.
func TestTeardown_Restart(t *testing.T) {
	for steps := range 8 {
		rig.Bubble(t, func(t *testing.T) {
			server := serverOfDeployments()
			finalized := 0
			h := handler.Funcs{SyncFunc: three, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				finalized++
				return &handler.FinalizeResponse{Finalized: true}, nil
			}}
			r := rig.Start(t, server, threeTypes(config.TeardownOrdered), h)
			r.Create("a", "1")
			rig.Elapse(time.Second)
			var left atomic.Int64
			left.Store(int64(steps))
			server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
				if q.Verb != "delete" || q.Type == sample.ParentType() {
					return nil
				}
				if left.Add(-1) < 0 {
					return errors.New("connection refused")
				}
				return nil
			}})
			require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
			rig.Elapse(time.Second)
			r.Stop()
			server.SetHooks(fakeapi.Hooks{})
			r = rig.Start(t, server, threeTypes(config.TeardownOrdered), h)
			rig.Elapse(time.Minute)
			require.Nil(t, r.Get(sample.ParentType(), "a"))
			kinds := map[string]int{}
			for _, was := range []string{"Deployment", "Secret", "ConfigMap"} {
				kinds[was] = slices.Index(deletedKinds(server), was)
			}
			require.Less(t, kinds["Deployment"], kinds["Secret"])
			require.Less(t, kinds["Secret"], kinds["ConfigMap"])
			require.LessOrEqual(t, finalized, 2, "once for each operator")
			r.Stop()
		})
	}
}

// A delete that fails is repeated with backoff, and holds up the types before.
func TestTeardown_FailingDelete(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, threeTypes(config.TeardownOrdered), handler.SyncFunc(three))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
			if q.Verb == "delete" && q.Type == k8s.Secret {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, q.Key.Name, errors.New("not now"))
			}
			return nil
		}})
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
		rig.Elapse(time.Hour)
		require.Len(t, server.List(k8s.ConfigMap), 2)
		require.NotEmpty(t, r.Errors("a"))
		require.Less(t, len(r.Errors("a")), 40)
		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(11 * time.Minute)
		require.Nil(t, r.Get(sample.ParentType(), "a"))
		r.Stop()
	})
}

// A plan lists everything that will go, says what waits for what, and takes nothing.
func TestTeardown_Plan(t *testing.T) {
	const (
		afterDeployments = "waits for the end of Deployment ns/a-1, Deployment ns/a-2"
		afterSecrets     = "waits for the end of Secret ns/a-1, Secret ns/a-2"
		last             = "update Parent a: waits for the end of its children"
	)
	for name, tc := range map[string]struct {
		retain  bool          // the ConfigMaps are retained
		gone    []string      // the kinds of the children that are gone
		holding resource.Type // a child of this type is being deleted, and the finalizer holds it
		by      string
		want    []string
	}{
		"Ordered": {want: []string{
			"delete Deployment a-1: ", "delete Deployment a-2: ", "delete Secret a-1: " + afterDeployments, "delete Secret a-2: " + afterDeployments,
			"delete ConfigMap a-1: " + afterSecrets, "delete ConfigMap a-2: " + afterSecrets, last,
		}},
		"Retained": {retain: true, want: []string{
			"delete Deployment a-1: ", "delete Deployment a-2: ", "delete Secret a-1: " + afterDeployments, "delete Secret a-2: " + afterDeployments,
			"update ConfigMap a-1: " + afterSecrets, "update ConfigMap a-2: " + afterSecrets, last,
		}},
		"NoSecrets": {gone: []string{"Secret"}, want: []string{
			"delete Deployment a-1: ", "delete Deployment a-2: ", "delete ConfigMap a-1: " + afterDeployments, "delete ConfigMap a-2: " + afterDeployments, last,
		}},
		"Held": {gone: []string{"Secret"}, holding: k8s.Deployment, by: "example.com/hold", want: []string{
			"delete Deployment a-2: ", "delete ConfigMap a-1: waits for the end of Deployment ns/a-2", "delete ConfigMap a-2: waits for the end of Deployment ns/a-2", last,
		}},
		"HeldAndRetained": {retain: true, gone: []string{"Secret"}, holding: k8s.Deployment, by: "example.com/hold", want: []string{
			"delete Deployment a-2: ",
			"update ConfigMap a-1: waits for the end of Deployment ns/a-2, Deployment ns/a-1", "update ConfigMap a-2: waits for the end of Deployment ns/a-2, Deployment ns/a-1", last,
		}},
		"Going": {holding: k8s.Secret, by: "foregroundDeletion", want: []string{
			"delete Deployment a-1: ", "delete Deployment a-2: ", "delete Secret a-2: " + afterDeployments,
			"delete ConfigMap a-1: " + afterSecrets, "delete ConfigMap a-2: " + afterSecrets, last,
		}},
		"HeldLater": {holding: k8s.Secret, by: "example.com/hold", want: []string{
			"delete Deployment a-1: ", "delete Deployment a-2: ", "delete Secret a-2: " + afterDeployments,
			"delete ConfigMap a-1: waits for the end of Secret ns/a-2", "delete ConfigMap a-2: waits for the end of Secret ns/a-2", last,
		}},
		"RetainedAlone": {retain: true, gone: []string{"Secret", "Deployment"}, want: []string{"update ConfigMap a-1: ", "update ConfigMap a-2: ", "update Parent a: "}},
		"Nothing":       {gone: []string{"Secret", "Deployment", "ConfigMap"}, want: []string{"update Parent a: "}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := serverOfDeployments(), threeTypes(config.TeardownOrdered)
				cfg.Children[0].Retain = tc.retain
				r := rig.Start(t, server, cfg, handler.SyncFunc(three))
				r.Create("a", "1")
				rig.Elapse(time.Second)
				r.Stop()
				for _, of := range []resource.Type{k8s.ConfigMap, k8s.Secret, k8s.Deployment} {
					for _, child := range server.List(of) {
						if slices.Contains(tc.gone, of.Kind) {
							require.NoError(t, server.Delete(of, child.Key()))
						}
					}
				}
				if tc.holding.Kind != "" {
					_, err := server.Change(tc.holding, rig.Key("a-1"), func(object map[string]any) {
						object["metadata"].(map[string]any)["finalizers"] = []any{tc.by}
					})
					require.NoError(t, err)
					require.NoError(t, server.Delete(tc.holding, rig.Key("a-1")))
				}
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
				before := len(server.Writes())
				changes, err := rig.Plan(server, cfg, handler.SyncFunc(three))
				require.NoError(t, err)
				var texts, objects []string
				for _, c := range changes {
					require.False(t, c.Unsure)
					texts = append(texts, c.Verb+" "+c.Type.Kind+" "+c.Object.Name+": "+c.Waits)
					objects = append(objects, c.Type.Kind+" "+c.Object.String())
				}
				require.Equal(t, tc.want, texts)
				require.Equal(t, "metadata.finalizers", changes[len(changes)-1].Fields[0].Path)
				require.Len(t, server.Writes(), before, "a plan takes nothing")

				r = rig.Start(t, server, cfg, handler.SyncFunc(three))
				rig.Elapse(time.Minute)
				r.Stop()
				var written []string
				for _, w := range server.Writes()[before:] {
					_, object, _ := strings.Cut(w, " ")
					written = append(written, object)
				}
				if tc.holding.Kind == "" {
					require.ElementsMatch(t, objects, written, "what was planned was done")
				} else {
					require.NotEmpty(t, written)
					require.Subset(t, objects, written, "nothing else was done")
				}
			})
		})
	}
}

// TestTeardown_WithoutRelated: where no Finalize is called, or none any more, nobody is shown what the parent refers
// to. So whatever is wrong with that doesn't keep the parent.
func TestTeardown_WithoutRelated(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(cfg *config.Operator)
		finalizes bool
	}{
		"Ordered":   {change: func(cfg *config.Operator) { cfg.Teardown = config.TeardownOrdered }},
		"Retain":    {change: func(cfg *config.Operator) { cfg.Children[0].Retain = true }},
		"Finalized": {change: func(cfg *config.Operator) { cfg.Teardown = config.TeardownOrdered }, finalizes: true},
	} {
		for how, wrong := range map[string]func(r *rig.Rig, server *fakeapi.Server){
			"Invalid": func(r *rig.Rig, _ *fakeapi.Server) { r.SetSpec("a", "not/a/name") },
			"Fails":   func(r *rig.Rig, _ *fakeapi.Server) { r.SetSpec("a", "fails") },
			"Forbidden": func(r *rig.Rig, server *fakeapi.Server) {
				server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
					if q.Type == k8s.Secret {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
					}
					return nil
				}})
				r.SetSpec("a", "two")
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					server, cfg := rig.Server(), relating()
					tc.change(&cfg)
					relate := func(parent *resource.Resource) ([]handler.Ref, error) {
						value, _ := parent.Field("spec", "value")
						if value == "fails" {
							return nil, errors.New("can't be parsed")
						}
						return nil, nil
					}
					h := handler.Handler(&reader{relate: relate})
					if tc.finalizes {
						h = handler.Funcs{SyncFunc: rig.Copier, RelateFunc: relate, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
							return &handler.FinalizeResponse{Finalized: true}, nil
						}}
					}
					r := rig.Start(t, server, cfg, h)
					r.Create("a", "one")
					rig.Elapse(time.Second)
					if tc.finalizes { // once it is finalized, a child's end is awaited, and only then is the reference wrong
						_, err := server.Change(k8s.ConfigMap, rig.Key("a"), func(o map[string]any) { metaOf(o)["finalizers"] = []any{"theirs.example.com/x"} })
						require.NoError(t, err)
						require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
						rig.Elapse(time.Second)
						require.True(t, r.Get(k8s.ConfigMap, "a").IsDeleting())
					}
					wrong(r, server)
					rig.Elapse(time.Minute)
					if tc.finalizes {
						r.Change(k8s.ConfigMap, "a", func(o map[string]any) { delete(metaOf(o), "finalizers") })
					} else {
						require.NotEmpty(t, r.Errors("a"), "there is something wrong")
						require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
					}
					rig.Elapse(time.Minute)
					require.Nil(t, r.Get(sample.ParentType(), "a"))
					r.Stop()
				})
			})
		}
	}
}

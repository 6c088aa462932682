package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// naming is a Sync that gives a parent the ConfigMap which its spec names; "none": it gets none.
func naming(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	switch name, _ := req.Parent.Field("spec", "value"); name {
	case "none":
		return &handler.SyncResponse{}, nil
	case "fail":
		return nil, errors.New("it fails")
	default:
		return &handler.SyncResponse{Children: []any{rig.Copied(fmt.Sprint(name), "v")}}, nil
	}
}

// set changes what a parent names.
func (f *fleet) set(parent, value string) {
	f.t.Helper()
	_, err := f.server.Change(sample.ParentType(), rig.Key(parent), func(o map[string]any) { o["spec"] = map[string]any{"value": value} })
	require.NoError(f.t, err)
}

// relabel changes labels of a ConfigMap; nil takes one off.
func (f *fleet) relabel(name string, labels map[string]any) {
	f.t.Helper()
	_, err := f.server.Change(k8s.ConfigMap, rig.Key(name), func(o map[string]any) {
		has := o["metadata"].(map[string]any)["labels"].(map[string]any)
		for key, value := range labels {
			if has[key] = value; value == nil {
				delete(has, key)
			}
		}
	})
	require.NoError(f.t, err)
}

// stop ends a replica.
func (f *fleet) stop(r *replica) {
	f.t.Helper()
	r.cancel()
	require.NoError(f.t, <-r.ended)
}

// elapse lets time pass, in which the garbage collector works.
func (f *fleet) elapse(d time.Duration) {
	for ; d > 0; d -= time.Second {
		rig.Elapse(time.Second)
		f.server.CollectGarbage()
	}
}

// apart creates two parents of different shards, and returns their names.
func (f *fleet) apart(first, second string) (a, b string) {
	one := rig.CreateParent(f.t, f.server, "a", first)
	for i := range 100 {
		name := fmt.Sprint("b", i)
		other := rig.CreateParent(f.t, f.server, name, second)
		if shard.Bucket(one.UID())*f.shards/shard.Buckets != shard.Bucket(other.UID())*f.shards/shard.Buckets {
			return "a", name
		}
		require.NoError(f.t, f.server.Delete(sample.ParentType(), rig.Key(name)))
	}
	require.Fail(f.t, "all are of one shard")
	return "", ""
}

// inShards runs a test with an undivided operator, with one shard and with four: what it finds must
// be the same.
func inShards(t *testing.T, test func(t *testing.T, f *fleet)) {
	for _, n := range []int{0, 1, 4} {
		t.Run(strconv.Itoa(n), func(t *testing.T) { rig.Bubble(t, func(t *testing.T) { test(t, newFleet(t, n)) }) })
	}
}

// A child that isn't wanted any more is deleted, although somebody has changed the label of its
// bucket, while the operator ran or while it didn't.
func TestDivided_UnwantedWithAnotherLabel(t *testing.T) {
	for _, label := range []any{nil, "x"} {
		for _, running := range []bool{true, false} {
			t.Run(fmt.Sprint(label, running), func(t *testing.T) {
				inShards(t, func(t *testing.T, f *fleet) {
					rig.CreateParent(t, f.server, "p", "c")
					one := f.start("one", f.shards, handler.SyncFunc(naming))
					f.elapse(20 * time.Second)
					require.NotNil(t, f.server.Get(k8s.ConfigMap, rig.Key("c")))
					if running {
						f.set("p", "fail") // else the child would be made one of the parent's again
						f.elapse(time.Second)
					} else {
						f.stop(one)
					}
					f.relabel("c", map[string]any{bucketLabel: label})
					f.elapse(time.Second)
					f.set("p", "none")
					if !running {
						f.start("two", f.shards, handler.SyncFunc(naming))
					}
					f.elapse(2 * time.Minute)
					require.Nil(t, f.server.Get(k8s.ConfigMap, rig.Key("c")))
				})
			})
		}
	}
}

// A child lacks the label when the operator starts, and can't be given it. Then the children without it can't be listed
// either. The log says so, once for each cause, and counts only children that were labelled.
func TestDivided_LabelsThatCantBeLookedFor(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		f := newFleet(t, 4)
		rig.CreateParent(t, f.server, "p", "c")
		one := f.start("one", f.shards, handler.SyncFunc(naming))
		f.elapse(20 * time.Second)
		f.set("p", "fail") // else the child would be made one of the parent's again
		f.stop(one)
		f.relabel("c", map[string]any{bucketLabel: nil})
		deny := func(lists bool) {
			f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				switch {
				case r.Type != k8s.ConfigMap:
				case r.Verb == "patch":
					return apierrors.NewServiceUnavailable("not now")
				case r.Verb == "list" && lists:
					return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no lists today"))
				}
				return nil
			}})
		}
		deny(false)
		two := f.start("two", f.shards, handler.SyncFunc(naming))
		f.elapse(time.Second / 2)
		deny(true)
		f.elapse(10 * time.Minute)
		said := two.logs.String()
		require.Equal(t, 1, strings.Count(said, "can't look for children without the label"), said)
		require.Contains(t, said, "no lists today")
		require.NotContains(t, said, "labelled children")
		f.server.SetHooks(fakeapi.Hooks{})
		f.elapse(20 * time.Minute)
		require.Equal(t, 1, strings.Count(two.logs.String(), "labelled children"))
		_, has := f.server.Get(k8s.ConfigMap, rig.Key("c")).Label(bucketLabel)
		require.True(t, has)
	})
}

// A child that is retained stays when its parent goes, whatever somebody makes of its label.
func TestDivided_RetainedWithAnotherLabel(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint(running), func(t *testing.T) {
			inShards(t, func(t *testing.T, f *fleet) {
				f.cfg.Children[0].Retain = true
				rig.CreateParent(t, f.server, "p", "c")
				one := f.start("one", f.shards, handler.SyncFunc(naming))
				f.elapse(20 * time.Second)
				if !running {
					f.stop(one)
				}
				f.relabel("c", map[string]any{bucketLabel: "x"})
				require.NoError(t, f.server.Delete(sample.ParentType(), rig.Key("p")))
				if !running {
					f.start("two", f.shards, handler.SyncFunc(naming))
				}
				f.elapse(2 * time.Minute)
				require.Nil(t, f.server.Get(sample.ParentType(), rig.Key("p")))
				child := f.server.Get(k8s.ConfigMap, rig.Key("c"))
				require.NotNil(t, child)
				_, has := child.Label(bucketLabel)
				require.False(t, has, "it is nobody's now")
			})
		})
	}
}

// A teardown in order waits for a child that somebody has taken the label off while it goes.
func TestDivided_TeardownWithAnotherLabel(t *testing.T) {
	inShards(t, func(t *testing.T, f *fleet) {
		f.cfg.Teardown = config.TeardownOrdered
		rig.CreateParent(t, f.server, "p", "c")
		f.start("one", f.shards, handler.SyncFunc(naming))
		f.elapse(20 * time.Second)
		finalizers := func(held ...any) {
			_, err := f.server.Change(k8s.ConfigMap, rig.Key("c"), func(o map[string]any) { o["metadata"].(map[string]any)["finalizers"] = held })
			require.NoError(t, err)
		}
		finalizers("example.com/slow")
		require.NoError(t, f.server.Delete(sample.ParentType(), rig.Key("p")))
		f.elapse(10 * time.Second)
		f.relabel("c", map[string]any{bucketLabel: nil})
		f.elapse(time.Minute)
		require.NotNil(t, f.server.Get(sample.ParentType(), rig.Key("p")), "its child is still there")
		finalizers()
		f.elapse(time.Minute)
		require.Nil(t, f.server.Get(sample.ParentType(), rig.Key("p")))
	})
}

// The label has another bucket of the same shard: it is mended, so that the child is found when there are
// more shards.
func TestDivided_AnotherBucketOfTheShard(t *testing.T) {
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				f := newFleet(t, 4)
				f.cfg.Children[0].Strategy = strategy
				parent := rig.CreateParent(t, f.server, "p", "c")
				f.start("one", 4, handler.SyncFunc(naming))
				f.elapse(20 * time.Second)
				uid := f.server.Get(k8s.ConfigMap, rig.Key("c")).UID()
				bucket := shard.Bucket(parent.UID())
				f.relabel("c", map[string]any{bucketLabel: strconv.Itoa(bucket/16*16 + (bucket+1)%16)})
				f.elapse(time.Minute)
				child := f.server.Get(k8s.ConfigMap, rig.Key("c"))
				has, _ := child.Label(bucketLabel)
				require.Equal(t, strconv.Itoa(bucket), has)
				require.Equal(t, uid, child.UID())
				f.requireSilence()
			})
		})
	}
}

// A name goes from a parent to one of another shard, which no watch tells of.
func TestDivided_NameHandedOver(t *testing.T) {
	for name, free := range map[string]func(f *fleet, a string){
		"unwanted": func(f *fleet, a string) { f.set(a, "none") },
		"deleted":  func(f *fleet, a string) { require.NoError(f.t, f.server.Delete(sample.ParentType(), rig.Key(a))) },
		"slowly": func(f *fleet, a string) {
			finalizers := func(held ...any) {
				_, err := f.server.Change(k8s.ConfigMap, rig.Key("c"), func(o map[string]any) { o["metadata"].(map[string]any)["finalizers"] = held })
				require.NoError(f.t, err)
			}
			finalizers("example.com/slow")
			require.NoError(f.t, f.server.Delete(sample.ParentType(), rig.Key(a)))
			f.elapse(20 * time.Minute)
			finalizers()
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				f := newFleet(t, 4)
				a, b := f.apart("c", "none")
				f.start("one", 4, handler.SyncFunc(naming))
				f.elapse(20 * time.Second)
				f.set(b, "c")
				f.elapse(20 * time.Minute) // after which it would be tried every ten minutes
				free(f, a)
				f.elapse(17 * time.Second)
				child := f.server.Get(k8s.ConfigMap, rig.Key("c"))
				require.NotNil(t, child)
				tracked, _ := child.Label(sample.TrackingLabel)
				require.Equal(t, string(f.server.Get(sample.ParentType(), rig.Key(b)).UID()), tracked)
			})
		})
	}
}

// The child of a living parent, from which somebody has taken the owner reference, isn't adopted by
// a parent of another shard.
func TestDivided_NotAdoptedFromAnotherShard(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		f := newFleet(t, 4)
		f.cfg.Children[0].Adopt = true
		a, b := f.apart("c", "none")
		f.start("one", 4, handler.SyncFunc(naming))
		f.elapse(20 * time.Second)
		_, err := f.server.Change(sample.ParentType(), rig.Key(a), func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": "true"}
		})
		require.NoError(t, err)
		f.elapse(5 * time.Second)
		_, err = f.server.Change(k8s.ConfigMap, rig.Key("c"), func(o map[string]any) { delete(o["metadata"].(map[string]any), "ownerReferences") })
		require.NoError(t, err)
		f.set(b, "c")
		f.elapse(time.Minute)
		tracked, _ := f.server.Get(k8s.ConfigMap, rig.Key("c")).Label(sample.TrackingLabel)
		require.Equal(t, string(f.server.Get(sample.ParentType(), rig.Key(a)).UID()), tracked)

		require.NoError(t, f.server.Delete(sample.ParentType(), rig.Key(a)))
		f.elapse(time.Minute)
		tracked, _ = f.server.Get(k8s.ConfigMap, rig.Key("c")).Label(sample.TrackingLabel)
		require.Equal(t, string(f.server.Get(sample.ParentType(), rig.Key(b)).UID()), tracked, "it is nobody's")
	})
}

// One child can't be labelled for now when parents are divided: the others don't wait for it.
func TestDivided_OneCantBeLabelled(t *testing.T) {
	inShards(t, func(t *testing.T, f *fleet) {
		const parents = 12
		h := handler.SyncFunc(rig.Copier)
		f.create(0, parents, "v1")
		old := f.start("old", 0, h)
		f.elapse(10 * time.Second)
		f.stop(old)
		var mended atomic.Bool
		f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if !mended.Load() && r.Type == k8s.ConfigMap && r.Key.Name == "p003" && r.Writes() {
				return apierrors.NewInternalError(errors.New("failed calling webhook"))
			}
			return f.check(r)
		}})
		f.start("one", f.shards, h)
		f.edit(0, parents, "v2")
		f.elapse(30 * time.Second)
		stale := 0
		for i := range parents {
			value, _ := f.server.Get(k8s.ConfigMap, rig.Key(fmt.Sprintf("p%03d", i))).Field("data", "value")
			if value != "v2" {
				stale++
			}
		}
		require.Equal(t, 1, stale)
		mended.Store(true)
		f.elapse(20 * time.Minute)
		f.requireChildren(parents, "v2", f.shards > 0)
	})
}

// The API server's etcd is restored from a backup that is older than the labels. The process ends (S356), and
// its successor labels them anew.
func TestDivided_Restored(t *testing.T) {
	inShards(t, func(t *testing.T, f *fleet) {
		const parents = 6
		h := handler.SyncFunc(naming)
		for i := range parents {
			rig.CreateParent(t, f.server, fmt.Sprintf("p%03d", i), fmt.Sprintf("p%03d", i))
		}
		old := f.start("old", 0, h)
		f.elapse(10 * time.Second)
		f.stop(old)
		restore := f.server.Backup()
		one := f.start("one", f.shards, h)
		f.elapse(30 * time.Second)
		restore()
		f.elapse(10 * time.Second)
		require.ErrorContains(t, <-one.ended, "etcd was restored")
		f.start("two", f.shards, h)
		f.elapse(time.Minute)
		for i := range parents {
			f.set(fmt.Sprintf("p%03d", i), "none")
		}
		f.elapse(5 * time.Minute)
		require.Empty(t, f.server.List(k8s.ConfigMap))
	})
}

// A child has the bucket of another shard since a time at which nobody ran. It is wanted, so that its
// name leads to it.
func TestDivided_WantedWithABucketOfAnotherShard(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		f := newFleet(t, 4)
		parent := rig.CreateParent(t, f.server, "p", "c")
		one := f.start("one", 4, handler.SyncFunc(naming))
		f.elapse(20 * time.Second)
		uid := f.server.Get(k8s.ConfigMap, rig.Key("c")).UID()
		f.stop(one)
		f.relabel("c", map[string]any{bucketLabel: strconv.Itoa((shard.Bucket(parent.UID()) + 32) % shard.Buckets)})
		f.start("two", 4, handler.SyncFunc(naming))
		f.elapse(time.Minute)
		child := f.server.Get(k8s.ConfigMap, rig.Key("c"))
		has, _ := child.Label(bucketLabel)
		require.Equal(t, strconv.Itoa(shard.Bucket(parent.UID())), has)
		require.Equal(t, uid, child.UID())
		f.requireSilence()
	})
}

// withSecret is naming for a Secret.
func withSecret(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	resp, err := naming(ctx, req)
	if err == nil && len(resp.Children) > 0 {
		name := resp.Children[0].(map[string]any)["metadata"]
		resp.Children = []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": name}}
	}
	return resp, err
}

// A type of children isn't served when a shard is taken, and its children were made before the
// parents were divided. They are found when it is served.
func TestDivided_TypeThatComesLater(t *testing.T) {
	inShards(t, func(t *testing.T, f *fleet) {
		f.cfg.Children = append(f.cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace, Optional: true})
		rig.CreateParent(t, f.server, "p", "c")
		h := handler.SyncFunc(withSecret)
		old := f.start("old", 0, h)
		f.elapse(10 * time.Second)
		require.NotNil(t, f.server.Get(k8s.Secret, rig.Key("c")))
		f.stop(old)
		f.server.Hide(k8s.Secret, true)
		f.start("one", f.shards, h)
		f.elapse(30 * time.Second)
		f.set("p", "none")
		f.elapse(time.Minute)
		f.server.Hide(k8s.Secret, false)
		f.elapse(5 * time.Minute)
		require.Nil(t, f.server.Get(k8s.Secret, rig.Key("c")))
	})
}

// A type of children is gone when a shard is handed over. The other types go on, as they do where it goes
// while the operator runs.
func TestDivided_TypeGoneAtHandover(t *testing.T) {
	inShards(t, func(t *testing.T, f *fleet) {
		f.cfg.Children = append(f.cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace})
		const parents = 12
		h := handler.SyncFunc(rig.Copier)
		f.create(0, parents, "v1")
		one := f.start("one", f.shards, h)
		two := f.start("two", f.shards, h)
		f.elapse(20 * time.Second)
		f.server.Withdraw(k8s.Secret)
		f.elapse(time.Minute)
		f.stop(one)
		f.elapse(30 * time.Second)
		f.edit(0, parents, "v2")
		f.elapse(30 * time.Second)
		f.requireChildren(parents, "v2", f.shards > 0)
		require.ErrorContains(t, two.runner.Ready(), "v1/Secret")
	})
}

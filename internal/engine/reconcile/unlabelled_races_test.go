package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// Before the request by which an object is adopted, something happens.
func TestUnlabelled_RacesWithTheAdoption(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		verb   string // of the request before which change happens, once
		of     resource.Type
		change func(t *testing.T, server *fakeapi.Server, p *resource.Resource)
		check  func(t *testing.T, r *rig.Rig)
	}{
		"Edited": {"the conflict is retried with the newer state", "patch", k8s.ConfigMap, func(t *testing.T, server *fakeapi.Server, _ *resource.Resource) {
			_, err := server.Change(k8s.ConfigMap, rig.Key("one"), func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"a": "b"} })
			require.NoError(t, err)
		}, func(t *testing.T, r *rig.Rig) {
			require.Equal(t, map[string]string{"a": "b"}, withoutMark(r.Get(k8s.ConfigMap, "one").Annotations()))
			require.Len(t, r.Get(k8s.ConfigMap, "one").Labels(), 2)
		}},
		"TakenByAnother": {"another operator was faster", "patch", k8s.ConfigMap, func(t *testing.T, server *fakeapi.Server, _ *resource.Resource) {
			_, err := server.Change(k8s.ConfigMap, rig.Key("one"), func(o map[string]any) {
				metaOf(o)["labels"] = map[string]any{"roperator.com/operator": "other", sample.TrackingLabel: "u"}
			})
			require.NoError(t, err)
		}, func(t *testing.T, r *rig.Rig) {
			require.Equal(t, "other", r.Get(k8s.ConfigMap, "one").Labels()["roperator.com/operator"])
			require.ErrorContains(t, r.Errors("one")[0], "ConfigMap ns/one: already exists and is not managed by op")
		}},
		"TakenByAReplica": {"another process of this operator was faster", "patch", k8s.ConfigMap, func(t *testing.T, server *fakeapi.Server, p *resource.Resource) {
			server.Hold(k8s.ConfigMap) // and the watch lags behind
			_, err := server.Change(k8s.ConfigMap, rig.Key("one"), func(o map[string]any) {
				metaOf(o)["labels"] = map[string]any{"roperator.com/operator": "op", sample.TrackingLabel: string(p.UID())}
			})
			require.NoError(t, err)
		}, func(t *testing.T, r *rig.Rig) {
			value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
			require.Equal(t, "1", value)
			require.Empty(t, r.Errors("one"))
		}},
		"Gone": {"then it is created", "patch", k8s.ConfigMap, func(t *testing.T, server *fakeapi.Server, _ *resource.Resource) {
			require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("one")))
		}, func(t *testing.T, r *rig.Rig) {
			require.Len(t, r.Get(k8s.ConfigMap, "one").Labels(), 2)
			require.Empty(t, r.Errors("one"))
		}},
		"Replaced": {"an object of another UID isn't what was found", "get", k8s.ConfigMap, func(t *testing.T, server *fakeapi.Server, _ *resource.Resource) {
			require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("one")))
			create(t, server, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "one", "namespace": "ns"}, "data": map[string]any{"value": "new"}})
		}, func(t *testing.T, r *rig.Rig) {
			require.Len(t, r.Get(k8s.ConfigMap, "one").Labels(), 2, "though by its name it is adopted then")
			require.Empty(t, r.Errors("one"))
		}},
		"ParentDeleted": {"the parent is read live before", "get", sample.ParentType(), func(t *testing.T, server *fakeapi.Server, _ *resource.Resource) {
			server.Hold(sample.ParentType())
			require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
		}, func(t *testing.T, r *rig.Rig) {
			require.Empty(t, r.Get(k8s.ConfigMap, "one").Labels(), "it is the garbage collector's")
			require.Less(t, len(r.Server.Requests()), 150, "it doesn't ask in a loop")
		}},
		"ParentReplaced": {"a parent of the same name is another one", "get", sample.ParentType(), func(t *testing.T, server *fakeapi.Server, _ *resource.Resource) {
			server.Hold(sample.ParentType())
			require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
			rig.CreateParent(t, server, "one", "2")
		}, func(t *testing.T, r *rig.Rig) {
			require.Empty(t, r.Get(k8s.ConfigMap, "one").Labels())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				p := rig.CreateParent(t, server, "one", "1")
				create(t, server, unlabelled("one", p))
				happened := false
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == tc.verb && r.Type == tc.of && !happened {
						happened = true
						tc.change(t, server, p)
					}
					return nil
				}})
				r := rig.Start(t, server, adopting(), handler.SyncFunc(rig.Copier))
				rig.Elapse(time.Minute)
				require.True(t, happened)
				tc.check(t, r)
				r.Server.Release()
				rig.Elapse(time.Minute)
				require.NotContains(t, r.Logs.String(), "panic")
				require.Zero(t, r.Manager.Engine().Sizes()["unlabelled"], tc.reason)
				r.Stop()
			})
		})
	}
}

// Between the list that finds an unlabelled object and the read before the first call,
// the object becomes one that isn't the parent's to adopt.
func TestUnlabelled_RacesWithTheRead(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(t *testing.T, server *fakeapi.Server, p, other *resource.Resource)
	}{
		"Replaced": {"a program that still makes them is no past one", func(t *testing.T, server *fakeapi.Server, p, _ *resource.Resource) {
			require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("old")))
			create(t, server, unlabelled("old", p))
		}},
		"GivenAway": {"it is the other parent's", func(t *testing.T, server *fakeapi.Server, _, other *resource.Resource) {
			_, err := server.Change(k8s.ConfigMap, rig.Key("old"), func(o map[string]any) {
				metaOf(o)["ownerReferences"] = metaOf(unlabelled("old", other))["ownerReferences"]
			})
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, s := rig.Server(), &shower{}
				p, other := rig.CreateParent(t, server, "one", "1"), rig.CreateParent(t, server, "two", "2")
				create(t, server, unlabelled("old", p))
				happened := false
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == "get" && r.Type == k8s.ConfigMap && !happened {
						happened = true
						tc.change(t, server, p, other)
					}
					return nil
				}})
				r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
				rig.Elapse(time.Minute)
				require.True(t, happened)
				require.NotContains(t, strings.Join(s.shown(), " "), "old", tc.reason)
				require.Empty(t, r.Get(k8s.ConfigMap, "old").Labels(), tc.reason)
				require.Zero(t, r.Manager.Engine().Sizes()["unlabelled"])
				r.Stop()
			})
		})
	}
}

func withoutMark(annotations map[string]string) map[string]string {
	delete(annotations, "roperator.com/applied")
	return annotations
}

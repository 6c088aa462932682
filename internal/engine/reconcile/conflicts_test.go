package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const (
	answered = "example.com/answered" // an annotation that the controller of a loopCase sets
	held     = "example.com/held"     // a finalizer that it takes off
)

// A loopCase is an operator that shares its ConfigMaps with somebody else.
type loopCase struct {
	reason string
	// sync is the handler. It is given the number of its call, and how many
	// ConfigMaps there are.
	sync func(call int, req *handler.SyncRequest) *handler.SyncResponse
	// other is what somebody else does to each ConfigMap every 20 ms. It may be nil.
	other func(r *rig.Rig, child *resource.Resource)
	// strategy is Replace if empty.
	strategy config.UpdateStrategy
	path     string // of the conflict loop; empty: there must be none
	rate     bool   // it is found by the rate of writes: its pace is fixed
}

func TestConflicts(t *testing.T) {
	for name, tc := range map[string]loopCase{
		"Status": {
			reason: "a status that is new at each call",
			sync: func(call int, _ *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: map[string]any{"n": call}}
			},
			path: "status.n",
		},
		"Status with Resync": {
			reason: "a Resync doesn't excuse the passes that the operator's own writes set off",
			sync: func(call int, _ *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: map[string]any{"n": call}, Resync: 2 * time.Second}
			},
			path: "status.n",
		},
		"Clock with Resync": {
			reason: "what is new at each Resync is progress",
			sync: func(int, *handler.SyncRequest) *handler.SyncResponse {
				now := time.Now().String()
				return &handler.SyncResponse{
					Status: map[string]any{"at": now}, Children: []any{rig.Copied("a", now)}, Resync: 2 * time.Second,
				}
			},
		},
		"Clock with Resync and Recreate": {
			reason: "the same, with deletes and creates", strategy: config.Recreate,
			sync: func(int, *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Children: []any{rig.Copied("a", time.Now().String())}, Resync: 2 * time.Second}
			},
		},
		"Clock with Resync and new names": {
			reason: "the same, with deletes and creates",
			sync: func(int, *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Children: []any{rig.Copied(fmt.Sprint("a-", time.Now().Unix()), "v")}, Resync: 2 * time.Second}
			},
		},
		"Child": {
			reason: "a child that is new at each call",
			sync: func(call int, _ *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied("a", fmt.Sprint(call)))
			},
			path: "data.value",
		},
		"Child and Recreate": {
			reason: "the same", strategy: config.Recreate,
			sync: func(call int, _ *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied("a", fmt.Sprint(call)))
			},
			path: "data.value",
		},
		"Names": {
			reason: "a name that is new at each call",
			sync: func(call int, _ *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied(fmt.Sprint("a-", call), "v"))
			},
			path: "metadata.name", rate: true,
		},
		"Ever more": {
			reason: "one child more at each call",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				return wants(append(keeps(req), rig.Copied(fmt.Sprint("a-", call), "v"))...)
			},
			path: "metadata.name",
		},
		"Ten steps": {
			reason: "one child more at each call, until there are ten",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				if req.Children.Len() == 10 {
					return wants(keeps(req)...)
				}
				return wants(append(keeps(req), rig.Copied(fmt.Sprint("a-", call), "v"))...)
			},
		},
		"Answered": {
			reason: "a controller answers each write, which doesn't excuse the next",
			sync: func(call int, _ *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied("a", fmt.Sprint(call)))
			},
			other: answers, path: "data.value",
		},
		"Two children answered": {
			reason: "each child's write is followed by the answer to the other's, too",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied("a", answerOf(req, "a", call)), rig.Copied("b", answerOf(req, "b", call)))
			},
			other: answers, path: "data.value",
		},
		"To and fro": {
			reason: "one child follows the answer of the other",
			sync: func(_ int, req *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied("a", answerOf(req, "b", 0)+"x"), rig.Copied("b", answerOf(req, "a", 0)))
			},
			other: func(r *rig.Rig, child *resource.Resource) {
				if value, _ := child.Field("data", "value"); len(fmt.Sprint(value)) < 1000 {
					answers(r, child)
				}
			},
			path: "data.value", rate: true,
		},
		"Names answered": {
			reason: "a name that is new at each call, behind a controller",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				for child := range req.Children.All() {
					if _, ok := child.Annotation(answered); !ok {
						return wants(keeps(req)...)
					}
				}
				return wants(rig.Copied(fmt.Sprint("a-", call), "v"))
			},
			other: answers, path: "metadata.name", rate: true,
		},
		"Names behind a finalizer": {
			reason: "the end of a child that we have deleted is no reason for another",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				for child := range req.Children.All() {
					if child.IsDeleting() {
						return wants()
					}
				}
				if req.Children.Len() > 0 {
					return wants()
				}
				child := rig.Copied(fmt.Sprint("a-", call), "v")
				metaOf(child)["finalizers"] = []any{held}
				return wants(child)
			},
			other: func(r *rig.Rig, child *resource.Resource) {
				if child.IsDeleting() {
					change(r, child, func(o map[string]any) { delete(metaOf(o), "finalizers") })
				}
			},
			path: "metadata.name",
		},
		"Followers": {
			reason: "thirty children that a controller answers one after the other: what follows them is progress",
			sync: func(_ int, req *handler.SyncRequest) *handler.SyncResponse {
				var all []any
				ready := 0
				for i := range 30 {
					child := rig.Copied(fmt.Sprint("a-", i), "v")
					if live, ok := req.Children.Find(child); ok {
						if _, ok := live.Annotation(answered); ok {
							ready++
						}
					}
					all = append(all, child)
				}
				response := wants(append(all, rig.Copied("list", fmt.Sprint(ready)))...)
				response.Status = map[string]any{"ready": ready}
				return response
			},
			other: oneByOne(),
		},
		"Restored": {
			reason: "somebody else wants another value, and Resync doesn't excuse that",
			sync: func(int, *handler.SyncRequest) *handler.SyncResponse {
				response := wants(rig.Copied("a", "mine"))
				response.Resync = time.Second
				return response
			},
			other: func(r *rig.Rig, child *resource.Resource) {
				change(r, child, func(o map[string]any) { o["data"] = map[string]any{"value": "theirs"} })
			},
			path: "data.value",
		},
		"Restored mark": {
			reason: "somebody restores the mark of a desired state that said less",
			sync: func(_ int, req *handler.SyncRequest) *handler.SyncResponse {
				child := rig.Copied("a", "v")
				if live, ok := req.Children.Find(child); ok {
					child["data"], _ = live.Field("data")
				}
				return wants(child)
			},
			other: restoresFirstMark(), path: "roperator.com/applied",
		},
		"Deleted": {
			reason: "somebody deletes the child",
			sync:   func(int, *handler.SyncRequest) *handler.SyncResponse { return wants(rig.Copied("a", "v")) },
			other:  deletes, path: "metadata.name",
		},
		"Deleted, and new each time": {
			reason: "somebody deletes the child, whose next is another",
			sync: func(int, *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied("a", fmt.Sprint(time.Now().Unix())))
			},
			other: deletes, path: "metadata.name",
		},
		"Deleted under new names": {
			reason: "each child takes the place of the one before",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				if req.Children.Len() > 0 {
					return wants(keeps(req)...)
				}
				return wants(rig.Copied(fmt.Sprint("a-", call), "v"))
			},
			other: deletes, path: "metadata.name",
		},
		"Deleted, and created by the next pass": {
			reason: "the pass that finds the child gone says so in the status, and the next one creates another",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				phase, _ := req.Parent.Field("status", "phase")
				switch {
				case req.Children.Len() > 0:
					response := wants(keeps(req)...)
					response.Status = map[string]any{"phase": "Running"}
					return response
				case phase == "Running":
					return &handler.SyncResponse{Status: map[string]any{"phase": "Gone"}}
				}
				return wants(rig.Copied(fmt.Sprint("a-", call), "v"))
			},
			other: deletes, path: "metadata.name",
		},
		"Orphaned under new names": {
			reason: "somebody takes each child away from its parent",
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				if req.Children.Len() > 0 {
					return wants(keeps(req)...)
				}
				return wants(rig.Copied(fmt.Sprint("a-", call), "v"))
			},
			other: func(r *rig.Rig, child *resource.Resource) {
				if len(child.OwnerReferences()) > 0 {
					change(r, child, func(o map[string]any) { delete(metaOf(o), "labels"); delete(metaOf(o), "ownerReferences") })
				}
			},
			path: "metadata.name",
		},
		"Given children": {
			reason: "somebody else gives the parent children that nobody wants, under ever new names",
			sync:   func(int, *handler.SyncRequest) *handler.SyncResponse { return wants(rig.Copied("a", "v")) },
			other: func(r *rig.Rig, child *resource.Resource) {
				if child.Name() != "a" || len(r.Server.List(k8s.ConfigMap)) > 1 {
					return
				}
				o := child.Unstructured().Object
				metaOf(o)["name"] = fmt.Sprint("b-", r.Server.Version())
				delete(metaOf(o), "resourceVersion")
				delete(metaOf(o), "uid")
				if _, err := r.Server.Create(o); err != nil {
					r.T.Error(err)
				}
			},
			path: "metadata.name",
		},
	} {
		t.Run(name, func(t *testing.T) { rig.Bubble(t, func(t *testing.T) { tc.run(t) }) })
	}
}

// run lets a minute pass. A loop must be found at once, and must be slow from
// then on.
func (tc loopCase) run(t *testing.T) {
	t.Helper()
	cfg, calls := rig.Config(), &callLog{}
	if tc.strategy != "" {
		cfg.Children[0].Strategy = tc.strategy
	}
	r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if n := calls.note(); n < 10_000 { // else the bubble's time would stand still
			return tc.sync(n, req), nil
		}
		return &handler.SyncResponse{KeepChildren: true}, nil
	}))
	defer meanwhile(r, tc.other)()
	r.Create("one", "v1")
	const early, late = 10 * time.Second, time.Minute
	rig.Elapse(early)
	before := len(r.Server.Writes())
	if tc.path != "" {
		require.NotEmpty(t, r.Manager.Engine().Loops(), tc.reason)
		require.Contains(t, r.Manager.Engine().Loops()[0].Path, tc.path, tc.reason)
	}
	rig.Elapse(late)
	r.Stop()
	if tc.path == "" {
		require.Empty(t, r.Manager.Engine().Loops(), tc.reason)
		require.NotContains(t, r.Logs.String(), "conflict loop")
	} else {
		most := 40
		if tc.rate {
			most = 2 * int(late/(2*time.Second)) // a pace of two seconds, and two writes each time
		}
		require.LessOrEqual(t, len(r.Server.Writes())-before, most, tc.reason)
		require.GreaterOrEqual(t, strings.Count(r.Logs.String(), "conflict loop"), 1)
	}
	require.Less(t, calls.len(), 10_000, "the operator is busy without end")
}

// meanwhile does something to each ConfigMap every 20 ms, until it is stopped.
func meanwhile(r *rig.Rig, do func(*rig.Rig, *resource.Resource)) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for do != nil {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			for _, child := range r.Server.List(k8s.ConfigMap) {
				do(r, child)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// wants returns a response with these children.
func wants(children ...any) *handler.SyncResponse { return &handler.SyncResponse{Children: children} }

// keeps returns the children as they are.
func keeps(req *handler.SyncRequest) []any {
	var all []any
	for child := range req.Children.All() {
		all = append(all, handler.Keep(child))
	}
	return all
}

// answerOf returns what a controller has last answered to a child's spec, and
// otherwise the number of the call.
func answerOf(req *handler.SyncRequest, name string, call int) string {
	if child, ok := req.Children.Find(rig.Copied(name, "")); ok {
		if answer, ok := child.Annotation(answered); ok {
			return answer
		}
	}
	return fmt.Sprint(call)
}

// answers is a controller that acknowledges what a ConfigMap says.
func answers(r *rig.Rig, child *resource.Resource) {
	value, _ := child.Field("data", "value")
	if said, ok := child.Annotation(answered); !ok || said != fmt.Sprint(value, "!") {
		change(r, child, func(o map[string]any) {
			annotations, _ := metaOf(o)["annotations"].(map[string]any)
			annotations[answered] = fmt.Sprint(value, "!")
		})
	}
}

// oneByOne is a controller that acknowledges one new ConfigMap at a time.
func oneByOne() func(*rig.Rig, *resource.Resource) {
	var last time.Time
	return func(r *rig.Rig, child *resource.Resource) {
		if _, done := child.Annotation(answered); !done && child.Name() != "list" && time.Since(last) > 0 {
			last = time.Now()
			answers(r, child)
		}
	}
}

// restoresFirstMark is a backup that is put back again and again.
func restoresFirstMark() func(*rig.Rig, *resource.Resource) {
	const key = "roperator.com/applied"
	first := ""
	return func(r *rig.Rig, child *resource.Resource) {
		now, _ := child.Annotation(key)
		if first == "" {
			first = now
		}
		change(r, child, func(o map[string]any) {
			metaOf(o)["annotations"] = map[string]any{key: first}
			o["data"] = map[string]any{"value": "v", "more": "m"}
		})
	}
}

func deletes(r *rig.Rig, child *resource.Resource) {
	if err := r.Server.Delete(k8s.ConfigMap, child.Key()); err != nil && !apierrors.IsNotFound(err) {
		r.T.Error(err)
	}
}

func change(r *rig.Rig, child *resource.Resource, do func(map[string]any)) {
	if _, err := r.Server.Change(k8s.ConfigMap, child.Key(), do); err != nil && !apierrors.IsNotFound(err) {
		r.T.Error(err)
	}
}

// An edit of the parent is heard within a second, whatever somebody does to its
// child. The throttle starts anew afterwards, and only if the loop goes on.
func TestConflicts_EditEndsThrottle(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		edit   func(o map[string]any)
	}{
		"Spec":       {"a new generation", func(o map[string]any) { o["spec"] = map[string]any{"value": "v2"} }},
		"Label":      {"labels have no generation", func(o map[string]any) { metaOf(o)["labels"] = map[string]any{"a": "b"} }},
		"Annotation": {"annotations have no generation", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"a": "b"} }},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				calls := &callLog{}
				r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					calls.note()
					return rig.Copier(ctx, req)
				}))
				fights := true
				defer meanwhile(r, func(r *rig.Rig, child *resource.Resource) {
					if value, _ := child.Field("data", "value"); fights && value != "theirs" {
						change(r, child, func(o map[string]any) { o["data"] = map[string]any{"value": "theirs"} })
					}
				})()
				r.Create("one", "v1")
				rig.Elapse(10 * time.Minute)
				require.NotEmpty(t, r.Manager.Engine().Loops())
				before := calls.len()
				rig.Elapse(time.Minute)
				require.LessOrEqual(t, calls.len()-before, 1, "the parent is throttled by now")

				before = calls.len()
				start := time.Now()
				r.Change(sample.ParentType(), "one", tc.edit)
				rig.Elapse(time.Second)
				heard := calls.times(before)
				require.NotEmpty(t, heard, tc.reason)
				require.Less(t, heard[0].Sub(start), time.Second, tc.reason)

				before = calls.len()
				rig.Elapse(15 * time.Second)
				again := calls.len() - before
				require.GreaterOrEqual(t, again, 3, "the throttle starts anew at a second")
				require.LessOrEqual(t, again, 6, "the loop goes on, and is throttled")

				// Once nobody fights any more, an edit is the end of it.
				rig.Elapse(2 * time.Minute)
				fights = false
				wanted, _ := r.Get(sample.ParentType(), "one").Field("spec", "value")
				r.Change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": wanted} })
				r.Change(sample.ParentType(), "one", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"c": "d"} })
				rig.Elapse(time.Second)
				before = calls.len()
				for i := range 3 {
					r.Change(k8s.ConfigMap, "one", func(o map[string]any) { metaOf(o)["annotations"].(map[string]any)["x"] = fmt.Sprint(i) })
					require.Greater(t, calls.len(), before, "no change waits any more")
					before = calls.len()
				}
				r.Stop()
			})
		})
	}
}

// The deletion of a parent ends the throttle, too, and Finalize is called as often as it wants. (S188)
func TestConflicts_DeletionEndsThrottle(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		sync   handler.SyncFunc
		other  func(r *rig.Rig, child *resource.Resource)
	}{
		"Backoff": {"a fight over a child", rig.Copier, deletes},
		"Pace": {
			"too many writes", func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return wants(rig.Copied(fmt.Sprint("c-", rand.Int()), "v")), nil
			},
			func(*rig.Rig, *resource.Resource) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg, finalizes := rig.Config(), &callLog{}
				r := rig.Start(t, rig.Server(), cfg, handler.Funcs{
					SyncFunc: tc.sync,
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						return &handler.FinalizeResponse{Finalized: finalizes.note() == 10, Retry: 100 * time.Millisecond}, nil
					},
				})
				defer meanwhile(r, tc.other)()
				r.Create("one", "v1")
				for len(r.Manager.Engine().Loops()) == 0 { // that the last write belongs to
					rig.Elapse(time.Second)
				}
				start := time.Now()
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(3 * time.Second)
				require.Nil(t, r.Get(sample.ParentType(), "one"), "it is finalized")
				require.Less(t, finalizes.times(0)[0].Sub(start), time.Second, tc.reason)
				require.Less(t, finalizes.times(0)[9].Sub(start), 2*time.Second, tc.reason)
				r.Stop()
			})
		})
	}
}

// Two builds of an operator want something else of a child, and both of them run for three
// minutes, since neither elects. When the old one is gone, the new one wins: see "Two builds
// at once" in docs/guide/upgrading.md.
func TestConflicts_TwoBuilds(t *testing.T) {
	const fought = 3 * time.Minute
	build := func(value string) handler.Handler {
		return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return wants(rig.Copied("one", value)), nil
		})
	}
	for name, tc := range map[string]struct {
		reason  string
		backoff time.Duration // MaxErrorBackoff
		then    func(r *rig.Rig) *rig.Rig
		within  time.Duration
	}{
		"Waiting": {"the throttle doubles, so it is about as long as the fight was", 0, nil, 3 * fought / 2},
		"Bounded": {"and no longer than MaxErrorBackoff", 20 * time.Second, nil, 20 * time.Second},
		"Edit": {"an edit of the parent ends it", 0, func(r *rig.Rig) *rig.Rig {
			r.SetSpec("one", "v2")
			return r
		}, time.Second},
		"Restart": {"a new process knows of no fight", 0, func(r *rig.Rig) *rig.Rig {
			r.Stop()
			return rig.Start(r.T, r.Server, rig.Config(), build("new"))
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.MaxErrorBackoff = tc.backoff
				before := rig.Start(t, server, cfg, build("old"))
				before.Create("one", "v1")
				rig.Elapse(time.Second)
				after := rig.Start(t, server, cfg, build("new"))
				value := func() any {
					value, _ := after.Get(k8s.ConfigMap, "one").Field("data", "value")
					return value
				}
				rig.Elapse(fought)
				before.Stop()
				require.NotEmpty(t, after.Manager.Engine().Loops())
				if value() == "new" { // else the old build has written last
					after.Change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": "old"} })
				}
				if tc.then != nil {
					after = tc.then(after)
				}
				rig.Elapse(tc.within)
				require.Equal(t, "new", value(), tc.reason)
				after.Stop()
			})
		})
	}
}

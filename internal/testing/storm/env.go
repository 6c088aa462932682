package storm

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An environment is what a cluster has besides an API server: the garbage collector, and
// the controllers of built-in types, as far as status goes.
type environment struct {
	world *world
	woken chan struct{}

	mu struct {
		sync.Mutex
		touched []object.Ref
	}
}

func (e *environment) start(w *world) {
	e.world, e.woken = w, make(chan struct{}, 1)
	w.server.tell(e.touch)
}

func (e *environment) touch(t resource.Type, key types.NamespacedName) {
	if t == k8s.Lease && key.Name == leaseName || t == fakeapi.Events().Type { // of which there are many
		return
	}
	e.mu.Lock()
	if one := (object.Ref{Type: t, Key: key}); !slices.Contains(e.mu.touched, one) {
		e.mu.touched = append(e.mu.touched, one)
	}
	e.mu.Unlock()
	e.wake()
}

func (e *environment) wake() {
	select {
	case e.woken <- struct{}{}:
	default:
	}
}

// run works until ctx ends.
func (e *environment) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.woken:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(e.world.pace.delay):
		}
		e.mu.Lock()
		all := e.mu.touched
		e.mu.touched = nil
		e.mu.Unlock()
		for _, one := range all {
			e.look(one)
		}
		if len(all) > 0 {
			for _, r := range e.world.server.CollectGarbage() {
				e.world.collected(r)
			}
		}
	}
}

// look does what the controllers of an object do.
func (e *environment) look(one object.Ref) {
	r := e.world.server.Get(one.Type, one.Key)
	if r == nil {
		if one.Type == k8s.Namespace {
			e.empty(one.Key.Name)
		}
		return
	}
	if r.IsDeleting() {
		return
	}
	acts := e.world.scenario.controllers[one.Type]
	if act := builtIn(one.Type); act != nil && len(acts) == 0 && !e.world.managed {
		acts = append(acts, act)
	}
	for _, act := range acts {
		if _, err := e.world.server.Change(one.Type, one.Key, act); apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			e.world.note("a controller's change of %s is refused: %v", named(one.Type, one.Key), err)
		}
	}
}

// empty deletes what was in a namespace that is gone.
func (e *environment) empty(namespace string) {
	for _, k := range e.world.kinds {
		for _, r := range e.world.server.List(k.Type) {
			if r.Namespace() == namespace && !k.ClusterScoped {
				_ = e.world.server.Delete(k.Type, r.Key())
			}
		}
	}
}

// builtIn returns what makes objects of a built-in type ready, nil if nothing does.
func builtIn(t resource.Type) func(o map[string]any) {
	switch t {
	case k8s.Pod:
		return func(o map[string]any) {
			setStatus(o, "phase", "Running")
			setStatus(o, "conditions", []any{condition("Ready")})
		}
	case k8s.Deployment:
		return func(o map[string]any) {
			n := replicas(o)
			workload(o, map[string]any{"replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n, "conditions": []any{
				map[string]any{"type": "Available", "status": "True"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			}})
		}
	case k8s.StatefulSet:
		return func(o map[string]any) {
			n := replicas(o)
			workload(o, map[string]any{
				"replicas": n, "updatedReplicas": n, "currentReplicas": n, "readyReplicas": n, "availableReplicas": n,
				"currentRevision": "one", "updateRevision": "one",
			})
		}
	case k8s.ReplicaSet:
		return func(o map[string]any) {
			n := replicas(o)
			workload(o, map[string]any{"replicas": n, "fullyLabeledReplicas": n, "readyReplicas": n, "availableReplicas": n})
		}
	case k8s.DaemonSet:
		return func(o map[string]any) {
			workload(o, map[string]any{
				"desiredNumberScheduled": int64(1), "currentNumberScheduled": int64(1), "updatedNumberScheduled": int64(1),
				"numberAvailable": int64(1), "numberReady": int64(1), "numberMisscheduled": int64(0),
			})
		}
	case k8s.Job:
		return func(o map[string]any) {
			setStatus(o, "succeeded", int64(1))
			setStatus(o, "conditions", []any{condition("Complete")})
		}
	case k8s.PersistentVolumeClaim:
		return func(o map[string]any) { setStatus(o, "phase", "Bound") }
	case k8s.Namespace:
		return func(o map[string]any) { setStatus(o, "phase", "Active") }
	}
	return nil
}

func condition(t string) any { return map[string]any{"type": t, "status": "True"} }

// workload sets the status of an object whose controller has seen it.
func workload(o, status map[string]any) {
	meta, _ := o["metadata"].(map[string]any)
	status["observedGeneration"] = meta["generation"]
	o["status"] = status
}

func replicas(o map[string]any) int64 {
	spec, _ := o["spec"].(map[string]any)
	if n, ok := spec["replicas"].(int64); ok {
		return n
	}
	return 1
}

func setStatus(o map[string]any, field string, value any) {
	held, _ := o["status"].(map[string]any)
	if held == nil {
		held = map[string]any{}
		o["status"] = held
	}
	held[field] = value
}

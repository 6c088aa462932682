package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// tamperer does something to each ConfigMap of the stage that appears or changes,
// until it is stopped.
func tamperer(t *testing.T, s *stage, do func(context.Context, typedcorev1.ConfigMapInterface, *corev1.ConfigMap)) (stop func()) {
	t.Helper()
	typed, _ := clients(t, "tamperer")
	ctx, cancel := context.WithCancel(t.Context())
	api := typed.CoreV1().ConfigMaps(s.Namespace)
	w, err := api.Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for event := range w.ResultChan() {
			cm, ok := event.Object.(*corev1.ConfigMap)
			if ok && event.Type != watch.Deleted && strings.HasPrefix(cm.Name, "child") && cm.DeletionTimestamp == nil {
				do(ctx, api, cm)
			}
		}
	})
	return func() {
		cancel()
		w.Stop()
		wg.Wait()
	}
}

// remove deletes a ConfigMap.
func remove(ctx context.Context, api typedcorev1.ConfigMapInterface, cm *corev1.ConfigMap) {
	_ = api.Delete(ctx, cm.Name, metav1.DeleteOptions{}) // it may be gone already
}

// orphan takes the operator's labels off a ConfigMap, and the owner reference.
func orphan(ctx context.Context, api typedcorev1.ConfigMapInterface, cm *corev1.ConfigMap) {
	if len(cm.OwnerReferences) > 0 {
		_, _ = api.Patch(ctx, cm.Name, types.MergePatchType, []byte(`{"metadata":{"labels":null,"ownerReferences":null}}`), metav1.PatchOptions{})
	}
}

// loops waits for the Event of a conflict loop that names all of these, and
// requires that the operator's writes of a kind have become rare.
func loops(t *testing.T, s *stage, w *witness, kind string, named ...string) {
	t.Helper()
	eventually(t, "an Event", func() bool {
		return anyContains(s.Events(parent("one", nil)), append([]string{"Warning", "ConflictLoop"}, named...)...)
	})
	require.Contains(t, w.logged(), "conflict loop")
	require.Contains(t, w.metrics(), "roperator_conflict_loops_total")
	slow(t, func() int {
		return len(slices.DeleteFunc(s.Writes(), func(w testkit.Write) bool { return w.Type.Kind != kind }))
	})
}

func TestC133_HotLoopOfCreates(t *testing.T) {
	scenario(t, "C133", "a child that is deleted or orphaned whenever the operator creates it is a conflict loop, under one name or under new ones")
	for name, tc := range map[string]struct {
		tamper func(context.Context, typedcorev1.ConfigMapInterface, *corev1.ConfigMap)
		named  string
		fresh  bool // each child has a new name
	}{
		"deleted":            {remove, "child", false},
		"deleted-new-names":  {remove, "child-", true},
		"orphaned-new-names": {orphan, "child-", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness()
			s := newStageWith(t, unbounded(operator("c133-"+name, configMapChild())), w.options())
			stop := tamperer(t, s, tc.tamper)
			defer stop()
			var n atomic.Int64
			s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
				var children []any
				for child := range req.Children.All() {
					children = append(children, handler.Keep(child))
				}
				switch {
				case !tc.fresh:
					children = []any{configMap("child", "k", "v")}
				case len(children) == 0:
					children = []any{configMap(fmt.Sprint("child-", n.Add(1)), "k", "v")}
				}
				return &handler.SyncResponse{Children: children, Status: map[string]any{"phase": "Fine"}}
			})
			loops(t, s, w, "ConfigMap", "ConfigMap "+s.Namespace+"/"+tc.named)
			stop()
			eventually(t, "the child is there to stay", func() bool { return s.Snapshot(parent("one", nil)).Children.Len() == 1 })
		})
	}
}

func TestC133b_HotLoopOfFinishedJobs(t *testing.T) {
	scenario(t, "C133b", "a Job that is deleted as soon as it has finished is a conflict loop, under one name or under new ones")
	needsControllerManager(t)
	for name, fresh := range map[string]bool{"same": false, "new-names": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness()
			s := newStageWith(t, unbounded(operator("c133-job-"+name, config.Child{Type: k8s.Job, Strategy: config.Replace})), w.options())
			var n atomic.Int64
			s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
				job := finishedJob("job")
				for held := range req.Children.OfType(k8s.Job).All() {
					job.Name = held.Name()
				}
				if fresh && req.Children.Len() == 0 {
					job.Name = fmt.Sprint("job-", n.Add(1))
				}
				return &handler.SyncResponse{Children: []any{job}, Status: map[string]any{"jobs": req.Children.Len()}}
			})
			loops(t, s, w, "Job", "Job "+s.Namespace+"/job")
		})
	}
}

// finishedJob is a Job that has nothing to do, and is deleted once that is done.
func finishedJob(name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Completions: new(int32), Parallelism: new(int32), TTLSecondsAfterFinished: new(int32),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}},
		}},
	}}
}

func TestC133c_HotLoopOfDeletes(t *testing.T) {
	scenario(t, "C133c", "two builds of which one creates what the other deletes: both are told, and throttled")
	keeperWitness, cleanerWitness := newWitness(), newWitness()
	cfg := unbounded(operator("c133-builds", configMapChild()))
	keeper := newStageWith(t, cfg, keeperWitness.options())
	keeper.want(configMap("child", "k", "v"))
	opts := cleanerWitness.options()
	opts.Namespace = keeper.Namespace
	cleaner := testkit.NewWithOptions(t, cluster, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"phase": "Fine"}}, nil
	}), opts)
	for _, w := range []*witness{keeperWitness, cleanerWitness} {
		eventually(t, "both are throttled", func() bool { return strings.Contains(w.logged(), "conflict loop") })
	}
	slow(t, func() int {
		return len(verbs(keeper.Writes(), "ConfigMap", "child")) + len(verbs(cleaner.Writes(), "ConfigMap", "child"))
	})
}

func TestC133d_DeletionsByHandAreNone(t *testing.T) {
	scenario(t, "C133d", "children that are deleted one after the other, or all at once, are no loop")
	w := newWitness()
	s := newStageWith(t, unbounded(operator("c133-drain", configMapChild())), w.options())
	var n atomic.Int64
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse { // ten, under names as a ReplicaSet gives
		var children []any
		for child := range req.Children.All() {
			children = append(children, handler.Keep(child))
		}
		for len(children) < 10 {
			children = append(children, configMap(fmt.Sprint("child-", n.Add(1)), "k", "v"))
		}
		return &handler.SyncResponse{Children: children, Status: map[string]any{"children": len(children)}}
	})
	settle(t, s.Kit)
	for range 3 {
		for child := range s.Snapshot(parent("one", nil)).Children.All() {
			s.Delete(child)
		}
		settle(t, s.Kit)
		require.Equal(t, 10, s.Snapshot(parent("one", nil)).Children.Len())
	}
	require.NotContains(t, w.logged(), "conflict loop")
}

func TestC136_ProgressIsNoLoop(t *testing.T) {
	scenario(t, "C136", "a status and a child that follow something outside by Resync are no loop")
	w := newWitness()
	s := newStageWith(t, unbounded(operator("c136-progress", configMapChild())), w.options())
	var percent atomic.Int64
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		now := percent.Load()
		return &handler.SyncResponse{
			Children: []any{configMap("child", "percent", fmt.Sprint(now))},
			Status:   map[string]any{"percent": now}, Resync: 100 * time.Millisecond,
		}
	})
	for i := range 30 {
		percent.Store(int64(i))
		eventually(t, "the status follows", func() bool {
			shown, _ := s.Get(parent("one", nil)).Field("status", "percent")
			return shown == int64(i)
		})
		syncs := s.Syncs(s.it())
		eventually(t, "a pass by Resync: the one before may be set off by the operator's own write", func() bool { return s.Syncs(s.it()) >= syncs+2 })
	}
	require.False(t, anyContains(s.Events(parent("one", nil)), "ConflictLoop"))
	require.NotContains(t, w.logged(), "conflict loop")
}

func TestC136b_EditEndsThrottle(t *testing.T) {
	scenario(t, "C136b", "an edit of a parent, and its deletion, reach the handler though somebody keeps the parent in a conflict loop")
	for name, edit := range map[string]map[string]any{
		"spec":       {"spec": map[string]any{"v": "new"}},
		"label":      {"metadata": map[string]any{"name": "one", "labels": map[string]any{"v": "new"}}},
		"annotation": {"metadata": map[string]any{"name": "one", "annotations": map[string]any{"v": "new"}}},
		"deletion":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, heard := newWitness(), &atomic.Int64{}
			kit := testkit.NewWithOptions(t, cluster, unbounded(operator("c136-"+name, configMapChild())), handler.Funcs{
				SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					hear(heard, req)
					return &handler.SyncResponse{Children: []any{configMap("child", "k", "mine")}}, nil
				},
				FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
					hear(heard, req)
					return &handler.FinalizeResponse{Finalized: true}, nil
				},
			}, w.options())
			kit.Create(parent("one", nil))
			kit.Eventually(configMap("child", "k", "mine"), patience)
			defer fighter(t, &stage{Kit: kit}, "child", "theirs")()
			patchMeta(t, kit.Namespace, "child", `{"annotations":{"example.com/begin":"yes"}}`)
			eventually(t, "a conflict loop", func() bool { return strings.Contains(w.logged(), "conflict loop") })
			found := kit.Syncs(parent("one", nil))
			eventually(t, "the next pause is 16 seconds at least", func() bool { return kit.Syncs(parent("one", nil)) >= found+4 })
			edited := time.Now()
			if edit == nil {
				kit.Delete(parent("one", nil))
			} else {
				now := parent("one", nil)
				maps.Copy(now, edit)
				kit.Update(now)
			}
			eventually(t, "the handler sees it", func() bool { return heard.Load() != 0 })
			require.Less(t, time.Unix(0, heard.Load()).Sub(edited), 8*time.Second)
		})
	}
}

// hear notes when a handler is first shown a parent that was edited, or is being
// deleted.
func hear(at *atomic.Int64, req *handler.SyncRequest) {
	label, _ := req.Parent.Label("v")
	annotation, _ := req.Parent.Annotation("v")
	spec, _ := req.Parent.Field("spec", "v")
	if label == "new" || annotation == "new" || spec == "new" || req.Parent.IsDeleting() {
		at.CompareAndSwap(0, time.Now().UnixNano())
	}
}

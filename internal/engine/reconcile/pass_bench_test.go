package reconcile

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// settledEngine is an engine without an API server, and the UID of a parent
// whose children are as its handler wants them. Each child has foreign bytes
// besides, which the handler doesn't look at.
func settledEngine(tb testing.TB, children, foreign int) (*Engine, types.UID) {
	tb.Helper()
	desired := make([]any, children)
	for i := range desired {
		cm := &corev1.ConfigMap{Data: map[string]string{"key": "value", "other": strings.Repeat("x", 200)}}
		cm.Name = fmt.Sprintf("child-%03d", i)
		desired[i] = cm
	}
	h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"children": req.Children.Len()}, Children: desired}, nil
	})
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	e := testEngine(tb, s, h)
	parent, err := resource.New(map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"namespace": "ns", "name": "one", "uid": "uid-1", "resourceVersion": "1", "generation": 1},
		"status":   map[string]any{"children": children, "observedGeneration": 1},
	})
	require.NoError(tb, err)
	e.store.Observe(store.Stream{Type: sample.ParentType()}, parent)
	memory := &plan.ParentMemory{}
	wanted, err := plan.Desire(e.Settings, parent, desired, memory)
	require.NoError(tb, err)
	others := map[string]any{}
	for n := range foreign / 20 {
		others[fmt.Sprintf("foreign-%05d", n)] = "x"
	}
	observeWritten(tb, e, parent, wanted, others)
	e.sync(context.Background(), "", schedule.Due{UID: parent.UID(), Trigger: "first"}) // compares
	out := e.sync(context.Background(), "", schedule.Due{UID: parent.UID(), Trigger: "second"})
	require.Equal(tb, schedule.Outcome{}, out, "the parent is settled")
	return e, parent.UID()
}

// observeWritten puts children into the store as they are once written, with
// foreign fields besides.
func observeWritten(tb testing.TB, e *Engine, parent *resource.Resource, children []*plan.Desired, foreign map[string]any) {
	tb.Helper()
	for i, d := range children {
		object, _ := plan.CreateBody(e.Settings, d, parent).(map[string]any)
		meta, _ := object["metadata"].(map[string]any)
		meta["uid"], meta["resourceVersion"] = fmt.Sprintf("child-uid-%d", i), strconv.Itoa(10+i)
		meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
		if foreign != nil {
			object["foreign"] = foreign
		}
		live, err := resource.New(object)
		require.NoError(tb, err)
		e.store.Observe(store.Stream{Type: live.Type()}, live)
	}
}

// TestUnchangedPassDecodesNoChild: what a pass over a settled parent allocates
// doesn't depend on what its children hold, so that nothing of them is decoded.
func TestUnchangedPassDecodesNoChild(t *testing.T) {
	cases := map[string]struct {
		reason string
		before func(e *Engine, parent types.UID)
	}{
		"Resync":  {"The children are known as they are.", func(*Engine, types.UID) {}},
		"Restart": {"Nothing is known, and they are compared.", func(e *Engine, parent types.UID) { e.memory.Forget(parent) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			passAllocs := func(foreign int) float64 {
				e, uid := settledEngine(t, 10, foreign)
				return testing.AllocsPerRun(100, func() {
					tc.before(e, uid)
					e.sync(context.Background(), "", schedule.Due{UID: uid, Trigger: "resync"})
				})
			}
			small, large := passAllocs(0), passAllocs(40_000)
			require.InDelta(t, small, large, 10, "%s A decode would allocate for each of 2,000 fields of 10 children.", tc.reason)
		})
	}
}

// TestUnwantedChildIsForgotten: what is remembered of a child ends with the pass in which
// the handler doesn't want it any more.
func TestUnwantedChildIsForgotten(t *testing.T) {
	e, uid := settledEngine(t, 3, 0)
	remembered := e.memory.Of(uid)
	require.Equal(t, 3, remembered.Children())
	e.handler = handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{}, nil
	})
	e.sync(t.Context(), "", schedule.Due{UID: uid, Trigger: "test"})
	require.Zero(t, remembered.Children())
}

// BenchmarkUnchangedPass is a whole pass over a parent whose children are as
// its handler wants them: snapshot, handler, encoding of its answer, plan,
// status.
func BenchmarkUnchangedPass(b *testing.B) {
	for _, children := range []int{3, 100} {
		b.Run(fmt.Sprintf("children=%d", children), func(b *testing.B) {
			e, uid := settledEngine(b, children, 500)
			b.ReportAllocs()
			for b.Loop() {
				e.sync(context.Background(), "", schedule.Due{UID: uid, Trigger: "resync"})
			}
		})
	}
}

// BenchmarkRestartPass is such a pass if nothing is remembered of the parent.
func BenchmarkRestartPass(b *testing.B) {
	e, uid := settledEngine(b, 3, 500)
	b.ReportAllocs()
	for b.Loop() {
		e.memory.Forget(uid)
		e.sync(context.Background(), "", schedule.Due{UID: uid, Trigger: "restart"})
	}
}

// BenchmarkUnchangedSteps are the steps of a pass over 100 unchanged children.
func BenchmarkUnchangedSteps(b *testing.B) {
	e, uid := settledEngine(b, 100, 500)
	ctx := context.Background()
	req, _ := e.snapshot(uid)
	p := e.newPass(req)
	resp, err := p.callSync(ctx)
	require.NoError(b, err)
	desired, err := plan.Desire(e.Settings, p.parent, resp.Children, p.memory)
	require.NoError(b, err)
	b.Run("snapshot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			req, _ := e.snapshot(uid)
			e.newPass(req)
		}
	})
	b.Run("desire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := plan.Desire(e.Settings, p.parent, resp.Children, p.memory); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			planned := plan.Build(p.Settings, plan.Input{Parent: p.parent, Desired: desired, Children: p.children, Memory: p.memory})
			if len(planned.Settled)+len(planned.Writes)+len(planned.Deletes) > 0 {
				b.Fatal("something is to do")
			}
		}
	})
}

// fill puts n objects of other families into the store: parents with three
// children each.
func fill(tb testing.TB, e *Engine, n int) {
	tb.Helper()
	for i := range n / 4 {
		owner := fmt.Sprintf("other-%d", i)
		e.store.Observe(store.Stream{Type: sample.ParentType()}, sample.Object(tb, sample.ParentType(), owner, owner, 1, ""))
		e.memory.Of(types.UID(owner))
		for c := range 3 {
			name := fmt.Sprintf("%s-%d", owner, c)
			e.store.Observe(store.Stream{Type: k8s.ConfigMap}, sample.Object(tb, k8s.ConfigMap, name, name, 1, owner))
		}
	}
}

// BenchmarkAmongMany is one event of a child, and the pass it leads to, among
// few and many stored objects.
func BenchmarkAmongMany(b *testing.B) {
	for _, stored := range []int{1000, 100_000} {
		e, uid := settledEngine(b, 3, 500)
		fill(b, e, stored)
		req, _ := e.snapshot(uid)
		child, _ := req.Children.OfType(k8s.ConfigMap).First()
		object := child.Unstructured().Object
		meta, _ := object["metadata"].(map[string]any)
		const versions = 1000
		states := make([]*resource.Resource, versions)
		version := 1000
		e.Watchers(nil)
		w := e.Running()[1]
		ctx := context.Background()
		b.Run(fmt.Sprintf("event/stored=%d", stored), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%versions == 0 {
					b.StopTimer()
					for n := range states {
						version++
						meta["resourceVersion"] = strconv.Itoa(version)
						var err error
						states[n], err = resource.New(object)
						require.NoError(b, err)
					}
					b.StartTimer()
				}
				if err := w.Update(&client.WireObject{Resource: states[i%versions]}); err != nil {
					b.Fatal(err)
				}
				d, _ := e.queue.Next(ctx)
				e.queue.Done(d.UID, schedule.Outcome{})
			}
		})
		b.Run(fmt.Sprintf("pass/stored=%d", stored), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.sync(ctx, "", schedule.Due{UID: uid, Trigger: "resync"})
			}
		})
	}
}

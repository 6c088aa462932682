package manager_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// A countUp adds one to the largest number in the statuses of the related objects.
type countUp struct {
	calls   atomic.Int64
	related resource.Type
	other   map[string]string // the name of the related object, by that of the parent
}

func (h *countUp) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	if h.calls.Add(1) > 20_000 { // else the bubble's time would stand still
		return &handler.SyncResponse{KeepChildren: true}, nil
	}
	var largest int64
	for res := range req.Related.All() {
		n, _ := res.Field("status", "n")
		if n, ok := n.(int64); ok {
			largest = max(largest, n)
		}
	}
	return &handler.SyncResponse{Status: map[string]any{"n": largest + 1}}, nil
}

func (h *countUp) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

func (h *countUp) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	return []handler.Ref{{Type: h.related, Namespace: "ns", Name: h.other[parent.Name()]}}, nil
}

// Two parents are in shards of their own, and each writes again and again what follows from
// the other's status. That is a conflict loop as it is in one shard.
func TestDivided_Circle(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		f := newFleet(t, 8)
		f.cfg.Related = []config.Related{{Type: sample.ParentType()}}
		h := &countUp{related: sample.ParentType(), other: map[string]string{"p000": "p001", "p001": "p000"}}
		r := f.start("one", 8, h)
		f.create(0, 2, "v")
		of := map[int]bool{}
		for _, name := range []string{"p000", "p001"} {
			of[shard.Bucket(f.server.Get(sample.ParentType(), rig.Key(name)).UID())*8/shard.Buckets] = true
		}
		require.Len(t, of, 2, "the parents are in two shards")
		rig.Elapse(time.Minute)
		require.Contains(t, r.logs.String(), "conflict loop")
		require.Less(t, h.calls.Load(), int64(5200))
		r.cancel()
		require.NoError(t, <-r.ended)
	})
}

// Two operators of a process write again and again what follows from the status of the
// other's parent.
func TestCircle_TwoOperators(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		other := resource.Type{APIVersion: "example.com/v1", Kind: "Other"}
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Custom(other, "others"), fakeapi.ConfigMaps())
		one, two := rig.Config(), rig.Config()
		one.Related = []config.Related{{Type: other}}
		two.Name, two.Parent, two.Related = "two", other, []config.Related{{Type: sample.ParentType()}}
		logs := &rig.Logs{}
		ones, twos := &countUp{related: other, other: map[string]string{"a": "b"}}, &countUp{related: sample.ParentType(), other: map[string]string{"b": "a"}}
		m, err := manager.New(manager.Options{RESTConfig: server.RESTConfig(), Logger: slog.New(slog.NewTextHandler(logs, nil))},
			manager.Spec{Config: one, Handler: ones}, manager.Spec{Config: two, Handler: twos})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()
		t.Cleanup(cancel)
		synctest.Wait()
		rig.CreateParent(t, server, "a", "v")
		_, err = server.Create(map[string]any{"apiVersion": other.APIVersion, "kind": other.Kind, "metadata": map[string]any{"name": "b", "namespace": "ns"}})
		require.NoError(t, err)
		rig.Elapse(time.Minute)
		require.Positive(t, strings.Count(logs.String(), "conflict loop"))
		require.Less(t, ones.calls.Load()+twos.calls.Load(), int64(5200))
		cancel()
		require.NoError(t, <-ended)
	})
}

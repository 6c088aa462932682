package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// picky is a handler that fails for parents whose value is "bad".
func picky(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	if value, _ := req.Parent.Field("spec", "value"); value == "bad" {
		return nil, errors.New("bad")
	}
	return rig.Copier(ctx, req)
}

// withMetrics returns the names of the parents that have metrics of their own, in order.
func withMetrics(r *rig.Rig) []string {
	var names []string
	for _, f := range gather(r) {
		if f.GetName() != "roperator_parent_failing" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "name" {
					names = append(names, l.GetValue())
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func TestMetrics_OfParents(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.StartWith(t, server, rig.Config(), handler.SyncFunc(picky), manager.Options{RESTConfig: server.RESTConfig(), ParentMetrics: 2})
		require.Zero(t, value(r, "roperator_parents_without_metrics", ""))
		for _, name := range []string{"a", "b", "c", "d"} {
			r.Create(name, "v")
			rig.Elapse(time.Second)
		}
		require.Equal(t, []string{"a", "b"}, withMetrics(r), "first come")
		require.Equal(t, 2, value(r, "roperator_parents_without_metrics", ""))
		require.Equal(t, 3, value(r, "roperator_parent_syncs_total", "name=a,namespace=ns,result=success"))
		require.Zero(t, value(r, "roperator_parent_syncs_total", "name=a,namespace=ns,result=error"))
		before := time.Now()

		r.SetSpec("a", "bad")
		rig.Elapse(time.Minute)
		require.Equal(t, 1, value(r, "roperator_parent_failing", "name=a,namespace=ns"))
		require.Zero(t, value(r, "roperator_parent_failing", "name=b,namespace=ns"))
		require.Greater(t, value(r, "roperator_parent_syncs_total", "name=a,namespace=ns,result=error"), 3)
		require.Equal(t, value(r, "roperator_syncs_total", "result=error"), value(r, "roperator_parent_syncs_total", "name=a,namespace=ns,result=error"))
		require.Less(t, value(r, "roperator_parent_last_success_timestamp_seconds", "name=a,namespace=ns"), int(before.Unix()))
		r.SetSpec("a", "good")
		rig.Elapse(time.Second)
		require.Zero(t, value(r, "roperator_parent_failing", "name=a,namespace=ns"))
		require.GreaterOrEqual(t, value(r, "roperator_parent_last_success_timestamp_seconds", "name=a,namespace=ns"), int(before.Unix())+60)

		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
		rig.Elapse(time.Second)
		require.Equal(t, []string{"b"}, withMetrics(r), "who is gone is told of no more")
		r.SetSpec("d", "v2")
		rig.Elapse(time.Second)
		require.Equal(t, []string{"b", "d"}, withMetrics(r), "there is room again")
		require.Equal(t, 1, value(r, "roperator_parents_without_metrics", ""))

		// A new parent of the same name begins anew, whatever the watches tell first.
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("b")))
		r.Create("b", "v")
		rig.Elapse(time.Second)
		require.LessOrEqual(t, value(r, "roperator_parent_syncs_total", "name=b,namespace=ns,result=success"), 3)
		require.Contains(t, withMetrics(r), "d")
		r.Stop()
	})
}

// A parent that goes in its last pass, by losing its last finalizer, leaves nothing behind.
func TestMetrics_OfParentsThatAreFinalized(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		h := handler.Funcs{SyncFunc: picky, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}}
		r := rig.StartWith(t, server, rig.Config(), h, manager.Options{RESTConfig: server.RESTConfig(), ParentMetrics: 5})
		for i := range 100 {
			name := fmt.Sprint("p-", i)
			r.Create(name, "v")
			rig.Elapse(time.Second)
			require.Equal(t, []string{name}, withMetrics(r))
			require.NoError(t, server.Delete(sample.ParentType(), rig.Key(name)))
			rig.Elapse(time.Second)
			require.Nil(t, server.Get(sample.ParentType(), rig.Key(name)))
			require.Empty(t, withMetrics(r))
		}
		r.Stop()
	})
}

// Without the option there is no trace of them.
func TestMetrics_OfNoParents(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(picky))
		r.Create("a", "v")
		rig.Elapse(time.Second)
		for _, f := range gather(r) {
			require.False(t, strings.HasPrefix(f.GetName(), "roperator_parent"), f.GetName())
		}
		r.Stop()
	})
	_, err := rig.NewOne(rig.Config(), handler.SyncFunc(picky), manager.Options{ParentMetrics: -1})
	require.EqualError(t, err, "runner: Options: ParentMetrics: -1 is negative")
}

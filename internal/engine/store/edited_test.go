package store

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestStoreEdited(t *testing.T) {
	parents := Stream{Type: sample.ParentType()}
	at := func(t *testing.T, version int, generation int64, change func(o, meta map[string]any)) *resource.Resource {
		t.Helper()
		meta := map[string]any{
			"name": "p", "namespace": "ns", "uid": "p", "resourceVersion": strconv.Itoa(version), "generation": generation,
			"labels": map[string]any{"a": "1"}, "annotations": map[string]any{"b": "1"},
		}
		o := map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "metadata": meta}
		if change != nil {
			change(o, meta)
		}
		res, err := resource.New(o)
		require.NoError(t, err)
		return res
	}
	for name, tc := range map[string]struct {
		reason     string
		generation int64 // before the change; 0: the type has none
		after      int64
		change     func(o, meta map[string]any)
		edited     bool
	}{
		"spec":            {reason: "a new generation", generation: 3, after: 4, edited: true},
		"label":           {reason: "labels have no generation", generation: 3, after: 3, change: func(_, meta map[string]any) { meta["labels"] = map[string]any{"a": "2"} }, edited: true},
		"labels go":       {reason: "labels have no generation", generation: 3, after: 3, change: func(_, meta map[string]any) { delete(meta, "labels") }, edited: true},
		"annotation":      {reason: "annotations have no generation", generation: 3, after: 3, change: func(_, meta map[string]any) { meta["annotations"] = map[string]any{"b": "1", "c": ""} }, edited: true},
		"deletion":        {reason: "it is to be finalized", generation: 3, after: 3, change: func(_, meta map[string]any) { meta["deletionTimestamp"] = "2026-01-01T00:00:00Z" }, edited: true},
		"status":          {reason: "nobody asks for anything in the status", generation: 3, after: 3, change: func(o, _ map[string]any) { o["status"] = map[string]any{"x": 1} }},
		"finalizer":       {reason: "a finalizer of another controller asks for nothing", generation: 3, after: 3, change: func(_, meta map[string]any) { meta["finalizers"] = []any{"a/b"} }},
		"no generations":  {reason: "nothing tells what has changed", change: func(o, _ map[string]any) { o["data"] = map[string]any{"x": "1"} }, edited: true},
		"nothing at all":  {reason: "a write that changed nothing that counts", generation: 3, after: 3},
		"first and later": {reason: "a generation may skip numbers", generation: 1, after: 9, edited: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			require.Equal(t, Change{Parents: []types.UID{"p"}}, s.Observe(parents, at(t, 1, tc.generation, nil)), "a parent that is new isn't edited")
			want := Change{Parents: []types.UID{"p"}}
			if tc.edited {
				want = Change{Edited: []types.UID{"p"}}
			}
			require.Equal(t, want, s.Observe(parents, at(t, 2, tc.after, tc.change)), tc.reason)
			again := s.Replace(parents, []*resource.Resource{at(t, 2, tc.after, tc.change)}, "3")
			require.Empty(t, append(again.Edited, again.Parents...), "the state is held already")
			listed := s.Replace(parents, []*resource.Resource{at(t, 4, 10, nil)}, "4")
			require.Equal(t, []types.UID{"p"}, listed.Edited, "a list may bring the edit")
			require.Equal(t, []types.UID{"p"}, s.ObserveDeleted(parents, at(t, 5, 10, nil)).Edited, "it is gone, or has left the selector")
		})
	}
}

// What the operator itself writes, and what happens to a child, is no edit of the
// parent.
func TestStoreEdited_NotByOthers(t *testing.T) {
	s := New(sample.ParentType(), sample.TrackingLabel)
	s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
	own := sample.Object(t, sample.ParentType(), "p", "p", 2, "")
	s.Read(own)
	require.Equal(t, Change{}, s.Observe(Stream{Type: sample.ParentType()}, own))
	child := s.Observe(Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "c", "c", 3, "p"))
	require.Equal(t, Change{Parents: []types.UID{"p"}}, child)
}

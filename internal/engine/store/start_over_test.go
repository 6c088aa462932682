package store

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestStoreStartsOver(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	cm := func(name string, version int) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, name, "u-"+name, version, "p-"+name)
	}
	filled := func() *Store {
		s := New(sample.ParentType(), sample.TrackingLabel)
		s.Observe(Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "q", "q", 90, ""))
		s.Replace(all, []*resource.Resource{cm("kept", 80), cm("gone", 81), cm("deleted", 82)}, "100")
		deletes(s, cm("deleted", 82), nil)
		return s
	}
	for name, tc := range map[string]struct {
		reason        string
		asked, listed string
		anew          bool
		startsOver    bool
	}{
		"older than asked":  {"etcd was restored from a backup", "100", "50", false, true},
		"overtaken":         {"the list has an older state of an object than the one held", "100", "100", false, true},
		"long overtaken":    {"whatever it was asked for", "", "500", false, true},
		"older than held":   {"the watch has overtaken a list that was asked for before", "40", "50", false, false},
		"not asked":         {"the first list", "", "50", false, false},
		"can't be ordered":  {"an unusual API server says nothing by its versions", "100", "abc", false, false},
		"asked for nothing": {"nor by those of its events", "abc", "50", false, false},
		"known":             {"another stream has shown it", "40", "50", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := filled()
			require.True(t, await(s, testRef(k8s.ConfigMap, "gone"), "q"))
			c, startedOver := s.ReplaceSince(tc.asked, all, []*resource.Resource{cm("kept", 30), cm("deleted", 31)}, tc.listed, tc.anew)
			require.Equal(t, tc.startsOver, startedOver, tc.reason)
			if !tc.startsOver && !tc.anew {
				return
			}
			require.ElementsMatch(t, []types.UID{"p-kept", "p-gone", "p-deleted"}, c.Parents, "each has to be looked at")
			require.Equal(t, []types.UID{"q"}, c.Woken)
			require.Equal(t, tc.listed, s.Position(all))
			for name, version := range map[string]string{"kept": "30", "deleted": "31"} {
				held, ok := s.Object(testRef(k8s.ConfigMap, name))
				require.True(t, ok, "the list holds it, so it is there again")
				require.Equal(t, version, held.ResourceVersion())
			}
			_, ok := s.Object(testRef(k8s.ConfigMap, "gone"))
			require.False(t, ok)
			now, err := strconv.Atoi(tc.listed)
			require.NoError(t, err)
			s.Observe(all, cm("kept", now+1))
			s.Read(cm("new", now+2))
			require.Equal(t, 3, configMaps(t, s), "lower versions are accepted from here on")
			require.Equal(t, tc.listed, s.ChildrenAsOf())
			require.Empty(t, s.mu.floors)
			require.Empty(t, s.mu.deleted[k8s.ConfigMap])
		})
	}
}

// In one history a list has of each object the state that is held, or a newer one, or it
// is older than the state held.
func TestStoreStartsOver_NotInOneHistory(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	cm := func(version int) *resource.Resource {
		return sample.Object(t, k8s.ConfigMap, "c", "u", version, "p")
	}
	for name, tc := range map[string]struct{ held, listed, version int }{
		"same":  {80, 80, 100},
		"newer": {80, 90, 100},
		"late":  {101, 80, 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(sample.ParentType(), sample.TrackingLabel)
			s.Read(cm(tc.held))
			_, startedOver := s.ReplaceSince("", all, []*resource.Resource{cm(tc.listed)}, strconv.Itoa(tc.version), false)
			require.False(t, startedOver)
			held, _ := s.Object(testRef(k8s.ConfigMap, "c"))
			require.Equal(t, strconv.Itoa(max(tc.held, tc.listed)), held.ResourceVersion())
		})
	}
}

// A stream of one namespace starts over alone.
func TestStoreStartsOver_InItsNamespace(t *testing.T) {
	s := New(sample.ParentType(), sample.TrackingLabel)
	ns := Stream{Type: k8s.ConfigMap, Namespace: "ns"}
	s.Replace(ns, []*resource.Resource{sample.Object(t, k8s.ConfigMap, "c", "u", 80, "p")}, "100")
	_, startedOver := s.ReplaceSince("100", Stream{Type: k8s.ConfigMap, Namespace: "elsewhere"}, nil, "50", false)
	require.True(t, startedOver)
	require.Equal(t, 1, configMaps(t, s))
	require.Equal(t, "100", s.Position(ns))
}

// configMaps returns how many ConfigMaps are held.
func configMaps(t *testing.T, s *Store) int {
	t.Helper()
	n, _ := s.Usage(k8s.ConfigMap)
	return n
}

// A consistent list can't be older than what a write was answered with, however late the
// watch is.
func TestStorePosition(t *testing.T) {
	s := New(sample.ParentType(), sample.TrackingLabel)
	all := Stream{Type: k8s.ConfigMap}
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { s.Read(sample.Object(t, k8s.ConfigMap, "c", "u", 80, "p")) }, "80"},
		{func() { s.Bookmark(all, "90") }, "90"},
		{func() { s.Read(sample.Object(t, k8s.ConfigMap, "c", "u", 95, "p")) }, "95"},
		{func() { s.Read(sample.Object(t, k8s.ConfigMap, "d", "v", 94, "p")) }, "95"},
		{func() { s.Read(sample.Object(t, k8s.Secret, "c", "w", 99, "p")) }, "95"},
		{func() { s.ReplaceSince("95", all, nil, "70", true) }, "70"},
	} {
		step.do()
		require.Equal(t, step.want, s.Position(all), i)
	}
}

// In one history there is one state of each resourceVersion.
func TestStoreStartsOver_OtherStateOfTheVersion(t *testing.T) {
	parent := func(uid string, generation int64, going bool) *resource.Resource {
		meta := map[string]any{"name": "p", "namespace": "ns", "uid": uid, "resourceVersion": "80", "generation": generation}
		if going {
			meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		}
		res, err := resource.New(map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "metadata": meta})
		require.NoError(t, err)
		return res
	}
	for name, tc := range map[string]struct {
		listed *resource.Resource
		proven bool
	}{
		"same":       {parent("p", 1, false), false},
		"generation": {parent("p", 2, false), true},
		"deleted":    {parent("p", 1, true), true},
		"successor":  {parent("q", 1, false), true},
	} {
		t.Run(name, func(t *testing.T) {
			s, all := New(sample.ParentType(), sample.TrackingLabel), Stream{Type: sample.ParentType()}
			s.Observe(all, parent("p", 1, false))
			_, proven := s.ReplaceSince("80", all, []*resource.Resource{tc.listed}, "90", false)
			require.Equal(t, tc.proven, proven)
			held, _ := s.Object(object.Ref{Type: sample.ParentType(), Key: tc.listed.Key()})
			require.Equal(t, tc.proven, held == tc.listed)
		})
	}
}

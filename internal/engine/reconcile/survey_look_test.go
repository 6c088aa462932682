package reconcile

import (
	"hash/maphash"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/resource"
)

// What is known of children is looked at again only if it may have changed.
func TestSurveyed_Look(t *testing.T) {
	child := func(kind, name, version string, status map[string]any) *resource.Resource {
		res, err := resource.New(map[string]any{
			"apiVersion": map[string]string{"Pod": "v1", "Deployment": "apps/v1"}[kind], "kind": kind, "status": status,
			"metadata": map[string]any{"namespace": "ns", "name": name, "uid": name, "resourceVersion": version, "creationTimestamp": time.Now().UTC().Format(time.RFC3339)},
		})
		require.NoError(t, err)
		return res
	}
	web := func(version string) *resource.Resource { return child("Deployment", "web", version, nil) }
	homeless := func() *resource.Resource {
		return child("Pod", "pod", "1", map[string]any{
			"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}},
		})
	}
	for name, tc := range map[string]struct {
		reason        string
		before, after func() []*resource.Resource // after nil: the same ones
		later         time.Duration
		want          string // a part of what is known then
	}{
		"Unchanged": {
			"only the clock has gone on, which says nothing of a Deployment",
			func() []*resource.Resource { return []*resource.Resource{web("1")} }, nil, time.Hour, "known",
		},
		"None":                    {"there is nothing to look at", func() []*resource.Resource { return nil }, nil, time.Hour, "known"},
		"Changed":                 {"it may be ready now", func() []*resource.Resource { return []*resource.Resource{web("1")} }, func() []*resource.Resource { return []*resource.Resource{web("2")} }, 0, "Deployment ns/web is InProgress"},
		"Gone":                    {"nothing is in the way any more", func() []*resource.Resource { return []*resource.Resource{web("1")} }, func() []*resource.Resource { return nil }, 0, ""},
		"A moment after the Pod":  {"it may still find a node", func() []*resource.Resource { return []*resource.Resource{homeless()} }, nil, time.Second, "known"},
		"A while after the Pod":   {"it is Failed 15 s after its creation, though no watch tells", func() []*resource.Resource { return []*resource.Resource{homeless()} }, nil, 16 * time.Second, "Pod ns/pod is Failed"},
		"Pod behind a Deployment": {"the first one that is Failed counts", func() []*resource.Resource { return []*resource.Resource{web("1"), homeless()} }, nil, 16 * time.Second, "Pod ns/pod is Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, known, children := surveyor{seed: maphash.MakeSeed()}, &surveyed{}, tc.before()
				known.look(time.Now(), s.versionsOf(children), children)
				known.unready = "known"
				if tc.after != nil {
					children = tc.after()
				}
				if tc.later > 0 {
					<-time.After(tc.later)
				}
				require.Zero(t, testing.AllocsPerRun(10, func() {
					(&surveyed{versions: s.versionsOf(children)}).look(time.Now(), s.versionsOf(children), children)
				}), "what is known costs no memory")
				known.look(time.Now(), s.versionsOf(children), children)
				if tc.want == "" {
					require.Empty(t, known.unready, tc.reason)
					return
				}
				require.Contains(t, known.unready, tc.want, tc.reason)
			})
		})
	}
}

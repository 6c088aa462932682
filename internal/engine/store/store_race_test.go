package store

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// The watches of several types and namespaces, the answers to writes and readers
// get along; run it with -race.
func TestResourceMapConcurrently(t *testing.T) {
	const parents, rounds = 8, 200
	m := New(sample.ParentType(), sample.TrackingLabel)
	m.KeepDeparted = true
	var wg sync.WaitGroup
	for p := range parents {
		uid := types.UID(fmt.Sprint("p", p))
		name := fmt.Sprint("n", p)
		ref := testRef(k8s.ConfigMap, name)
		wg.Go(func() { // the watch of parents
			s := Stream{sample.ParentType(), "ns"}
			for i := range rounds {
				m.Observe(s, sample.Object(t, sample.ParentType(), name, string(uid), 10*i+1, ""))
			}
		})
		wg.Go(func() { // the watch of children, each of which comes and goes
			s := Stream{k8s.ConfigMap, ""}
			for i := range rounds {
				child := fmt.Sprintf("c%d-%d", p, i)
				m.Observe(s, sample.Object(t, k8s.ConfigMap, name, child, 10*i+1, string(uid)))
				m.Bookmark(s, strconv.Itoa(10*i+1))
				m.ObserveDeleted(s, sample.Object(t, k8s.ConfigMap, name, child, 10*i+2, string(uid)))
			}
		})
		wg.Go(func() { // own writes
			for i := range rounds {
				res := sample.Object(t, k8s.Secret, name, fmt.Sprint("s", p), 10*i+5, string(uid))
				m.Wrote(res)
				if held, ok := m.Object(object.RefOf(res)); ok && i%7 == 0 {
					m.WroteDelete(held, nil)
					m.ObserveDeleted(Stream{Type: k8s.Secret}, sample.Object(t, k8s.Secret, name, fmt.Sprint("s", p), 10*i+6, string(uid)))
				}
				m.Await(ref, uid)
			}
		})
		wg.Go(func() { // a pass
			for range rounds {
				parent, children := m.Family(uid)
				for _, child := range children {
					if owner, ok := m.ownerOf(child); !ok || owner != uid || parent == nil {
						t.Errorf("%s isn't a child of %s", child, uid)
					}
				}
				m.Parent(uid)
				m.AllParents()
				m.DepartedParent(uid)
				m.ForgetDeparted(uid)
			}
		})
	}
	wg.Wait()
	require.Len(t, m.AllParents(), parents)
	for p := range parents {
		parent, children := m.Family(types.UID(fmt.Sprint("p", p)))
		require.Equal(t, strconv.Itoa(10*(rounds-1)+1), parent.ResourceVersion())
		for _, child := range children {
			require.Equal(t, k8s.Secret, child.Type())
		}
	}
	require.Empty(t, m.mu.objects[k8s.ConfigMap])
	require.Empty(t, m.mu.deleted[k8s.Secret])
}

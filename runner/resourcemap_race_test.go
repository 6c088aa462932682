package runner

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource/k8s"
)

// The watches of several types and namespaces, the answers to writes and readers
// get along; run it with -race.
func TestResourceMapConcurrently(t *testing.T) {
	const parents, rounds = 8, 200
	m := newResourceMap(testParentType(), testTracking)
	m.keepDeparted = true
	var wg sync.WaitGroup
	for p := range parents {
		uid := types.UID(fmt.Sprint("p", p))
		name := fmt.Sprint("n", p)
		ref := testRef(k8s.ConfigMap, name)
		wg.Go(func() { // the watch of parents
			s := stream{testParentType(), "ns"}
			for i := range rounds {
				m.observe(s, testObject(t, testParentType(), name, string(uid), 10*i+1, ""))
			}
		})
		wg.Go(func() { // the watch of children, each of which comes and goes
			s := stream{k8s.ConfigMap, ""}
			for i := range rounds {
				child := fmt.Sprintf("c%d-%d", p, i)
				m.observe(s, testObject(t, k8s.ConfigMap, name, child, 10*i+1, string(uid)))
				m.bookmark(s, strconv.Itoa(10*i+1))
				m.observeDeleted(s, testObject(t, k8s.ConfigMap, name, child, 10*i+2, string(uid)))
			}
		})
		wg.Go(func() { // own writes
			for i := range rounds {
				res := testObject(t, k8s.Secret, name, fmt.Sprint("s", p), 10*i+5, string(uid))
				m.wrote(res)
				if held, ok := m.object(refOf(res)); ok && i%7 == 0 {
					m.wroteDelete(held, nil)
					m.observeDeleted(stream{Type: k8s.Secret}, testObject(t, k8s.Secret, name, fmt.Sprint("s", p), 10*i+6, string(uid)))
				}
				m.await(ref, uid)
			}
		})
		wg.Go(func() { // a pass
			for range rounds {
				parent, children := m.family(uid)
				for _, child := range children {
					if owner, ok := m.ownerOf(child); !ok || owner != uid || parent == nil {
						t.Errorf("%s isn't a child of %s", child, uid)
					}
				}
				m.parent(uid)
				m.allParents()
				m.departedParent(uid)
				m.forgetDeparted(uid)
			}
		})
	}
	wg.Wait()
	require.Len(t, m.allParents(), parents)
	for p := range parents {
		parent, children := m.family(types.UID(fmt.Sprint("p", p)))
		require.Equal(t, strconv.Itoa(10*(rounds-1)+1), parent.ResourceVersion())
		for _, child := range children {
			require.Equal(t, k8s.Secret, child.Type())
		}
	}
	require.Empty(t, m.mu.objects[k8s.ConfigMap])
	require.Empty(t, m.mu.deleted[k8s.Secret])
}

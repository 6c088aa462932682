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

// The watches of several types and namespaces, the answers to the operator's own
// writes and the passes that read may all use the store at once: run this test
// with -race.
func TestStoreConcurrently(t *testing.T) {
	const parents, rounds = 8, 200
	s := New(sample.ParentType(), sample.TrackingLabel)
	s.KeepDeparted(true)
	var wg sync.WaitGroup
	for p := range parents {
		uid := types.UID(fmt.Sprint("p", p))
		name := fmt.Sprint("n", p)
		ref := testRef(k8s.ConfigMap, name)
		wg.Go(func() { // the watch of parents
			from := Stream{Type: sample.ParentType(), Namespace: "ns"}
			for i := range rounds {
				s.Observe(from, sample.Object(t, sample.ParentType(), name, string(uid), 10*i+1, ""))
			}
		})
		wg.Go(func() { // the watch of children, each of which comes and goes
			from := Stream{Type: k8s.ConfigMap}
			for i := range rounds {
				child := fmt.Sprintf("c%d-%d", p, i)
				s.Observe(from, sample.Object(t, k8s.ConfigMap, name, child, 10*i+1, string(uid)))
				s.Bookmark(from, strconv.Itoa(10*i+1))
				s.ObserveDeleted(from, sample.Object(t, k8s.ConfigMap, name, child, 10*i+2, string(uid)))
			}
		})
		wg.Go(func() { // own writes
			for i := range rounds {
				res := sample.Object(t, k8s.Secret, name, fmt.Sprint("s", p), 10*i+5, string(uid))
				s.Read(res)
				if held, ok := s.Object(object.RefOf(res)); ok && i%7 == 0 {
					deletes(s, held, nil)
					s.ObserveDeleted(Stream{Type: k8s.Secret}, sample.Object(t, k8s.Secret, name, fmt.Sprint("s", p), 10*i+6, string(uid)))
				}
				s.Await(sample.Object(t, ref.Type, ref.Key.Name, "u", 10*i, ""), uid)
			}
		})
		wg.Go(func() { // a pass over the parent
			for range rounds {
				parent, children := s.Family(uid)
				for _, child := range children {
					if owner, ok := s.ownerOf(child); !ok || owner != uid || parent == nil {
						t.Errorf("%s isn't a child of %s", child, uid)
					}
				}
				s.Parent(uid)
				s.AllParents()
				s.DepartedParent(uid)
				s.ForgetDeparted(uid)
			}
		})
	}
	wg.Wait()
	require.Len(t, s.AllParents(), parents)
	for p := range parents {
		parent, children := s.Family(types.UID(fmt.Sprint("p", p)))
		require.Equal(t, strconv.Itoa(10*(rounds-1)+1), parent.ResourceVersion())
		for _, child := range children {
			require.Equal(t, k8s.Secret, child.Type())
		}
	}
	require.Empty(t, s.mu.objects[k8s.ConfigMap])
	require.Empty(t, s.mu.deleted[k8s.Secret])
}

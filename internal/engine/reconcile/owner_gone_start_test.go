package reconcile_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// Parents are deleted, and their children with them, after the parents were listed at
// the start and before the children are. Of the others, children are missing too.
func TestLost_BetweenTheFirstLists(t *testing.T) {
	const count, going = 10, 5
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		for i := range count {
			rig.CreateParent(t, server, fmt.Sprint("p", i), "v1")
		}
		var once sync.Once
		server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
			if q.Type == k8s.ConfigMap && !q.Writes() {
				once.Do(func() {
					<-time.After(time.Second) // in which the parents are listed
					server.Hold(sample.ParentType())
					for i := range going {
						if err := server.Delete(sample.ParentType(), rig.Key(fmt.Sprint("p", i))); err != nil {
							t.Error(err)
						}
					}
				})
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		for i := range count {
			require.Equal(t, i >= going, r.Get(k8s.ConfigMap, fmt.Sprint("p", i)) != nil, "p%d", i)
		}
		require.Equal(t, map[string]int{"list": 1}, parentReads(server.Requests()), "one list tells of all")
		server.Release()
		rig.Elapse(time.Minute)
		require.Equal(t, map[string]int{"list": 1}, parentReads(server.Requests()))
		require.Len(t, server.List(k8s.ConfigMap), count-going)
		r.Stop()
	})
}

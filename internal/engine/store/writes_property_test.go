package store

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// The store has two sources: a watch, which delivers in order but late, and the
// responses to the operator's own writes, which arrive at any time. In every
// interleaving the store never shows a state older than the newest own write, and
// agrees with the API server in the end.
func TestStoreReadsItsWrites(t *testing.T) {
	all := Stream{Type: k8s.ConfigMap}
	ref := testRef(k8s.ConfigMap, "c")
	type event struct {
		res     *resource.Resource
		deleted bool
		relist  int // the version of a list, with res in it if there was one
	}
	for seed := range budget.Runs(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := New(sample.ParentType(), sample.TrackingLabel)
		var pending []event         // events of the watch, in order
		var responses []func()      // to own creates and updates, not stored yet
		var live *resource.Resource // the state on the API server
		version, generation, newest := 1, 0, 0
		deliver := func() {
			e := pending[0]
			pending = pending[1:]
			switch {
			case e.relist > 0 && e.res == nil:
				s.Replace(all, nil, strconv.Itoa(e.relist))
			case e.relist > 0:
				s.Replace(all, []*resource.Resource{e.res}, strconv.Itoa(e.relist))
			case e.deleted:
				s.ObserveDeleted(all, e.res)
			default:
				s.Observe(all, e.res)
			}
		}
		for range 60 {
			version++
			// An own write addresses the object held, since the API server refuses any
			// other, and the operator waits for the response before the next one.
			held, holds := s.Object(ref)
			own := rnd.IntN(2) == 0 && len(responses) == 0 && (live == nil && !holds || live != nil && holds && held.UID() == live.UID())
			switch {
			case rnd.IntN(3) == 0 && len(pending) > 0:
				deliver()
			case rnd.IntN(12) == 0: // the watch is lost, with its pending events
				pending = []event{{res: live, relist: version - 1}}
				version--
			case rnd.IntN(4) == 0 && len(responses) > 0:
				i := rnd.IntN(len(responses))
				responses[i]()
				responses = append(responses[:i], responses[i+1:]...)
			case live == nil || rnd.IntN(3) > 0: // create or update
				if live == nil {
					generation++
				}
				live = sample.Object(t, k8s.ConfigMap, "c", fmt.Sprint("u", generation), version, "p")
				pending = append(pending, event{res: live})
				if !own {
					break
				}
				w, response := s.Begin(Request{Ref: ref, Parent: "p", Guarded: rnd.IntN(2) == 0}), &Response{Live: live}
				if rnd.IntN(2) == 0 {
					responses = append(responses, func() { w.End(response) })
				} else {
					w.End(response)
					newest = version
				}
			default: // delete
				gone := sample.Object(t, k8s.ConfigMap, "c", string(live.UID()), version, "p")
				pending = append(pending, event{res: gone, deleted: true})
				if own {
					deletes(s, live, nil)
					newest = version
				}
				live = nil
			}
			if held, ok := s.Object(ref); ok {
				at, err := strconv.Atoi(held.ResourceVersion())
				require.NoError(t, err)
				require.GreaterOrEqual(t, at, newest, "seed %d: older than an own write", seed)
			}
		}
		for len(pending) > 0 {
			deliver()
		}
		for _, respond := range responses {
			respond()
		}
		held, ok := s.Object(ref)
		require.Equal(t, live != nil, ok, "seed %d", seed)
		if ok {
			require.Equal(t, live.ResourceVersion(), held.ResourceVersion(), "seed %d", seed)
		}
		require.Empty(t, s.mu.deleted[k8s.ConfigMap], "seed %d: every tombstone has been taken away", seed)
	}
}

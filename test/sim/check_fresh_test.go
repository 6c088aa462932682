package sim

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/roperator/roperator/resource"
)

// sizes returns how much each replica holds, first that of the leader, without what is
// empty. Counters of conflicts and of missing children may stay as long as the parent, and
// what a parent waited for until its handler answers again, and that an object was said
// to be deleted as long as the object. A parent refers to what it did before as long as its
// handler can't say to what it does now. A standby holds nothing but what is watched. Shards have an
// engine each: nothing is compared there.
func (w *world) sizes() (out []map[string]int) {
	if w.script.is(withShards) {
		return nil
	}
	failing, silent := slices.ContainsFunc(w.server.List(parentType()), fails), w.isSilent()
	w.mu.Lock()
	running := slices.Collect(maps.Values(w.mu.processes))
	w.mu.Unlock()
	for _, p := range running {
		p.mu.Lock()
		engine := p.mu.manager.Engine()
		p.mu.Unlock()
		for engine.Gauges(true).Running > 0 { // a retry that has begun by chance
			<-time.After(time.Millisecond)
		}
		of := engine.Sizes()
		maps.DeleteFunc(of, func(name string, n int) bool {
			switch name {
			case "undeleted":
				return true
			case "loops", "missing children by parent":
				return n <= of["parents by UID"]
			case "waiting", "awaited by parent":
				return n == 0 || failing && n <= len(sharedNames())*of["parents by UID"]
			case "parents that refer", "related queries", "related watches", "related objects":
				return n == 0 || silent
			}
			return n == 0
		})
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b map[string]int) int { return b["remembered parents"] - a["remembered parents"] })
	for _, standby := range out[1:] {
		watched := []string{"orphans"}
		if standby["orphans"] > 0 {
			watched = append(watched, "unlabelled") // the same, by parent
		}
		for name, n := range standby {
			if !strings.HasPrefix(name, "objects ") && !strings.Contains(name, " by ") && !slices.Contains(watched, name) {
				w.Violated("a standby holds %d of: %s", n, name)
			}
		}
	}
	return out
}

// isSilent says whether a handler can't say to what a parent refers.
func (w *world) isSilent() bool {
	return slices.ContainsFunc(w.server.List(parentType()), func(p *resource.Resource) bool {
		_, allowed := refsOf(p)
		return !allowed || behavior(p, "sync") == "relate"
	})
}

// checkFresh starts one process when all others have ended. It has nothing to write, and holds as much as
// the leader before it: in queue, store and memory nothing of what is gone was left.
func (w *world) checkFresh(old []map[string]int) {
	if w.script.is(withShards) {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	w.mu.Lock()
	clear(w.mu.processes)
	w.mu.Unlock()
	wg.Go(func() { w.replica(ctx, "replica-0") })
	w.checkUnchanged("a fresh operator", 30*time.Second)
	if fresh := w.sizes(); !reflect.DeepEqual(old[:1], fresh) {
		w.Violated("the operator holds %v, a fresh one %v", old[0], fresh[0])
	}
	stop()
	wg.Wait()
}

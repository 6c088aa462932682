package sim

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/order"
	"github.com/roperator/roperator/internal/testing/past"
)

// A process is one run of an operator: its connection to the API server, and
// what it was told over it.
type process struct {
	*world
	*faults.Process
	link    *faults.Link
	witness *past.Witness
	since   int64 // how many restores had lost a change when it began

	mu struct {
		sync.Mutex
		told      map[string]seen        // newest state that an answer to a write has told, by kind and key
		deleting  map[types.UID]struct{} // it has asked for that
		deleted   map[types.UID]struct{} // told to be gone
		syncing   map[types.UID]struct{}
		shown     map[types.UID]struct{} // parents and children
		finalized map[types.UID]struct{} // parents that the handler has let go
		anew      map[string]struct{}    // children that it has deleted, and not created since
		unsure    map[string]struct{}    // names of parents of which a dry run has failed, until one succeeds
		lists     map[string]int         // by name
		passes    map[string]*pass       // the last of each parent, by its name
		watches   map[past.Ref]int       // of related objects that are open
		manager   *manager.Manager       // nil: it doesn't run yet
	}
}

// A pass is what came of a call of Sync.
type pass struct {
	wanted  []string            // children, as resource/name
	none    bool                // it came to nothing, so nothing may follow
	failed  map[string]struct{} // writes
	parent  types.UID
	parts   map[string]shownPart // those that are wanted, in runs with readiness
	stepped map[string]struct{}  // those that the pass has made unavailable
}

// seen is what a state is told from another by.
type seen struct {
	uid     types.UID
	version int64
}

// connect returns what carries the requests of a process.
func (p *process) connect() *faults.Link {
	return &faults.Link{
		Process: p.Process, Dice: p.dice.Dice, Hang: 45 * time.Second, // as long as a client's ping goes unanswered
		Serve: p.serve, Told: p.told, Frame: p.frame,
		Unreachable: func(x *faults.Exchange) bool {
			down := p.isDown() || strings.Contains(x.Name, "/leases") && p.IsCut()
			if down {
				p.count(sawRefused)
			}
			return down
		},
		Opened: func(x *faults.Exchange) { p.watches(x, 1) },
		Closed: func(x *faults.Exchange) { p.watches(x, -1) },
	}
}

func nameOf(x *faults.Exchange) string {
	name := x.Method + " " + x.URL.Path
	if x.Method == http.MethodPost {
		name += "/" + x.On.Name
	}
	if x.Watch {
		name = "WATCH " + x.URL.Path
	}
	if r, related := watched(x.URL); related && x.Method == http.MethodGet && (r.Name != "" || r.Selector != "") {
		name += "?" + r.Name + r.Selector
	}
	if x.Trial {
		name += "?dryRun"
	}
	return name
}

// RoundTrip is http.RoundTripper's.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews") { // a question that stores nothing
		return p.server.RoundTrip(req)
	}
	x, err := faults.Read(req)
	if err != nil {
		return nil, err
	}
	x.Name = nameOf(x)
	x.Owner = p.parentOf(x)
	f, ok := p.plans.take(x)
	if !ok {
		f = p.draw(x)
	}
	p.sent(x.Name, f)
	p.checkLease(x)
	p.checkRefused(x)
	restores := p.restores.Load()
	resp, err := p.link.Carry(x, f)
	resp, err = p.survives(restores, resp, err)
	if f.Outcome == faults.Hollow {
		p.forget(x)
	}
	code := 0
	if err == nil {
		code = resp.StatusCode
	}
	p.noteFailure(x, code)
	return resp, err
}

// draw returns what a request meets by the dice.
func (p *process) draw(x *faults.Exchange) faults.Fault {
	rate, outcomes := p.dice.rates.request, requestOutcomes(x.Method != http.MethodGet)
	if x.URL.Query().Get("continue") != "" {
		rate, outcomes = 2*rate, []string{compact, compact, "500", faults.BreakBefore}
	}
	return p.dice.next(x.Name, rate, outcomes...)
}

// serve has the API server carry out a request, which is held against what must be so.
func (p *process) serve(x *faults.Exchange, f faults.Fault) (*http.Response, error) {
	if f.Outcome == compact {
		p.server.Compact()
	}
	p.checkWrite(x)
	part, parent := p.partIn(x), p.parentIn(x)
	resp, err := p.server.RoundTrip(x.Request)
	if err != nil {
		return nil, err
	}
	p.checkDone(x, part, resp.StatusCode)
	p.checkLetGo(x.Name, parent)
	p.notice(x, resp.StatusCode)
	link := order.Link{Order: p.script.order(), Sleep: p.Sleep}
	return link.Deliver(x.Request, resp)
}

// notice counts what a request tells of its cause.
func (p *process) notice(x *faults.Exchange, code int) {
	query := x.URL.Query()
	list := query.Get("sendInitialEvents") == "true" || x.Method == http.MethodGet && query.Has("labelSelector") && query.Get("watch") == ""
	switch {
	case query.Get("continue") != "" && code == http.StatusGone:
		p.count(sawExpiredPage)
	case query.Get("continue") != "":
		p.count(sawPage)
	case list && code == http.StatusOK:
		p.mu.Lock()
		p.mu.lists[x.Name]++
		again := p.mu.lists[x.Name] > 1
		p.mu.Unlock()
		if again {
			p.count(sawRelist)
		}
	}
}

// frame returns what a frame of a watch meets.
func (p *process) frame(x *faults.Exchange, frame []byte) faults.Fault {
	switch {
	case bytes.Contains(frame, []byte(`"type":"ERROR"`)):
		p.count(sawExpired)
	case bytes.Contains(frame, []byte(`"type":"BOOKMARK"`)) && !bytes.Contains(frame, []byte(metav1.InitialEventsAnnotationKey)):
		p.count(sawBookmark)
	}
	if n := p.plans.takeRepeat(x.On.Resource.Resource); n > 0 {
		return faults.Fault{Outcome: faults.Again(n)}
	}
	return p.dice.next("frame "+x.URL.Path, p.dice.rates.frame, frameOutcomes()...)
}

// watches notes that there is one more watch, or one less.
func (p *process) watches(x *faults.Exchange, n int) {
	if r, related := watched(x.URL); related {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.watches[r] += n
	}
}

// told notes what the answer to a write has told.
func (p *process) told(x *faults.Exchange, code int, raw []byte) {
	if !x.Write || code >= 300 || p.restores.Load() > 0 { // a restore takes back what a response told
		return
	}
	o := metaIn(raw)
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Kind == "Status" {
		p.mu.deleted[o.Details.UID] = struct{}{}
		return
	}
	if o.Metadata.DeletionTimestamp != "" && len(o.Metadata.Finalizers) == 0 {
		p.mu.deleted[o.Metadata.UID] = struct{}{} // it went with its last finalizer
		return
	}
	key := o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
	now := seen{o.Metadata.UID, number(o.Metadata.ResourceVersion)}
	if now.version > p.mu.told[key].version {
		p.mu.told[key] = now
	}
}

// forget forgets what was told of an object: the API server says that a request is done, and has done
// nothing.
func (p *process) forget(x *faults.Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.mu.told, func(key string, _ seen) bool {
		return strings.HasSuffix(key, " "+inNamespace(x.On.Name).String())
	})
}

type brief struct {
	Kind     string
	Metadata struct {
		Name, Namespace, ResourceVersion, DeletionTimestamp string
		Generation                                          int64
		UID                                                 types.UID
		Finalizers                                          []string
		Labels                                              map[string]string
		OwnerReferences                                     []struct{ UID types.UID }
	}
	Details struct{ UID types.UID } // of a Status
}

func metaIn(raw []byte) brief {
	var o brief
	if json.Unmarshal(raw, &o) != nil {
		return brief{}
	}
	return o
}

func number(version string) int64 {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

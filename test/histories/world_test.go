package histories

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
)

const (
	operatorName    = "op"
	finalizer       = config.DefaultDomain + "/" + operatorName
	formerFinalizer = "histories.example.com/former"
	tracking        = config.DefaultDomain + "/parent-uid"
	maxBackoff      = 8 * time.Second
)

// A world is one history while it happens.
type world struct {
	*faults.Diary
	script   *script
	server   *fakeapi.Server
	plans    *plans
	record   *past.Record // of what may be related
	replicas []*replica
	ended    sync.WaitGroup // of every process there was
	restore  func()         // nil: there is no backup
	restores atomic.Int64   // connections don't outlive one
	down     atomic.Int64   // until when the API server is down, in ns since 1970: while etcd is restored

	mu struct {
		sync.Mutex
		rng      *rand.Rand
		ended    map[types.UID]bool // the handler has finalized them
		all      map[types.UID]int  // calls of the handler
		step     map[types.UID]int  // those since the last step
		changes  int                // of objects, Leases and Events aside
		states   map[string]bool    // that objects had, by kind, name and resourceVersion
		collided bool               // an object has had two states of one resourceVersion, after a restore: nobody can tell them apart
	}
}

// A replica is one process after the other.
type replica struct {
	*faults.Process
	name    string
	number  int // of its processes
	manager *manager.Manager
	done    chan struct{}
}

// A report is what came of a history.
type report struct {
	*faults.Diary
	script   *script
	collided bool // nothing can be said of it
}

// failed says whether something has happened that must not have.
func (r *report) failed() bool { return !r.collided && len(r.Violations()) > 0 }

// play lets a script happen. It must be called in a bubble. Without verbose, the
// operators' logs are dropped.
func play(s *script, verbose bool) *report {
	w := &world{Diary: faults.NewDiary(), script: s, plans: newPlans(), record: newRecord()}
	w.server = fakeapi.New(fakeapi.Custom(parentType(), "parents"), fakeapi.Custom(partType(), "parts"), fakeapi.Typed(fakeapi.ConfigMaps()), fakeapi.Typed(fakeapi.Secrets()), fakeapi.Leases())
	w.server.NoteRequests(false)
	if s.is(byLists) {
		w.server.RefuseWatchLists()
	}
	if s.is(inPages) {
		w.server.LimitPages(2)
	}
	w.mu.rng = rand.New(rand.NewPCG(s.seed, 3))
	w.mu.states = map[string]bool{}
	w.mu.ended, w.mu.all, w.mu.step = map[types.UID]bool{}, map[types.UID]int{}, map[types.UID]int{}
	w.server.SetHooks(fakeapi.Hooks{Changed: w.changed})
	count := 1
	if s.is(withStandby) {
		count = 2
	}
	for i := range count {
		w.replicas = append(w.replicas, &replica{name: "replica-" + strconv.Itoa(i)})
		w.start(w.replicas[i], verbose)
	}
	for _, one := range s.steps {
		w.wait(one.after)
		w.Note("%s", one)
		w.take(one, verbose)
	}
	w.wait(asap)
	w.Note("all that ends")
	w.settle(verbose)
	w.check(verbose)
	for _, r := range w.replicas {
		r.Stop()
	}
	w.ended.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return &report{w.Diary, s, w.mu.collided}
}

// wait lets time pass, and then looks how often handlers were called meanwhile.
func (w *world) wait(d time.Duration) {
	w.mu.Lock()
	clear(w.mu.step)
	w.mu.Unlock()
	switch {
	case d == asap:
		synctest.Wait()
	case d > 0:
		<-time.After(d)
	}
	most := 30 + 10*int(d/time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, n := range w.mu.step {
		if n > most {
			w.Violated("the handler was called %d times for %s within %v", n, uid, max(d, 0))
		}
	}
}

func (w *world) config() config.Operator {
	cfg := config.Operator{
		Name: operatorName, Parent: parentType(), MaxErrorBackoff: maxBackoff, FormerFinalizers: []string{formerFinalizer},
		Children: []config.Child{
			{Type: typeOf("ConfigMap"), Strategy: w.script.strategies[0], Adopt: w.script.is(withAdoption)},
			{Type: partType(), Strategy: w.script.strategies[1]},
		},
	}
	for i := range cfg.Children {
		cfg.Children[i].DeleteFirst = w.script.is(deleteFirst)
	}
	if w.script.is(withRelated) {
		cfg.Related = relatedConfig()
	}
	if w.script.is(withSelector) {
		cfg.ParentSelector = "mine=yes"
	}
	if w.script.is(oneAtATime) {
		cfg.MaxConcurrentSyncs = 1
	}
	return cfg
}

// start starts a process of a replica.
func (w *world) start(r *replica, verbose bool) {
	r.number++
	ctx, cancel := context.WithCancel(context.Background())
	r.Process = faults.NewProcess(fmt.Sprint(r.name, ".", r.number), cancel)
	rc := w.server.RESTConfig()
	rc.Transport = w.connect(r.Process)
	opts := manager.Options{RESTConfig: rc, ShutdownTimeout: time.Second, Logger: slog.New(slog.DiscardHandler)}
	if verbose {
		opts.Logger = slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})).With("replica", r.Name)
	}
	if w.script.is(withStandby) {
		opts.LeaderElection = &lead.Config{Namespace: "ns", Name: "lease", Identity: r.Name, RetryPeriod: 4 * time.Second}
	}
	m, err := manager.New(opts, manager.Spec{Config: w.config(), Handler: w.handler()})
	if err != nil {
		panic(err) // the configuration is this package's
	}
	done := make(chan struct{})
	r.manager, r.done = m, done
	name := r.Name
	w.ended.Go(func() {
		defer close(done)
		switch err := m.Start(ctx); {
		case err == nil || ctx.Err() != nil:
		case w.restores.Load() > 0:
			w.Note("%s ended: %v", name, err) // the Lease went back, too, and no API server was there
		default:
			w.Violated("%s ended: %v", name, err)
		}
	})
}

// startEnded starts those replicas anew whose processes have ended.
func (w *world) startEnded(verbose bool) {
	for _, r := range w.replicas {
		select {
		case <-r.done:
			w.start(r, verbose)
		default:
		}
	}
}

// restart ends a process of a replica, in order or by force, and starts the next.
func (w *world) restart(r *replica, byForce, verbose bool) {
	if byForce {
		r.Kill()
	} else {
		r.Stop()
		<-r.done
	}
	w.start(r, verbose)
}

// lateness returns how long a request or an answer is late.
func (w *world) lateness() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(1+w.mu.rng.IntN(40)) * 50 * time.Millisecond
}

func (w *world) isDown() bool { return time.Now().UnixNano() < w.down.Load() }

// called notes that the handler was called for a parent.
func (w *world) called(parent *resource.Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.all[parent.UID()]++
	w.mu.step[parent.UID()]++
}

func (w *world) calls(uid types.UID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.all[uid]
}

func (w *world) finalized(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.ended[uid] = true
}

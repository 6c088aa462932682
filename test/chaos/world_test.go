package chaos

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/testing/plane"
)

//go:embed testdata/crd.yaml
var crd []byte

//go:embed testdata/audit-policy.yaml
var auditPolicy []byte

const (
	replicas = 3
	// patience only bounds a hang: it is for what takes an idle machine some
	// seconds.
	patience = 5 * time.Minute
)

// Settings say how a run goes.
type settings struct {
	seed    uint64
	parents int
	faults  time.Duration // how long they go on
	pause   time.Duration // of each of the people between two changes, on average
	silence time.Duration // how long it must be silent at the end
	dir     string        // for logs and records
}

// A world is everything of a run.
type world struct {
	settings
	plane    *plane.Plane
	layer    *layer
	people   *people
	replicas []*replica
	planted  map[types.UID]string
	counts   struct{ toxics, kills, stops, overslept, control, restores atomic.Int64 }
	mu       struct {
		sync.Mutex
		violations []violation
	}
}

func (w *world) violated(v ...violation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.violations = append(w.mu.violations, v...)
}

func (w *world) failed(err error) { w.violated(violation{harness, err.Error()}) }

func (w *world) all() []violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.violations
}

// start returns a world in which everything works. Stop is due even on errors.
func start(ctx context.Context, s settings) (*world, error) {
	w := &world{settings: s}
	policy := filepath.Join(s.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
		return w, err
	}
	opts := plane.Options{Dir: s.dir, ServerFlags: map[string]string{
		"audit-policy-file": policy, "audit-log-path": filepath.Join(s.dir, "audit.log"), "audit-log-mode": "blocking",
		"audit-log-maxsize": "10000", // MB, or it is rotated
	}}
	for slot := range replicas {
		opts.Users = append(opts.Users, user(slot))
	}
	var err error
	if w.plane, err = plane.New(opts); err != nil {
		return w, err
	}
	if err := w.plane.Start(ctx); err != nil {
		return w, err
	}
	if err := w.plane.StartControllerManager(plane.GarbageCollector); err != nil {
		return w, err
	}
	if w.people, err = newPeople(w.plane.Config(), s.parents); err != nil {
		return w, err
	}
	if err := w.prepare(ctx); err != nil {
		return w, err
	}
	if w.layer, err = newLayer(w.plane.Config().Host, s.seed); err != nil {
		return w, err
	}
	for slot := range replicas {
		r, err := newRoute(user(slot), "127.0.0.1:"+w.plane.ServerPort, w.layer.server.Listener.Addr().String())
		if err != nil {
			return w, err
		}
		w.replicas = append(w.replicas, &replica{slot: slot, dir: s.dir, token: w.plane.ConfigFor(user(slot)).BearerToken, route: r})
	}
	return w, nil
}

func (w *world) stop() {
	for _, r := range w.replicas {
		r.route.close()
	}
	if w.layer != nil {
		w.layer.server.CloseClientConnections()
		w.layer.server.Close()
	}
	if w.plane != nil {
		w.plane.Stop()
	}
}

// prepare makes the parents' kind, the parents and the foreign objects.
func (w *world) prepare(ctx context.Context) error {
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(crd, &definition.Object); err != nil {
		return err
	}
	crds := w.people.api.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := plane.Until(ctx, patience, func() (err error) {
		w.planted, err = w.served(ctx)
		return err
	}); err != nil {
		return err
	}
	rng := w.rng(2)
	for i := range w.parents {
		if err := w.people.create(ctx, i, rng); err != nil {
			return err
		}
	}
	return nil
}

// served plants the foreign objects once the parents' kind is served.
func (w *world) served(ctx context.Context) (map[types.UID]string, error) {
	if _, err := w.people.of(parents()).List(ctx, metav1.ListOptions{}); err != nil {
		return nil, err
	}
	if _, err := w.people.of(services()).Get(ctx, "kubernetes", metav1.GetOptions{}); err != nil {
		return nil, err
	}
	return w.people.plant(ctx)
}

// rng is the source of one who decides.
func (w *world) rng(who uint64) *rand.Rand { return rand.New(rand.NewPCG(w.seed, who)) }

// run lets the faults happen, and checks what is left.
func (w *world) run(ctx context.Context) error {
	working, dismiss := context.WithCancel(ctx)
	var keepers sync.WaitGroup
	defer keepers.Wait()
	defer dismiss()
	for _, r := range w.replicas {
		keepers.Go(func() { r.keep(working, w.rng(uint64(10+r.slot)), w.failed) })
	}
	w.suffer(ctx)
	if err := w.heal(ctx); err != nil {
		return err
	}
	if err := w.converge(ctx); err != nil {
		return err
	}
	settled, err := w.hush(ctx)
	if err != nil {
		return err
	}
	left, err := w.people.look(ctx)
	if err != nil {
		return err
	}
	w.violated(left.check(w.planted)...)
	return w.checkHistory(left, settled)
}

func (w *world) checkHistory(left *state, settled time.Time) error {
	h, err := readHistory(w.dir)
	if err != nil {
		return err
	}
	if len(h.requests) == 0 {
		return errors.New("the audit log is empty")
	}
	var living []types.UID
	for i := range left.parents {
		living = append(living, left.parents[i].GetUID())
	}
	w.violated(h.checkFinalized(living)...)
	leaseless, err := h.checkLease()
	if err != nil {
		return err
	}
	w.violated(leaseless...)
	w.violated(h.checkSilence(settled)...)
	return nil
}

// heal ends all faults, and takes off what people have put on.
func (w *world) heal(ctx context.Context) error {
	// The garbage collector waits up to 1000 s before it tries again what has
	// failed often, unless it begins anew.
	w.plane.ControllerManager.Kill()
	if err := w.plane.StartControllerManager(plane.GarbageCollector); err != nil {
		return err
	}
	return plane.Until(ctx, patience, func() error { return w.people.release(ctx) })
}

// hush returns since when no replica has written anything, for as long as it
// must be silent at the end. What was begun before (an Event, a pass that finds
// nothing to do) is waited for; after a long time, the silence that wasn't one
// tells.
func (w *world) hush(ctx context.Context) (since time.Time, err error) {
	for limit := time.Now().Add(patience); ; {
		since = time.Now()
		if !pauseFor(ctx, w.silence) {
			return since, ctx.Err()
		}
		h, err := readHistory(w.dir)
		if err != nil || len(h.checkSilence(since)) == 0 || time.Now().After(limit) {
			return since, err
		}
	}
}

// converge returns when everything is as it should be, and adds what isn't after
// a long time.
func (w *world) converge(ctx context.Context) error {
	var last []violation
	err := plane.Until(ctx, patience, func() error {
		s, err := w.people.look(ctx)
		if err != nil {
			return err
		}
		if last = s.check(w.planted); len(last) > 0 {
			return fmt.Errorf("%d violations", len(last))
		}
		return nil
	})
	if len(last) > 0 && ctx.Err() == nil {
		w.violated(last...)
		return nil
	}
	return err
}

// faults is how many there were, of all kinds.
func (w *world) faults() int {
	requests, _ := w.layer.total()
	return requests + int(w.counts.toxics.Load()+w.counts.control.Load()+w.counts.kills.Load()+w.counts.stops.Load())
}

// detail is for who wants to know what happened.
func (w *world) detail() string {
	_, byKind := w.layer.total()
	text := fmt.Sprintf("seed=%d changes=%d toxics=%d stops=%d overslept=%d control-plane=%d restores=%d", w.seed, w.people.changes.Load(), w.counts.toxics.Load(),
		w.counts.stops.Load(), w.counts.overslept.Load(), w.counts.control.Load(), w.counts.restores.Load())
	for _, kind := range requestFaults {
		text += fmt.Sprintf(" %q=%d", kind, byKind[kind])
	}
	h, err := readHistory(w.dir)
	if err != nil {
		return text
	}
	work, born := 0, map[types.UID]bool{}
	for _, r := range h.requests {
		if r.isWork() {
			work++
		}
		if r.object.Kind == parentType().Kind {
			born[r.object.Metadata.UID] = true
		}
	}
	tenures, _ := h.tenures()
	leaders := map[string]bool{}
	for _, t := range tenures {
		leaders[t.holder] = true
	}
	return text + fmt.Sprintf(" writes=%d instances=%d finalized=%d leaders=%d", work, len(born), len(h.finalized), len(leaders))
}

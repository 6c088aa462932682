package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// Options are runner.Options, whose documentation says what each field means,
// LogLinesDropped, NamespacesExist, KeepHistory, KeepJournal, NewWindow, TakeOver, FinalizeOnly and BuiltIn. The zero value is usable.
type Options struct {
	RESTConfig                    *rest.Config         // nil: in-cluster, else that of a kubeconfig
	Logger                        *slog.Logger         // nil: slog.Default()
	Metrics                       *observe.Registry    // nil: one of its own
	TracerProvider                trace.TracerProvider // nil: no spans are made
	LeaderElection                *lead.Config         // nil: no election
	Elected                       <-chan struct{}      // closed once this process leads; nil: see LeaderElection
	Shards                        int                  // into how many shards replicas divide the parents; 0: they aren't divided
	MetricsAddress, HealthAddress string               // empty: nothing is served
	MetricsSecure                 *access.Security     // nil: what is served at MetricsAddress is open
	ShutdownTimeout               time.Duration        // 0: 30 s
	InstallCRDs                   bool                 // whether config.Operator.CRDs are installed first
	AllowNarrowedCRDs             bool                 // whether that is done where it is refused otherwise
	ParentMetrics                 int                  // of how many parents of an operator there are metrics at most; 0: of none
	// WindowAddress is where the window is served; empty: nowhere. NewWindow makes its page then.
	WindowAddress string
	NewWindow     func(*Window) WindowPage
	// TakeOver has this process take the lease from the one that leads, and names who does
	// so. Empty: it waits for its turn. See lead.Lease.TakeOver.
	TakeOver string
	// FinalizeOnly leaves parents alone that aren't being deleted.
	FinalizeOnly bool
	// ReadOnly is for a plan: nothing is written, and no dry run is sent.
	ReadOnly bool
	// LogLinesDropped returns how many lines of the process's log were dropped. It may be
	// called concurrently. Nil: none are, or it isn't known.
	LogLinesDropped func() uint64
	// NamespacesExist says that the namespaces to which operators are restricted are
	// known to exist: the API server isn't asked for them.
	NamespacesExist bool
	// BuiltIn is as in catalog.Finder; nil: as NewFinder has it.
	BuiltIn func(t resource.Type) *listkeys.Node
	// KeepJournal keeps what a window would show, for tests without one.
	KeepJournal bool
	// KeepHistory keeps errors and conflict loops for tests: see
	// reconcile.Config.
	KeepHistory bool
	// Jitter returns numbers from 0 to 1 that lengthen the waits of every operator's queue, for tests
	// that count. It may be called concurrently. Nil: they are random.
	Jitter func() float64
}

// A Spec is one of the operators of a process.
type Spec struct {
	Config  config.Operator // as the user wrote it, without defaults
	Handler handler.Handler
	// DepartedWithin is a label selector of the parents among which those are looked
	// for that have left the ParentSelector: see reconcile.Config. It is for tests that
	// share a cluster.
	DepartedWithin string
}

// A Manager runs one operator or several. Its methods may be called concurrently.
type Manager struct {
	opts      Options // with every default filled in
	log       *slog.Logger
	operators []*operator // in the order of the specs; at least one

	mu struct {
		sync.Mutex
		started bool
		lease   *lead.Lease         // nil until Start has made it, and without an election
		members *lead.Members       // nil until Start has made them, and where parents aren't divided
		shards  map[int][]*operator // the operators of the shards that this process holds
	}
}

// New returns a manager, or an error that joins every mistake in the specs and
// the options. It makes no request and starts no goroutine.
func New(opts Options, specs ...Spec) (*Manager, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.ShutdownTimeout == 0 {
		opts.ShutdownTimeout = defaults.ShutdownTimeout
	}
	if opts.Metrics == nil {
		opts.Metrics = observe.NewRegistry(nil)
	}
	if opts.ParentMetrics < 0 {
		return nil, fmt.Errorf("runner: Options: ParentMetrics: %d is negative", opts.ParentMetrics)
	}
	m := &Manager{opts: opts, log: opts.Logger}
	if err := m.addOperators(specs); err != nil {
		return nil, err
	}
	if opts.MetricsAddress != "" {
		if err := opts.Metrics.Readable(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(opts.checkSecurity(), opts.checkWindow()); err != nil {
		return nil, err
	}
	if opts.LeaderElection != nil && opts.Elected != nil {
		return nil, errors.New("runner: Options: LeaderElection and Elected are both set; there must be one election")
	}
	if err := m.checkShards(); err != nil {
		return nil, err
	}
	if opts.LeaderElection != nil {
		if err := opts.LeaderElection.Validate(); err != nil {
			return nil, err
		}
	}
	if opts.RESTConfig == nil {
		rc, err := client.LoadRESTConfig("", "")
		if err != nil {
			return nil, err
		}
		m.opts.RESTConfig = rc
	}
	return m, nil
}

// addOperators adds an operator for each spec, and returns an error that joins
// every mistake in the specs.
func (m *Manager) addOperators(specs []Spec) error {
	if len(specs) == 0 {
		return errors.New("runner: there is no operator to run")
	}
	var errs []error
	names := map[string]bool{}
	for _, s := range specs {
		switch err := s.Config.Validate(); {
		case err != nil:
			errs = append(errs, err)
			continue
		case s.Handler == nil:
			errs = append(errs, fmt.Errorf("runner: the handler of operator %q is nil", s.Config.Name))
			continue
		case names[s.Config.Name]:
			errs = append(errs, fmt.Errorf("runner: two operators have the name %q", s.Config.Name))
			continue
		}
		names[s.Config.Name] = true
		o := &operator{
			cfg: defaults.Apply(s.Config), handler: s.Handler, opts: &m.opts, log: m.log.With("controller", s.Config.Name), departedWithin: s.DepartedWithin,
		}
		if m.opts.keepsJournal() {
			o.tap = recording.NewTap(tappedCalls, tappedBytes)
			o.handler = o.tap.Handler(s.Handler)
		}
		m.operators = append(m.operators, o)
	}
	return errors.Join(errs...)
}

// Start runs the operators until ctx ends, and returns nil then. An error says why
// they stopped before. Start returns after every goroutine has ended. A manager
// can be started once.
func (m *Manager) Start(ctx context.Context) error {
	m.mu.Lock()
	again := m.mu.started
	m.mu.started = true
	m.mu.Unlock()
	if again {
		return errors.New("runner: started before; make a new one")
	}
	l, err := client.Connect(m.opts.RESTConfig, m.log)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.Storage = revision.New(end)
	server, err := m.serve(ctx, l)
	if err != nil && ctx.Err() != nil {
		return nil // told to stop: the look-up of an address may have failed for that alone
	}
	if err != nil {
		return err
	}
	defer server.close()
	var before error
	for {
		before = m.term(ctx, l, before)
		if restored := (*revision.RestoredError)(nil); errors.As(context.Cause(ctx), &restored) {
			return errors.Join(restored, before)
		}
		switch {
		case errors.Is(before, lead.ErrYielded):
			m.log.InfoContext(ctx, "the lease was taken over; waiting for it anew")
		case errors.Is(before, lead.ErrGivenAway):
			m.log.InfoContext(ctx, "the lease was given away; waiting for it anew, once lists succeed")
		default:
			return before
		}
	}
}

// term runs the operators as Start does, until another process has taken the lease over, or
// it was given away: the error is lead.ErrYielded or lead.ErrGivenAway then. Nothing of a term
// is left for the next one, so that the operators know no more than after a start. before is
// how the last term ended, nil if this is the first one, in which an operator that can't
// begin ends the process.
func (m *Manager) term(ctx context.Context, l *client.Link, before error) (err error) {
	if err := m.installCRDs(ctx, l); err != nil {
		if ctx.Err() != nil {
			return nil // told to stop
		}
		return err
	}
	elects := m.elects()
	if elects && m.opts.Shards > 0 {
		return m.divided(ctx, l)
	}
	var lock *lead.Lease
	guarded := l
	if elects {
		if lock, err = m.newLease(l); err != nil {
			return err
		}
		guarded = l.Under(lock)
	}
	defer m.unregister()
	defer func() {
		if errors.Is(err, lead.ErrYielded) || errors.Is(err, lead.ErrGivenAway) {
			m.restart()
		}
	}()
	engines, err := m.engines(ctx, guarded, before)
	defer closeAll(engines)
	if err != nil || engines == nil {
		return err
	}
	var needed []catalog.Right
	if lock != nil {
		needed = catalog.LeaseRights(lock.Key().Namespace, lock.Key().Name)
	}
	if err := m.checkRights(ctx, l, engines, needed); err != nil || ctx.Err() != nil {
		return err
	}
	m.tellOpenMetrics(ctx)
	return m.run(ctx, m.operators, engines, lock != nil || m.opts.Elected != nil, func(ctx context.Context, stop func(error), work passesUntil) error {
		if errors.Is(before, lead.ErrGivenAway) && !canList(ctx, engines, stop) {
			return nil
		}
		return m.lead(ctx, stop, lock, work)
	})
}

// engines returns the engines of the operators for a term: see term. It returns nil without
// an error if ctx has ended.
func (m *Manager) engines(ctx context.Context, l *client.Link, before error) ([]*reconcile.Engine, error) {
	if before == nil {
		return newEngines(ctx, l, m.operators)
	}
	return m.connected(ctx, l, m.operators), nil
}

// HasElection says whether Start itself waits until this process leads.
func (m *Manager) HasElection() bool {
	return m.opts.LeaderElection != nil || m.opts.Elected != nil
}

// Engine returns the engine of the first operator, nil before Start has connected
// every operator to the API server.
func (m *Manager) Engine() *reconcile.Engine {
	return m.operators[0].begun()
}

// elects says whether there is an election: dry runs need none.
func (m *Manager) elects() bool {
	if m.opts.LeaderElection == nil {
		return false
	}
	for _, o := range m.operators {
		if !o.cfg.DryRun {
			return true
		}
	}
	m.log.Info("no leader election in a dry run")
	return false
}

// newLease makes the lease of the election, which Healthy looks at from then on.
// The lease isn't taken yet.
func (m *Manager) newLease(l *client.Link) (*lead.Lease, error) {
	settings := m.opts.LeaderElection.WithDefaults(m.operators[0].cfg.Name)
	created, err := lead.NewLease(settings, l.Config, l.As(settings.Name, nil), m.log)
	if err != nil {
		return nil, err
	}
	created.Compare(l.Storage.Of(k8s.Lease.APIVersion, k8s.Lease.Kind))
	if m.opts.TakeOver != "" {
		created.TakeOver(m.opts.TakeOver)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.lease = created
	return created, nil
}

// newEngines connects every operator to the API server. Beside an error it returns
// the engines of the operators that could connect, for the caller to close. It
// returns nil without an error if ctx has ended.
func newEngines(ctx context.Context, l *client.Link, operators []*operator) ([]*reconcile.Engine, error) {
	engines, errs := make([]*reconcile.Engine, len(operators)), make([]error, len(operators))
	var wg sync.WaitGroup
	for i, o := range operators {
		wg.Go(func() { engines[i], errs[i] = o.connect(ctx, l) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil && ctx.Err() != nil {
		closeAll(engines)
		return nil, nil //nolint:nilerr // told to stop
	}
	return engines, err
}

// restart notes that the operators have ended, and are about to begin anew.
func (m *Manager) restart() {
	for _, o := range m.operators {
		o.began(nil)
	}
}

// unregister takes the metrics of all operators out of the registry.
func (m *Manager) unregister() {
	for _, o := range m.operators {
		o.unregister()
	}
}

// closeAll closes the engines that were made.
func closeAll(engines []*reconcile.Engine) {
	for _, e := range engines {
		if e != nil {
			e.Close()
		}
	}
}

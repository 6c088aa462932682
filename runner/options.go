package runner

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/window"
)

// Options are what a Runner needs besides the operator's configuration. The
// zero value is usable.
type Options struct {
	// RESTConfig says how to reach the API server. Nil: in-cluster, else the
	// kubeconfig in KUBECONFIG, else ~/.kube/config. Requests have no
	// client-side rate limit unless RESTConfig sets one.
	RESTConfig *rest.Config
	// Logger gets the logs; nil: slog.Default(). A pass waits for each line that it
	// logs, so a Logger that blocks holds up passes.
	Logger *slog.Logger
	// Metrics gets the operator's metrics; nil: a new registry, which has Go's and
	// the process's metrics as well.
	Metrics prometheus.Registerer
	// TracerProvider gets a span for each pass, with spans below it for the
	// handler and each write; nil: no spans are made.
	TracerProvider trace.TracerProvider
	// LeaderElection makes replicas take turns: only the one that holds the
	// lease calls handlers and writes. Nil: there are no replicas. With
	// DryRun there is no election, since a lease would be written.
	LeaderElection *LeaderElection
	// Elected takes the place of LeaderElection in a program that has an election
	// already: it is closed once this process leads. Until then the operator mirrors what
	// it watches, and is ready. That the process leads no more must end the context of
	// Run. Such a channel is Elected() of controller-runtime's manager. Nil: see
	// LeaderElection.
	Elected <-chan struct{}
	// Sharding has replicas share the parents instead of taking turns. The zero value: they
	// aren't shared.
	Sharding Sharding
	// MetricsAddress is where /metrics is served, HealthAddress where /healthz
	// and /readyz are, as in ":8080"; they may be the same. Empty: nowhere. Beside
	// /metrics, the subcommand explain learns what the process knows of one parent.
	// With a MetricsAddress, Metrics must be nil or a prometheus.Gatherer too.
	MetricsAddress, HealthAddress string
	// MetricsSecure protects all that is served at MetricsAddress, which must be another
	// than HealthAddress then. Nil: it is neither encrypted nor protected, and the log
	// says so. Health never is.
	MetricsSecure *MetricsSecurity
	// WindowAddress is where the window is served, as in ":8090": a page on which people
	// look at the parents and at what the operator does, which docs/guide/window.md tells of. It changes nothing. Without a
	// host it is on 127.0.0.1. On a loopback address or localhost everybody on the machine may look; any other
	// address asks for a token that may get the nonResourceURLs below /window/, by TLS, and as MetricsSecure says (nil: as
	// its zero value). It must be another than MetricsAddress and HealthAddress. Empty: nowhere.
	WindowAddress string
	// ParentMetrics is of how many parents of each operator there are metrics at
	// most, by namespace and name; 0: of none. Those come first that have a pass
	// first, and the metrics of a parent that is gone make room for another's. The
	// metric roperator_parents_without_metrics says how many parents have none.
	// Each parent that has metrics adds three or four series to what is scraped.
	ParentMetrics int
	// ReadOnly is for Plan and PlanFor alone: they send no dry run, so that they need no
	// rights but those to get and list. The plan is less exact then: see Change.Unsure.
	// Run and New refuse it.
	ReadOnly bool
	// InstallCRDs installs config.Operator.CRDs before anything else, also while another
	// replica leads, and waits until they are served, for a minute at most. A definition
	// that is in the cluster as it should be costs one request. What others have added to it
	// stays, such as labels or the certificate authority of its webhook. Refused, as an error of the start with nothing written,
	// is what would narrow a definition, drop a version in which objects may be stored, or put an older build's in
	// the place of a newer one's: docs/guide/crds.md says when, and what to do.
	InstallCRDs bool
	// ShutdownTimeout is how long running passes may go on once the context
	// has ended; 0: 30 s. Then the contexts of handlers end. A handler that
	// doesn't return within five seconds more is left behind: Run returns an
	// error that names it, and the program should end. The lease is released
	// then, since nothing of that pass can be written any more. What the
	// handler itself does, by a client of its own say, nobody can stop but by
	// ending the process.
	ShutdownTimeout time.Duration
}

// MetricsSecurity says how what is served at Options.MetricsAddress is protected: by
// TLS, and by asking the API server, with a TokenReview and a SubjectAccessReview, whether
// the bearer of the token in a request may get its path, which is a nonResourceURL of
// RBAC. That takes the rights to create both. A request without a valid token is answered 401, one that isn't allowed 403, and 503 or 500 where the API server
// can't be asked. A yes holds for a minute, a no for ten seconds. The zero value is usable.
type MetricsSecurity struct {
	// CertDir is a folder with the certificate, in the file CertName (default "tls.crt"),
	// and its key, in the file KeyName (default "tls.key"), both as PEM. They are read
	// again every ten seconds. If one is missing or can't be used, that is an error at the
	// start; later it is a warning in the log, and the certificate before stays in use.
	// Empty: certificates are self-signed, in memory, for 90 days each, and renewed
	// before their end.
	CertDir, CertName, KeyName string
	// Audiences are those of which a token must be meant for one. None: a token must be
	// meant for the API server.
	Audiences []string
	// HTTP2 offers HTTP/2 beside HTTP/1.1.
	HTTP2 bool
}

// A Spec is one of several operators of a process.
type Spec struct {
	Config  config.Operator // its name must be unique in the process
	Handler handler.Handler // not nil
}

// LeaderElection says how replicas take turns, by a Lease
// (coordination.k8s.io/v1). The zero value is usable.
//
// A replica that stops hands over: its running passes end, then it gives up
// the lease, and another takes over within 2.2 times RetryPeriod. After a crash
// that takes up to LeaseDuration longer. A replica that couldn't renew the lease
// for RenewDeadline, or finds that another has it, starts no further write, and
// stops with an error.
type LeaderElection struct {
	// Namespace and Name are the Lease's. Default: the namespace that the Pod
	// is in, outside of a Pod "default", whatever a kubeconfig says; and the
	// operator's name.
	Namespace, Name string
	// Identity tells this replica from the others. Default: the host's name,
	// which is the Pod's, and something random.
	Identity string
	// LeaseDuration (default 15 s) must be in whole seconds, since a Lease counts
	// so. It must be longer than RenewDeadline (10 s), and that longer than 1.2
	// times RetryPeriod (2 s).
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Sharding says how replicas share the parents: as shards, each of which is the work of one
// replica at a time. docs/guide/scale.md says when that is worth it: one process is nearly
// always enough.
//
// A parent's shard follows from its UID. Each shard has a Lease in the namespace of
// Options.LeaderElection, whose fields hold here, too; nil means its zero value. The replicas hold
// equally many shards, or one more. One that comes takes its part from the others within 2.2 times
// RetryPeriod, one that stops hands its shards over within that time, and those of one that has
// crashed are taken over within LeaseDuration and 2.2 times RetryPeriod, or 4.4 times if another one starts meanwhile. Before a write for a parent, a
// replica makes sure that it holds the Lease of the shard. The replicas hold the Lease of the undivided
// operator together: a replica with another number of shards, or without, waits until the last of them has ended,
// and they wait for it. A Config with DryRun isn't divided.
//
// Children get the label config.Operator.BucketLabel, so that the API server sends a replica
// only those of its own parents. Those that exist already get it by a patch when a shard is taken
// for the first time. Each replica has MaxConcurrentSyncs passes under way at once, whatever number of
// shards it has. Metrics have the label shard.
type Sharding struct {
	// Shards is how many shards there are: a power of two up to 64, and more than there are ever
	// replicas, twice as many say, so that they can be spread evenly. 0: the parents aren't divided. It can
	// be changed by a rolling update: the new replicas begin when the last of the old ones has ended.
	Shards int
}

// manager returns the options in the form that package manager takes.
func (o Options) manager() manager.Options {
	out := manager.Options{
		RESTConfig: o.RESTConfig, Logger: o.Logger, Metrics: observe.NewRegistry(o.Metrics), TracerProvider: o.TracerProvider, Elected: o.Elected,
		MetricsAddress: o.MetricsAddress, HealthAddress: o.HealthAddress, WindowAddress: o.WindowAddress, ShutdownTimeout: o.ShutdownTimeout,
		Shards: o.Sharding.Shards, ParentMetrics: o.ParentMetrics, ReadOnly: o.ReadOnly, InstallCRDs: o.InstallCRDs, NewWindow: newWindow,
	}
	if o.MetricsSecure != nil {
		out.MetricsSecure = new(access.Security(*o.MetricsSecure))
	}
	if o.LeaderElection != nil {
		election := lead.Config(*o.LeaderElection)
		out.LeaderElection = &election
	}
	return out
}

// newWindow returns the page of a window.
func newWindow(w *manager.Window) manager.WindowPage {
	return window.New(w, window.Options{Loopback: w.Loopback, Protect: w.Protect, Log: w.Log})
}

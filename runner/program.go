package runner

import (
	"context"
	"flag"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/cli"
	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/leave"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/plan"
)

// A Program is what Main runs, with all that Main has no argument for: several
// operators, flags of its own, and Options.
//
//	func main() {
//		var region string
//		runner.Program{
//			OperatorsFor: func(rc *rest.Config) ([]runner.Spec, error) { return operators(rc, region) },
//			Flags:        func(fs *flag.FlagSet) { fs.StringVar(&region, "region", "eu", "where buckets are made") },
//		}.Main()
//	}
//
// Subcommands and flags are those of Main. They hold for all of its operators: plan
// and release-finalizers go through one operator after the other, and manifests prints
// one installation, whose rights are those that its operators need together.
type Program struct {
	// Operators are what the program runs, as RunAll does. Their names differ.
	Operators []Spec
	// OperatorsFor, in place of Operators, returns them once the flags are read. rc is
	// how to reach the API server that the command line names: a client of the handler's
	// own that is made from it can't talk to another cluster than the operator does. rc
	// is a copy, to be kept or changed. The subcommand manifests asks no API server: it
	// gets an rc whose requests fail. An error ends the program.
	OperatorsFor func(rc *rest.Config) ([]Spec, error)
	// Options hold as they do for RunAll, but where a flag says something else:
	// MetricsAddress and HealthAddress are the defaults of --metrics-bind-address and
	// --health-probe-bind-address (empty: ":8080" and ":8081"; "0": nothing is served),
	// WindowAddress that of --window-bind-address (empty: "0"),
	// ParentMetrics that of --parent-metrics, Sharding that of --shards, InstallCRDs that of --install-crds,
	// MetricsSecure that of --metrics-secure and of the flags that go with it.
	// With LeaderElection, the default of --leader-elect is true; its fields hold either
	// way. RESTConfig holds unless --kubeconfig or --context is given. With a Logger,
	// there are no --log-level and --log-format, and nothing keeps a slow Logger from
	// holding up passes. plan, explain, release-finalizers and migrate-storage use of them
	// RESTConfig and Logger alone.
	Options Options
	// Flags registers flags of the program's own, which every subcommand has. Their
	// names must be none of any subcommand's flags. It may be called more than once;
	// what counts is the last call. Nil: there are none.
	Flags func(fs *flag.FlagSet)
	// Rules are the rights that handlers need for requests of their own, beside those that
	// the configurations tell of. The subcommand manifests grants them wherever the operators
	// work: in the whole cluster, or in the namespaces that all of them are restricted to.
	Rules []rbacv1.PolicyRule
	// Name is the program's, in its help and for the objects that manifests prints.
	// Default: the first operator's.
	Name string
}

// Main does what the command line says, as the function Main does, and ends the
// process.
func (p Program) Main() { p.program().Main() }

// Execute does what args say, as Main does, but neither reads os.Args nor ends the
// process, and waits for no signal: it is for a program that has a command line of its
// own, and offers these subcommands on it. args lacks the name of the program. The end
// of ctx ends the subcommand. Execute returns the exit code.
func (p Program) Execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return p.program().Do(ctx, args, stdout, stderr)
}

// program returns the program with the functions of this package.
func (p Program) program() *cli.Program {
	out := &cli.Program{
		Name: p.Name, Flags: p.Flags, Rules: p.Rules, Operators: operatorsOf(p.Operators),
		Defaults: cli.Defaults{
			RESTConfig: p.Options.RESTConfig, Logger: p.Options.Logger, MetricsAddress: p.Options.MetricsAddress, HealthAddress: p.Options.HealthAddress, WindowAddress: p.Options.WindowAddress,
			Shards: p.Options.Sharding.Shards, ParentMetrics: p.Options.ParentMetrics, InstallCRDs: p.Options.InstallCRDs,
		},
		Run: p.run, Plan: p.plan, Explain: p.explain, Release: p.release, Leave: p.leave, MigrateStorage: p.migrateStorage,
	}
	if p.Options.MetricsSecure != nil {
		out.Defaults.MetricsSecure = new(access.Security(*p.Options.MetricsSecure))
	}
	if election := p.Options.LeaderElection; election != nil {
		out.Defaults.LeaderElect = true
		out.Defaults.Lease = types.NamespacedName{Namespace: election.Namespace, Name: election.Name}
	}
	if p.OperatorsFor != nil {
		out.OperatorsFor = func(rc *rest.Config) ([]cli.Operator, error) {
			specs, err := p.OperatorsFor(rc)
			return operatorsOf(specs), err
		}
	}
	return out
}

// operatorsOf returns operators in the form that package cli takes.
func operatorsOf(specs []Spec) []cli.Operator {
	var out []cli.Operator
	for _, s := range specs {
		out = append(out, cli.Operator(s))
	}
	return out
}

// run carries out the subcommand run.
func (p Program) run(ctx context.Context, operators []cli.Operator, said cli.Options) error {
	opts := optionsOf(said)
	opts.MetricsAddress, opts.HealthAddress, opts.WindowAddress = said.MetricsAddress, said.HealthAddress, said.WindowAddress
	opts.Metrics, opts.TracerProvider, opts.ShutdownTimeout = p.Options.Metrics, p.Options.TracerProvider, p.Options.ShutdownTimeout
	opts.Elected, opts.ParentMetrics, opts.InstallCRDs = p.Options.Elected, said.ParentMetrics, said.InstallCRDs
	if said.MetricsSecure != nil {
		opts.MetricsSecure = new(MetricsSecurity(*said.MetricsSecure))
	}
	if opts.Sharding.Shards = said.Shards; said.LeaderElect || said.Shards > 0 {
		opts.LeaderElection = p.election(said)
	}
	made := opts.manager()
	made.AllowNarrowedCRDs = said.AllowNarrowedCRDs
	made.LogLinesDropped, made.TakeOver = said.LogLinesDropped, said.TakeOver
	var specs []manager.Spec
	for _, o := range operators {
		specs = append(specs, manager.Spec{Config: o.Config, Handler: o.Handler})
	}
	m, err := manager.New(made, specs...)
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// election returns the election that the options and the command line ask for.
func (p Program) election(said cli.Options) *LeaderElection {
	election := LeaderElection{}
	if p.Options.LeaderElection != nil {
		election = *p.Options.LeaderElection
	}
	if said.LeaseNamespace != "" {
		election.Namespace = said.LeaseNamespace
	}
	if said.TakeOver != "" {
		election.Identity = "" // one of this process's own: the program may give all replicas in a place one
	}
	return &election
}

// plan carries out the subcommand plan for one operator.
func (p Program) plan(ctx context.Context, o cli.Operator, said cli.Options, edited []plan.Edited) ([]plan.Change, error) {
	opts := optionsOf(said)
	opts.ReadOnly = said.ReadOnly
	return foresee(ctx, o.Config, o.Handler, opts, edited)
}

// release carries out the subcommand release-finalizers for one operator.
func (p Program) release(ctx context.Context, o cli.Operator, said cli.Options, say func(string)) (int, error) {
	r, err := New(o.Config, handler.SyncFunc(nil), optionsOf(said))
	if err != nil {
		return 0, err
	}
	return r.manager.Release(ctx, say)
}

// migrateStorage carries out the subcommand migrate-storage.
func (p Program) migrateStorage(ctx context.Context, operators []cli.Operator, said cli.Options, dryRun bool, say func(string)) error {
	var specs []Spec
	for _, o := range operators {
		specs = append(specs, Spec{o.Config, handler.SyncFunc(nil)})
	}
	r, err := newRunner(optionsOf(said), specs...)
	if err != nil {
		return err
	}
	return r.manager.MigrateStorage(ctx, dryRun, say)
}

// leave carries out the subcommand uninstall.
func (p Program) leave(ctx context.Context, operators []cli.Operator, said cli.Options, how leave.How, agree func(*leave.Departure) bool, tell func(string)) (*leave.Departure, error) {
	opts := optionsOf(said)
	opts.LeaderElection = p.election(said)
	opts.LeaderElection.Identity = "" // this process is none of the replicas
	var specs []Spec
	for _, o := range operators {
		specs = append(specs, Spec(o))
	}
	r, err := newRunner(opts, specs...)
	if err != nil {
		return nil, err
	}
	return r.manager.Leave(ctx, how, agree, tell)
}

// optionsOf returns the options that every subcommand has.
func optionsOf(said cli.Options) Options {
	return Options{RESTConfig: said.RESTConfig, Logger: said.Logger}
}

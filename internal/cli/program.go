package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/leave"
	"github.com/roperator/roperator/internal/engine/plan"
)

// A Program is one operator or several, and the functions that carry out its
// subcommands. The functions get the configurations as the flags change them.
type Program struct {
	// Name is the program's. Empty: the first operator's, or, where that isn't
	// known yet, that of the command.
	Name string
	// Either Operators or OperatorsFor is set. OperatorsFor gets a configuration of
	// its own, which reaches no API server if the subcommand is to ask none.
	Operators    []Operator
	OperatorsFor func(rc *rest.Config) ([]Operator, error)
	// Flags registers the program's own flags, which all subcommands have then; nil:
	// there are none.
	Flags func(fs *flag.FlagSet)
	// Rules are rights that handlers need, for the objects that manifests prints.
	Rules    []rbacv1.PolicyRule
	Defaults Defaults

	// Run runs the operators until ctx ends, and returns nil then.
	Run func(ctx context.Context, operators []Operator, opts Options) error
	// Plan returns what an operator would change: for these parents as they would be, or, if
	// edited is nil, for all. There may be changes beside an error.
	Plan func(ctx context.Context, operator Operator, opts Options, edited []plan.Edited) ([]plan.Change, error)
	// Explain says why a parent of an operator and its children are as they are. known is what
	// the running process says.
	Explain func(ctx context.Context, operator Operator, opts Options, parent types.NamespacedName, known explain.Process) (explain.Explanation, error)
	// Release takes an operator's finalizers off every parent. It calls say with a
	// line for each parent that had one, and returns how many parents there are.
	Release func(ctx context.Context, operator Operator, opts Options, say func(text string)) (parents int, err error)
	// MigrateStorage has every object of the operators' CRDs stored in the storage version.
	// It calls say with lines about its progress.
	MigrateStorage func(ctx context.Context, operators []Operator, opts Options, dryRun bool, say func(text string)) error
	// Leave takes the operators out of the cluster: see manager.Manager.Leave. The Departure is nil
	// if the operators couldn't be looked at.
	Leave func(ctx context.Context, operators []Operator, opts Options, how leave.How, agree func(*leave.Departure) bool, tell func(text string)) (*leave.Departure, error)
	// Input is where answers to questions come from; nil: the terminal.
	Input io.Reader
}

// An Operator is one of a Program.
type Operator struct {
	Config  config.Operator
	Handler handler.Handler
}

// Defaults are what holds where the command line says nothing.
type Defaults struct {
	RESTConfig *rest.Config // nil: what client.LoadRESTConfig finds
	// Logger takes the place of the flags of the log, which don't exist then; nil:
	// the log is written to the standard error.
	Logger *slog.Logger
	// MetricsAddress and HealthAddress are those of the flags; empty: ":8080" and
	// ":8081".
	MetricsAddress, HealthAddress string
	WindowAddress                 string // that of the flag; empty: "0"
	ParentMetrics                 int
	MetricsSecure                 *access.Security // the values of --metrics-secure and its like; nil: it is off
	LeaderElect                   bool
	Shards                        int
	InstallCRDs                   bool
	// Lease is the one of the election. Without a name it has the first operator's,
	// without a namespace it is in the Pod's: see lead.Config.
	Lease types.NamespacedName
}

// Options are what the command line says besides the configuration.
type Options struct {
	RESTConfig *rest.Config // how to reach the API server; never nil
	Logger     *slog.Logger // never nil
	ReadOnly   bool         // of plan: send no dry runs

	// The other fields are zero for every subcommand but run. Only LeaseNamespace is set for
	// uninstall, too.

	MetricsAddress, HealthAddress string           // empty: nothing is served
	WindowAddress                 string           // empty: no window is
	LeaderElect                   bool             // whether replicas take turns
	Shards                        int              // into how many shards replicas divide the parents; 0: they don't
	ParentMetrics                 int              // of how many parents there are metrics at most
	InstallCRDs                   bool             // whether config.Operator.CRDs are installed at the start
	AllowNarrowedCRDs             bool             // whether that is done where it is refused otherwise
	LeaseNamespace                string           // of the election's Lease; empty: as the program says
	TakeOver                      string           // who takes the lease from the deployed operator; empty: nobody
	MetricsSecure                 *access.Security // nil: metrics are open
	// LogLinesDropped returns how many lines of the log were dropped; nil: none are.
	LogLinesDropped func() uint64
}

// Do does what the arguments say, and returns the exit code. args lacks the name of
// the program. The end of ctx ends the subcommand.
func (p *Program) Do(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, do, code := p.parse(args, stdout, stderr)
	if do == nil {
		return code
	}
	return do(ctx, c)
}

// name returns the program's name, as far as it is known before the operators are.
func (p *Program) name() string {
	switch {
	case p.Name != "":
		return p.Name
	case len(p.Operators) > 0 && p.Operators[0].Config.Name != "":
		return p.Operators[0].Config.Name
	}
	return filepath.Base(os.Args[0])
}

// check returns what is wrong with the Program itself.
func (p *Program) check() error {
	switch {
	case p.Operators != nil && p.OperatorsFor != nil:
		return errors.New("runner.Program: Operators and OperatorsFor are both set; set one of them")
	case len(p.Operators) == 0 && p.OperatorsFor == nil:
		return errors.New("runner.Program: it has no operators; set Operators or OperatorsFor")
	}
	return nil
}

// operators returns the operators as the flags change them. rc is the API server that
// the command line says.
func (c *command) operators(rc *rest.Config) ([]Operator, error) {
	given := c.program.Operators
	if c.program.OperatorsFor != nil {
		var err error
		if given, err = c.program.OperatorsFor(rest.CopyConfig(rc)); err != nil {
			return nil, fmt.Errorf("runner.Program: OperatorsFor: %w", err)
		}
		if len(given) == 0 {
			return nil, errors.New("runner.Program: OperatorsFor returned no operators")
		}
	}
	out := make([]Operator, 0, len(given))
	names := map[string]bool{}
	for _, o := range given {
		if names[o.Config.Name] {
			return nil, fmt.Errorf("runner.Program: two operators have the name %q", o.Config.Name)
		}
		names[o.Config.Name] = true
		out = append(out, Operator{Config: c.flags.apply(o.Config), Handler: o.Handler})
	}
	return out, nil
}

// reach returns the operators, and the Options that the flags ask for. An error says
// why no API server was found, or what is wrong with the operators.
func (c *command) reach() ([]Operator, Options, error) {
	opts, err := c.options()
	if err != nil {
		return nil, opts, err
	}
	operators, err := c.operators(opts.RESTConfig)
	return operators, opts, err
}

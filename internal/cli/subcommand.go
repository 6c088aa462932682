package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/roperator/roperator/internal/engine/client"
)

// A subcommand is something that an operator's program can do.
type subcommand struct {
	name, summary string
	argument      string // what stands beside the flags, as its help calls it; empty: nothing
	details       string // printed in its help, after the summary
	// outlasts: it goes on when nobody reads its output any more. Otherwise its next line would end the process
	// with SIGPIPE, in the middle of what it does in the cluster and with its Lease held.
	outlasts bool
	// prepare registers the flags that only this subcommand has, and returns what
	// is to be done once the flags were read.
	prepare func(fs *flag.FlagSet, f *flags) carryOut
}

// A carryOut does what the command line asks for, and returns the exit code.
type carryOut func(ctx context.Context, c *command) int

// A command is a subcommand with the command line that called it.
type command struct {
	program        *Program
	flags          *flags
	log            *slog.Logger
	lost           func() uint64 // how many lines of log were dropped; nil: none are
	stdout, stderr io.Writer
	argument       string // beside the flags; empty: there is none
}

// subcommands returns all of them, the default first.
func subcommands() []subcommand {
	return []subcommand{runSubcommand(), planSubcommand(), explainSubcommand(), manifestsSubcommand(), releaseSubcommand(), migrateSubcommand(), uninstallSubcommand()}
}

// options returns the Options that the flags ask for. An error says why no API
// server was found.
func (c *command) options() (Options, error) {
	opts := Options{
		RESTConfig: c.program.Defaults.RESTConfig, Logger: c.log, LogLinesDropped: c.lost, LeaderElect: c.flags.leaderElect, Shards: c.flags.shards, InstallCRDs: c.flags.installCRDs, AllowNarrowedCRDs: c.flags.allowNarrowedCRDs, ParentMetrics: c.flags.parentMetrics,
		MetricsAddress: listenAt(c.flags.metricsAddress), HealthAddress: listenAt(c.flags.healthAddress), WindowAddress: listenAt(c.flags.windowAddress),
	}
	opts.MetricsSecure = c.flags.secure.security()
	var err error
	if c.readsKubeconfig() {
		opts.RESTConfig, err = client.LoadRESTConfig(c.flags.kubeconfig, c.flags.context)
	}
	return opts, err
}

// listenAt returns the address that a flag names, "" if the flag is "0", which
// means that nothing is served.
func listenAt(flag string) string {
	if flag == "0" {
		return ""
	}
	return flag
}

// parse returns what the arguments ask for. Where that is only to print a help
// text or a mistake, parse prints it, and returns a nil carryOut and the exit code.
func (p *Program) parse(args []string, stdout, stderr io.Writer) (*command, carryOut, int) {
	if err := p.check(); err != nil {
		printErrors(stderr, p.name(), err)
		return nil, nil, exitUsage
	}
	chosen, named, rest, err := choose(args)
	if err != nil {
		printErrors(stderr, p.name(), err)
		p.printUsage(stderr, chosen, false)
		return nil, nil, exitUsage
	}
	f := &flags{}
	fs, do, err := p.flagSet(&chosen, f)
	if err != nil {
		printErrors(stderr, p.name(), err)
		return nil, nil, exitUsage
	}
	argument := ""
	if err = fs.Parse(rest); err == nil && chosen.argument != "" && fs.NArg() > 0 {
		argument = fs.Arg(0)
		err = fs.Parse(fs.Args()[1:]) // flags may stand behind it
	}
	if err == nil {
		err = f.develop(fs)
	}
	if err == nil {
		err = f.check(fs.Args())
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		p.printUsage(stdout, chosen, named)
		return nil, nil, exitOK
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", p.name(), err)
		p.printUsage(stderr, chosen, named)
		return nil, nil, exitUsage
	}
	return &command{program: p, flags: f, log: f.logger(stderr), stdout: stdout, stderr: stderr, argument: argument}, do, exitOK
}

// choose returns the subcommand that the arguments begin with, and the arguments after
// it; or the default, which they don't name.
func choose(args []string) (chosen subcommand, named bool, rest []string, err error) {
	all := subcommands()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return all[0], false, args, nil
	}
	for _, s := range all {
		if s.name == args[0] {
			return s, true, args[1:], nil
		}
	}
	return all[0], false, args, fmt.Errorf("unknown subcommand %q", args[0])
}

// flagSet returns the flags of a subcommand and the program's own, which write their
// values to f and the program, and what is to be done once they were read.
func (p *Program) flagSet(s *subcommand, f *flags) (*flag.FlagSet, carryOut, error) {
	fs := flag.NewFlagSet(p.name(), flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	f.defaults = p.Defaults
	f.common(fs)
	do := s.prepare(fs, f)
	return fs, do, p.addOwnFlags(fs)
}

// printUsage prints the help of a subcommand, or, if the command line named none,
// that of the program with the flags of the default.
func (p *Program) printUsage(w io.Writer, s subcommand, named bool) {
	name := p.name()
	if named {
		fmt.Fprintf(w, "Usage: %s %s [flags]\n\n%s: %s.\n", name, strings.TrimSpace(s.name+" "+s.argument), s.name, s.summary)
		if s.details != "" {
			fmt.Fprintf(w, "\n%s\n", s.details)
		}
	} else {
		fmt.Fprintf(w, "%s\n\nUsage: %s [subcommand] [flags]\n\nSubcommands:\n", p.summary(), name)
		for _, each := range subcommands() {
			fmt.Fprintf(w, "  %-18s  %s\n", each.name, each.summary)
		}
		fmt.Fprintf(w, "\n%s SUBCOMMAND --help tells more of one.\n", name)
	}
	fs, _, err := p.flagSet(&s, &flags{})
	if err != nil {
		return // said already
	}
	fmt.Fprint(w, "\nFlags:\n")
	fs.SetOutput(w)
	fs.PrintDefaults()
}

// summary returns a sentence that says what the program does.
func (p *Program) summary() string {
	switch len(p.Operators) {
	case 0:
		return fmt.Sprintf("Runs the operators of %s.", p.name())
	case 1:
		cfg := p.Operators[0].Config
		return fmt.Sprintf("Runs the operator %s: %s and its children.", cfg.Name, cfg.Parent)
	}
	var b strings.Builder
	b.WriteString("Runs these operators, each of which handles a type and its children:\n")
	for _, o := range p.Operators {
		fmt.Fprintf(&b, "\n  %-18s  %s", o.Config.Name, o.Config.Parent)
	}
	return b.String()
}

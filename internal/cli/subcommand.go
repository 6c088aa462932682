package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/client"
)

// A subcommand is something that an operator's program can do.
type subcommand struct {
	name, summary string
	details       string // printed in its help, after the summary
	// prepare registers the flags that only this subcommand has, and returns what
	// is to be done once the flags were read.
	prepare func(fs *flag.FlagSet, f *flags) carryOut
}

// A carryOut does what the command line asks for, and returns the exit code.
type carryOut func(ctx context.Context, c *command) int

// A command is a subcommand with the command line that called it.
type command struct {
	program        *Program
	cfg            config.Operator // as the flags change it
	flags          *flags
	log            *slog.Logger
	lost           func() uint64 // how many lines of log were dropped; nil: none are
	stdout, stderr io.Writer
}

// subcommands returns all of them, the default first.
func subcommands() []subcommand {
	return []subcommand{runSubcommand(), planSubcommand(), manifestsSubcommand(), releaseSubcommand()}
}

// options returns the Options that the flags ask for. An error says why no API
// server was found.
func (c *command) options() (Options, error) {
	rc, namespace, err := client.LoadRESTConfig(c.flags.kubeconfig, c.flags.context)
	return Options{
		RESTConfig: rc, Namespace: namespace, Logger: c.log, LogLinesDropped: c.lost, LeaderElect: c.flags.leaderElect,
		MetricsAddress: listenAt(c.flags.metricsAddress), HealthAddress: listenAt(c.flags.healthAddress),
	}, err
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
	cfg := p.Config
	all := subcommands()
	chosen, named := all[0], len(args) > 0 && !strings.HasPrefix(args[0], "-")
	if named {
		found := false
		for _, s := range all {
			if found = s.name == args[0]; found {
				chosen = s
				break
			}
		}
		if !found {
			fmt.Fprintf(stderr, "%s: unknown subcommand %q\n", cfg.Name, args[0])
			printUsage(stderr, cfg, all[0], false)
			return nil, nil, exitUsage
		}
		args = args[1:]
	}
	f := &flags{}
	fs, do := chosen.flagSet(cfg.Name, f)
	err := fs.Parse(args)
	if err == nil {
		err = f.check(fs.Args())
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout, cfg, chosen, named)
		return nil, nil, exitOK
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", cfg.Name, err)
		printUsage(stderr, cfg, chosen, named)
		return nil, nil, exitUsage
	}
	return &command{program: p, cfg: f.apply(cfg), flags: f, log: f.logger(stderr), stdout: stdout, stderr: stderr}, do, exitOK
}

// flagSet returns the flags of a subcommand, which write their values to f, and
// what is to be done once they were read.
func (s *subcommand) flagSet(operator string, f *flags) (*flag.FlagSet, carryOut) {
	fs := flag.NewFlagSet(operator, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	f.common(fs)
	return fs, s.prepare(fs, f)
}

// printUsage prints the help of a subcommand, or, if the command line named none,
// that of the program with the flags of the default.
func printUsage(w io.Writer, cfg config.Operator, s subcommand, named bool) {
	if named {
		fmt.Fprintf(w, "Usage: %s %s [flags]\n\n%s: %s.\n", cfg.Name, s.name, s.name, s.summary)
		if s.details != "" {
			fmt.Fprintf(w, "\n%s\n", s.details)
		}
	} else {
		fmt.Fprintf(w, "Runs the operator %s: %s and its children.\n\nUsage: %s [subcommand] [flags]\n\nSubcommands:\n", cfg.Name, cfg.Parent, cfg.Name)
		for _, each := range subcommands() {
			fmt.Fprintf(w, "  %-18s  %s\n", each.name, each.summary)
		}
		fmt.Fprintf(w, "\n%s SUBCOMMAND --help tells more of one.\n", cfg.Name)
	}
	fmt.Fprint(w, "\nFlags:\n")
	fs, _ := s.flagSet(cfg.Name, &flags{})
	fs.SetOutput(w)
	fs.PrintDefaults()
}

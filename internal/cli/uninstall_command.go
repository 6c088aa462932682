package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/roperator/roperator/internal/cli/terminal"
	"github.com/roperator/roperator/internal/cli/uninstall"
	"github.com/roperator/roperator/internal/engine/leave"
)

const uninstallDetails = `It deletes the parents, and waits until they and their children are gone. The
operator in the cluster has to run meanwhile, since it finalizes them. What is
left in the end is named, and what to remove next. It asks before it begins.
It may be interrupted, and run again to go on.

With --keep-children or --keep-parents it takes the operator's Lease first, so
that nothing is written anew, and gives it back. Parents that are created
meanwhile are left alone, and are an error.

Exit code: 0 if nothing is left that was to go, else 1.`

// uninstallSubcommand returns the subcommand that takes the operators out of a cluster.
func uninstallSubcommand() subcommand {
	return subcommand{name: "uninstall", outlasts: true, summary: "delete or release the parents, wait for their end, and say what is left", details: uninstallDetails, prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		how, yes := leave.How{}, false
		fs.DurationVar(&how.Drain, "drain", 5*time.Minute, "how long to wait for the end of parents and children")
		fs.BoolVar(&how.KeepChildren, "keep-children", false, "let the children stay, as nobody's: without the operator's labels and owner references")
		fs.BoolVar(&how.KeepParents, "keep-parents", false, "let the parents stay, without the operator's finalizer; Finalize isn't called")
		fs.BoolVar(&how.Finalize, "finalize", false, "let this process finalize the parents, if no operator works in the cluster")
		fs.BoolVar(&yes, "yes", false, "don't ask")
		fs.BoolVar(&f.dryRun, "dry-run", false, "only say what would be done")
		fs.StringVar(&f.leaseNamespace, "leader-elect-resource-namespace", "", "namespace of the operator's Lease (default: the Pod's, outside of a Pod the program's name with -system)")
		return func(ctx context.Context, c *command) int {
			if err := c.uninstall(ctx, how, yes); err != nil {
				printErrors(c.stderr, "uninstall", err)
				return exitError
			}
			return exitOK
		}
	}}
}

// errLeft is the error about what is left, which was printed before.
var errLeft = errors.New("something is left; run it again to go on")

// uninstall carries out the subcommand.
func (c *command) uninstall(ctx context.Context, how leave.How, yes bool) error {
	operators, opts, err := c.reach()
	if err != nil {
		return err
	}
	c.findLease(operators, &opts)
	var refused error
	d, err := c.program.Leave(ctx, operators, opts, how, func(d *leave.Departure) bool {
		uninstall.PrintPlan(c.stdout, d, how)
		if c.flags.dryRun {
			return false
		}
		agreed := yes
		if !agreed {
			agreed, refused = c.confirm(ctx)
		}
		return agreed
	}, func(text string) { fmt.Fprintln(c.stdout, terminal.Printable(text)) })
	if err = errors.Join(refused, err); d == nil || !d.Agreed {
		return err
	}
	in := uninstall.Installation{
		Program: cmp.Or(c.program.Name, operators[0].Config.Name), Namespace: opts.LeaseNamespace, Lease: cmp.Or(c.program.Defaults.Lease.Name, operators[0].Config.Name), Within: c.flags.namespace,
	}
	if !uninstall.PrintLeft(c.stdout, d, how, in) {
		err = errors.Join(err, errLeft)
	}
	return err
}

// confirm asks on the terminal whether to go on.
func (c *command) confirm(ctx context.Context) (bool, error) {
	in := c.program.Input
	if in == nil {
		info, err := os.Stdin.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return false, errors.New("nothing was done: there is no terminal to ask on; use --yes")
		}
		in = os.Stdin
	}
	fmt.Fprint(c.stdout, `Go on? Type "yes": `)
	answers := make(chan string, 1)
	go func() { // ends with the answer, or with the process
		defer close(answers)
		if line, err := bufio.NewReader(in).ReadString('\n'); err == nil || line != "" {
			answers <- strings.TrimSpace(line)
		}
	}()
	select {
	case answer, some := <-answers:
		switch {
		case answer == "yes":
			return true, nil
		case !some: // such as /dev/null, or a terminal's Control-D
			fmt.Fprintln(c.stdout)
			return false, errors.New("nothing was done: there was no answer; use --yes where nobody can give one")
		}
		return false, errors.New("nothing was done")
	case <-ctx.Done():
		return false, fmt.Errorf("nothing was done: %w", context.Cause(ctx))
	}
}

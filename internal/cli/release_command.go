package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/roperator/roperator/internal/cli/planprint"
)

const releaseDetails = `For an operator that is to be uninstalled: its parents could not be deleted
afterwards otherwise. Stop the operator first, since it would add its finalizer
again. Finalize isn't called: what it would have cleaned up stays.`

// releaseSubcommand returns the subcommand that releases every parent.
func releaseSubcommand() subcommand {
	return subcommand{name: "release-finalizers", outlasts: true, summary: "take the operator's finalizers off every parent", details: releaseDetails, prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		fs.BoolVar(&f.dryRun, "dry-run", false, "only say which would be taken off")
		return func(ctx context.Context, c *command) int {
			operators, opts, err := c.reach()
			if err == nil {
				err = c.release(ctx, operators, opts)
			}
			if err != nil {
				printErrors(c.stderr, "release-finalizers", err)
				return exitError
			}
			return exitOK
		}
	}}
}

// release takes the finalizers of each operator off every parent. An operator that
// fails doesn't keep the others' parents from being released: the error joins what
// went wrong.
func (c *command) release(ctx context.Context, operators []Operator, opts Options) error {
	var errs []error
	for _, o := range operators {
		errs = append(errs, c.releaseOne(ctx, o, opts, heading(operators, o)))
	}
	return errors.Join(errs...)
}

// releaseOne takes an operator's finalizers off every parent, whether the
// ParentSelector matches it or not, and prints a line for each. A parent that
// fails doesn't keep the others from being released: the error joins what went
// wrong. The last line begins with heading.
func (c *command) releaseOne(ctx context.Context, o Operator, opts Options, heading string) error {
	o.Config.ParentSelector = "" // a parent that has left the selector may still have the finalizer
	count := 0
	parents, err := c.program.Release(ctx, o, opts, func(text string) {
		count++
		fmt.Fprintln(c.stdout, text)
	})
	if err != nil && parents == 0 {
		return err
	}
	would := ""
	if o.Config.DryRun {
		would = "would be "
	}
	fmt.Fprintf(c.stdout, "%s%d of %s %sreleased.\n", heading, count, planprint.Counted(parents, "parent"), would)
	return err
}

// heading returns what tells an operator's line from those of the others: nothing, if
// there are no others.
func heading(operators []Operator, o Operator) string {
	if len(operators) == 1 {
		return ""
	}
	return o.Config.Name + ": "
}

package cli

import (
	"context"
	"flag"
	"fmt"
)

const releaseDetails = `For an operator that is to be uninstalled: its parents could not be deleted
afterwards otherwise. Stop the operator first, since it would add its finalizer
again. Finalize isn't called: what it would have cleaned up stays.`

// releaseSubcommand returns the subcommand that releases every parent.
func releaseSubcommand() subcommand {
	return subcommand{name: "release-finalizers", summary: "take the operator's finalizers off every parent", details: releaseDetails, prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		fs.BoolVar(&f.dryRun, "dry-run", false, "only say which would be taken off")
		return func(ctx context.Context, c *command) int {
			opts, err := c.options()
			if err == nil {
				err = c.release(ctx, opts)
			}
			if err != nil {
				printErrors(c.stderr, "release-finalizers", err)
				return exitError
			}
			return exitOK
		}
	}}
}

// release takes the operator's finalizers off every parent, whether the
// ParentSelector matches it or not, and prints a line for each. A parent that
// fails doesn't keep the others from being released: the error joins what went
// wrong.
func (c *command) release(ctx context.Context, opts Options) error {
	cfg := c.cfg
	cfg.ParentSelector = "" // a parent that has left the selector may still have the finalizer
	count := 0
	parents, err := c.program.Release(ctx, cfg, opts, func(text string) {
		count++
		fmt.Fprintln(c.stdout, text)
	})
	if err != nil && parents == 0 {
		return err
	}
	would := ""
	if cfg.DryRun {
		would = "would be "
	}
	fmt.Fprintf(c.stdout, "%d of %s %sreleased.\n", count, counted(parents, "parent"), would)
	return err
}

package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/roperator/roperator/internal/cli/terminal"
)

const migrateDetails = `For a CustomResourceDefinition whose storage version has changed, before the old
version is dropped from it. Every object is stored anew by a patch that changes
nothing; then status.storedVersions names the storage version alone. What was cut
short, by an error or by a signal, is done by the next run. The definitions are
those of the operator's configuration, as they are installed. --namespace has no
effect. The operator may run meanwhile.

It needs the right to list and patch the objects, to get the definitions, and to
get and update customresourcedefinitions/status.`

// migrateSubcommand returns the subcommand that has objects stored in the storage version.
func migrateSubcommand() subcommand {
	return subcommand{name: "migrate-storage", outlasts: true, summary: "store every object in the storage version of its CustomResourceDefinition", details: migrateDetails, prepare: func(fs *flag.FlagSet, _ *flags) carryOut {
		dryRun := false
		fs.BoolVar(&dryRun, "dry-run", false, "only say what would be rewritten")
		return func(ctx context.Context, c *command) int {
			operators, opts, err := c.reach()
			if err == nil {
				err = c.program.MigrateStorage(ctx, operators, opts, dryRun, func(text string) { fmt.Fprintln(c.stdout, terminal.Printable(text)) })
			}
			if err != nil {
				printErrors(c.stderr, "migrate-storage", err)
				return exitError
			}
			return exitOK
		}
	}}
}

package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/roperator/roperator/internal/engine/plan"
)

// Exit codes of the subcommand plan: those of kubectl diff.
const (
	planNothing = 0
	planChanges = 1
	planError   = 2
)

const planDetails = `It lists the parents and their children, calls the handler, asks the API
server by dry runs what would become of its answers, and prints the differences.
Nothing is written. Values of Secrets are hidden.

Exit code: 0 if there is nothing to do, 1 if there is, 2 on an error.`

// planSubcommand returns the subcommand that prints what the operator would do.
func planSubcommand() subcommand {
	return subcommand{name: "plan", summary: "print what this build of the operator would change, and change nothing", details: planDetails, prepare: func(fs *flag.FlagSet, _ *flags) carryOut {
		var output string
		outputFlag := func(value string) error {
			if value != "text" && value != "json" {
				return errors.New("neither text nor json")
			}
			output = value
			return nil
		}
		fs.Func("o", "output: text or json (default text)", outputFlag)
		fs.Func("output", "the same as -o", outputFlag)
		return func(ctx context.Context, c *command) int {
			opts, err := c.options()
			if err != nil {
				printErrors(c.stderr, "plan", err)
				return planError
			}
			changes, err := c.program.Plan(ctx, c.cfg, opts)
			return c.printPlanned(changes, err, output)
		}
	}}
}

// printPlanned prints a plan, as text unless output is "json", and returns the exit
// code. Beside an error it prints the changes that could be planned.
func (c *command) printPlanned(changes []plan.Change, err error, output string) int {
	if err == nil || len(changes) > 0 {
		var printErr error
		if output == "json" {
			printErr = printPlanJSON(c.stdout, changes)
		} else {
			printErr = printPlan(c.stdout, c.cfg.Parent.Kind, changes)
		}
		if printErr != nil {
			printErrors(c.stderr, "plan", printErr)
			return planError
		}
	}
	switch {
	case err != nil:
		printErrors(c.stderr, "plan", err)
		return planError
	case len(changes) > 0:
		return planChanges
	}
	return planNothing
}

// printErrors prints each line of an error, with the name of the subcommand before
// it.
func printErrors(w io.Writer, command string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "%s: %s\n", command, printable(strings.TrimSuffix(line, "\n")))
	}
}

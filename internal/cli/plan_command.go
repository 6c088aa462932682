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
			operators, opts, err := c.reach()
			if err != nil {
				printErrors(c.stderr, "plan", err)
				return planError
			}
			return c.printPlanned(c.plan(ctx, operators, opts), output)
		}
	}}
}

// A planned is the plan of one operator.
type planned struct {
	operator Operator
	changes  []plan.Change
	err      error // there may be changes beside it
}

// plan plans for one operator after the other.
func (c *command) plan(ctx context.Context, operators []Operator, opts Options) []planned {
	out := make([]planned, 0, len(operators))
	for _, o := range operators {
		changes, err := c.program.Plan(ctx, o, opts)
		if err != nil {
			err = fmt.Errorf("%s%w", heading(operators, o), err)
		}
		out = append(out, planned{o, changes, err})
	}
	return out
}

// printPlanned prints the operators' plans, as text unless output is "json", and
// returns the exit code. Beside errors it prints what could be planned.
func (c *command) printPlanned(plans []planned, output string) int {
	code := planNothing
	var errs []error
	var printable []planned
	for _, p := range plans {
		if p.err == nil || len(p.changes) > 0 {
			printable = append(printable, p)
		}
		if len(p.changes) > 0 {
			code = planChanges
		}
		errs = append(errs, p.err)
	}
	if len(printable) > 0 {
		write := printPlans
		if output == "json" {
			write = printPlansJSON
		}
		errs = append(errs, write(c.stdout, printable, len(plans) > 1))
	}
	if err := errors.Join(errs...); err != nil {
		printErrors(c.stderr, "plan", err)
		return planError
	}
	return code
}

// printErrors prints each line of an error, with the name of the subcommand before
// it.
func printErrors(w io.Writer, command string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "%s: %s\n", command, printable(strings.TrimSuffix(line, "\n")))
	}
}

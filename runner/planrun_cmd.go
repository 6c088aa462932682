package runner

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// Exit codes of the subcommand plan, which are those of kubectl diff.
const (
	planNothing = 0
	planChanges = 1
	planError   = 2
)

// planCommand prints a plan, by output as text ("") or "json", and returns the
// exit code. What could be planned is printed in spite of errors.
func planCommand(ctx context.Context, cfg config.Operator, h handler.Handler, opts Options, output string, stdout, stderr io.Writer) int {
	changes, err := Plan(ctx, cfg, h, opts)
	if err == nil || len(changes) > 0 {
		var printErr error
		if output == "json" {
			printErr = printPlanJSON(stdout, changes)
		} else {
			printErr = printPlan(stdout, cfg.Parent.Kind, changes)
		}
		if printErr != nil {
			printErrors(stderr, "plan", printErr)
			return planError
		}
	}
	switch {
	case err != nil:
		printErrors(stderr, "plan", err)
		return planError
	case len(changes) > 0:
		return planChanges
	}
	return planNothing
}

// printErrors prints every line of an error after the name of the subcommand.
func printErrors(w io.Writer, command string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "%s: %s\n", command, printable(strings.TrimSuffix(line, "\n")))
	}
}

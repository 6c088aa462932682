package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/cli/planfile"
	"github.com/roperator/roperator/internal/cli/planprint"
	"github.com/roperator/roperator/internal/cli/terminal"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
)

// Exit codes of the subcommand plan: those of kubectl diff, and one for changes that
// --fail-on or --max-changes doesn't allow.
const (
	planNothing = 0
	planChanges = 1
	planError   = 2
	planFails   = 3
)

const planDetails = `It lists the parents and their children, calls the handler, asks the API
server by dry runs what would become of its answers, and prints the differences.
Nothing is written. Values of Secrets are hidden.

With -f it plans for the parents in these files alone, as if kubectl apply had
been given them: each is first defaulted and admitted by a dry run.

Exit code: 0 if there is nothing to do, 1 if there is, 2 on an error. With
--fail-on or --max-changes: 0 if the changes are allowed, 3 if they aren't.`

// planOutputs are the values of -o.
func planOutputs() []string { return []string{"text", "json", "github", "markdown"} }

// A planWish is what the flags of plan say.
type planWish struct {
	output     string
	files      []string
	failOn     []string
	maxChanges int // negative: no limit
	readOnly   bool
}

// planSubcommand returns the subcommand that prints what the operator would do.
func planSubcommand() subcommand {
	return subcommand{name: "plan", summary: "print what this build of the operator would change, and change nothing", details: planDetails, prepare: func(fs *flag.FlagSet, _ *flags) carryOut {
		wish := &planWish{output: "text", maxChanges: -1}
		wish.register(fs)
		return func(ctx context.Context, c *command) int {
			plans, err := c.plans(ctx, wish)
			if err != nil {
				return c.failPlan(wish, err)
			}
			return c.printPlanned(plans, wish)
		}
	}}
}

// register registers the flags of plan.
func (w *planWish) register(fs *flag.FlagSet) {
	fs.Func("f", "plan for the parents in this `file` alone, as kubectl apply would make them; - for the standard input; may be repeated", func(path string) error {
		w.files = append(w.files, path)
		return nil
	})
	outputFlag := func(value string) error {
		if !slices.Contains(planOutputs(), value) {
			return fmt.Errorf("none of %s", strings.Join(planOutputs(), ", "))
		}
		w.output = value
		return nil
	}
	fs.Func("o", "output: text, json, github (annotations of a workflow) or markdown (a comment) (default text)", outputFlag)
	fs.Func("output", "the same as -o", outputFlag)
	fs.Func("fail-on", "exit with 3 if there is a change of one of these `kinds`: "+strings.Join(plan.ChangeVerbs(), ","), func(value string) error {
		for kind := range strings.SplitSeq(value, ",") {
			if kind = strings.TrimSpace(kind); !slices.Contains(plan.ChangeVerbs(), kind) {
				return fmt.Errorf("%q is none of %s", kind, strings.Join(plan.ChangeVerbs(), ", "))
			}
			w.failOn = append(w.failOn, kind)
		}
		return nil
	})
	fs.Func("max-changes", "exit with 3 if there are more changes than this `number` (default: no limit)", func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return errors.New("not a number of changes")
		}
		w.maxChanges = n
		return nil
	})
	fs.BoolVar(&w.readOnly, "read-only", false, "send no dry runs, for a user who may only get and list: less exact, and says so")
}

// limits says whether the exit code is about what changes are allowed.
func (w *planWish) limits() bool { return len(w.failOn) > 0 || w.maxChanges >= 0 }

// fails says whether a change is of a kind that fails the plan.
func (w *planWish) fails(c plan.Change) bool { return slices.Contains(w.failOn, c.Verb) }

// A planned is the plan of one operator.
type planned struct {
	operator Operator
	changes  []plan.Change
	places   map[types.NamespacedName]planprint.Place // of the parents
	err      error                                    // there may be changes beside it
}

// plans returns the plan of one operator after the other. With files, an operator without a parent in
// them has no plan.
func (c *command) plans(ctx context.Context, wish *planWish) ([]planned, error) {
	parents, err := planfile.Read(wish.files, os.Stdin)
	if err != nil {
		return nil, err
	}
	operators, opts, err := c.reach()
	if err != nil {
		return nil, err
	}
	opts.ReadOnly = wish.readOnly
	of, err := assign(operators, parents)
	if err != nil {
		return nil, err
	}
	var out []planned
	for i, o := range operators {
		if len(wish.files) > 0 && len(of[i]) == 0 {
			continue
		}
		p := planned{operator: o, places: map[types.NamespacedName]planprint.Place{}}
		var edited []plan.Edited
		for _, parent := range of[i] {
			edited = append(edited, parent.Edited)
			p.places[keyFor(&o, &parent)] = planprint.Place{File: parent.File, Line: parent.Line}
		}
		if p.changes, p.err = c.program.Plan(ctx, o, opts, edited); p.err != nil {
			p.err = fmt.Errorf("%s%w", heading(operators, o), p.err)
		}
		out = append(out, p)
	}
	return out, nil
}

// keyFor returns the key that a parent has for an operator, which may have one namespace only.
func keyFor(o *Operator, parent *planfile.Parent) types.NamespacedName {
	key := parent.Key()
	if key.Namespace == "" && len(o.Config.Namespaces) == 1 {
		key.Namespace = o.Config.Namespaces[0]
	}
	return key
}

// assign returns the parents of each operator. An object that is no operator's is an
// error, and so is one of which there are two.
func assign(operators []Operator, parents []planfile.Parent) ([][]planfile.Parent, error) {
	out := make([][]planfile.Parent, len(operators))
	var errs []error
	seen := map[object.Ref]string{}
	for _, parent := range parents {
		ref := object.Ref{Type: parent.Type(), Key: parent.Key()}
		if other, twice := seen[ref]; twice {
			errs = append(errs, fmt.Errorf("%s: %s is there already in %s; a plan supposes one state of a parent", parent.Source, ref, other))
			continue
		}
		seen[ref] = parent.Source
		var mismatches []error
		found := false
		for i := range operators {
			if err := plan.CheckParentType(&operators[i].Config, &parent.Edited); err != nil {
				mismatches = append(mismatches, fmt.Errorf("%s: %w", parent.Source, err))
				continue
			}
			found = true
			out[i] = append(out[i], parent)
		}
		if !found {
			errs = append(errs, mismatches...)
		}
	}
	return out, errors.Join(errs...)
}

// printPlanned prints the operators' plans, and returns the exit code. Beside errors it
// prints what could be planned.
func (c *command) printPlanned(plans []planned, wish *planWish) int {
	report := planprint.Report{Several: len(plans) > 1, Fails: wish.fails, ReadOnly: wish.readOnly, Supposed: len(wish.files) > 0}
	var errs []error
	var failing []string
	total := 0
	for _, p := range plans {
		parent := p.operator.Config.Parent.Kind
		if p.err == nil || len(p.changes) > 0 {
			report.Plans = append(report.Plans, planprint.Plan{Operator: p.operator.Config.Name, Parent: parent, Changes: p.changes, Places: p.places})
		}
		total += len(p.changes)
		for _, change := range p.changes {
			if wish.fails(change) {
				failing = append(failing, change.Verb+" "+object.Ref{Type: change.Type, Key: change.Object}.String())
			}
		}
		errs = append(errs, p.err)
	}
	if len(report.Plans) > 0 {
		errs = append(errs, c.writeReport(report, wish.output))
	}
	if err := errors.Join(errs...); err != nil {
		return c.failPlan(wish, err)
	}
	switch {
	case !wish.limits() && total > 0:
		return planChanges
	case !wish.limits():
		return planNothing
	}
	code := planNothing
	if len(failing) > 0 {
		fmt.Fprintf(c.stderr, "plan: %d of the kinds of --fail-on: %s\n", len(failing), terminal.Printable(abridged(failing)))
		code = planFails
	}
	if wish.maxChanges >= 0 && total > wish.maxChanges {
		fmt.Fprintf(c.stderr, "plan: %d changes, and --max-changes is %d\n", total, wish.maxChanges)
		code = planFails
	}
	return code
}

// maxFailing bounds how many changes a line names.
const maxFailing = 5

// abridged returns a list as text.
func abridged(list []string) string {
	if more := len(list) - maxFailing; more > 0 {
		return strings.Join(list[:maxFailing], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}

// writeReport writes a report in the form that -o says. In a workflow on GitHub, the summary
// of the step gets it as well.
func (c *command) writeReport(report planprint.Report, output string) error {
	switch output {
	case "json":
		return planprint.JSON(c.stdout, report)
	case "markdown":
		return planprint.Markdown(c.stdout, report)
	case "github":
		return errors.Join(planprint.GitHub(c.stdout, report, rand.Text()), appendSummary(os.Getenv("GITHUB_STEP_SUMMARY"), report))
	}
	return planprint.Text(c.stdout, report)
}

// appendSummary appends a report to the summary of a step. An empty path means that there
// is none.
func appendSummary(path string, report planprint.Report) (err error) {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("GITHUB_STEP_SUMMARY: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return planprint.Markdown(file, report)
}

// failPlan prints an error, and returns the exit code.
func (c *command) failPlan(wish *planWish, err error) int {
	printErrors(c.stderr, "plan", err)
	if wish.output == "github" {
		_ = planprint.GitHubErrors(c.stdout, err) // it was said on the other output
	}
	return planError
}

// printErrors prints each line of an error, with the name of the subcommand before
// it.
func printErrors(w io.Writer, command string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "%s: %s\n", command, terminal.Printable(strings.TrimSuffix(line, "\n")))
	}
}

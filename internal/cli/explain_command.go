package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/cli/explain/reach"
	"github.com/roperator/roperator/internal/cli/explain/tree"
	"github.com/roperator/roperator/internal/cli/terminal"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/textdiff"
)

const explainDetails = `It reads the parent, its children and what it refers to, calls the handler, and
prints why each of them is as it is: what the operator would do next, what that
waits for, which fields differ, and who wrote them last. It needs the rights to
read them, and writes nothing, not even in a dry run. Values of Secrets are
hidden. What only the running process knows, such as its last error and when the
next pass is due, comes from its Pods, through the API server, or from
--process-url.`

// explainFlags are the flags of the subcommand explain.
type explainFlags struct {
	operator, output string
	process          reach.Process
}

// explainSubcommand returns the subcommand that says why a parent and its children are as they
// are.
func explainSubcommand() subcommand {
	return subcommand{name: "explain", argument: "NAMESPACE/NAME", summary: "say why a parent and its children are as they are", details: explainDetails, prepare: func(fs *flag.FlagSet, f *flags) carryOut {
		e := &explainFlags{output: "text"}
		output := func(value string) error {
			if value != "text" && value != "json" {
				return errors.New("neither text nor json")
			}
			e.output = value
			return nil
		}
		fs.Func("o", "output: text or json (default text)", output)
		fs.Func("output", "the same as -o", output)
		fs.StringVar(&e.operator, "operator", "", "which operator of the program, if there are several")
		fs.StringVar(&e.process.URL, "process-url", "", `where the running process serves its metrics, as http://localhost:8080; "none": it isn't asked (default: its Pods are looked for)`)
		fs.StringVar(&e.process.TokenFile, "process-token-file", "", "file with the bearer token for --process-url")
		fs.BoolVar(&e.process.Insecure, "process-insecure", false, "accept any certificate of --process-url")
		fs.StringVar(&e.process.Namespace, "process-namespace", "", "namespace of the Pods of the running process (default: all)")
		return func(ctx context.Context, c *command) int { return c.explain(ctx, e, f) }
	}}
}

// explain carries out the subcommand explain.
func (c *command) explain(ctx context.Context, e *explainFlags, f *flags) int {
	key, err := parentKey(c.argument, f.namespace)
	if err == nil {
		err = e.process.Check()
	}
	if err != nil {
		printErrors(c.stderr, "explain", err)
		return exitUsage
	}
	f.namespace = "" // it has named the parent, and doesn't say to what the operator is restricted
	operators, opts, err := c.reach()
	if err == nil {
		var o Operator
		if o, err = chooseOperator(operators, e.operator); err == nil {
			err = c.explainOne(ctx, o, opts, key, e)
		}
	}
	if err != nil {
		printErrors(c.stderr, "explain", err)
		return exitError
	}
	return exitOK
}

// explainOne prints the explanation of a parent of one operator.
func (c *command) explainOne(ctx context.Context, o Operator, opts Options, key types.NamespacedName, e *explainFlags) error {
	where := e.process
	where.Program = c.program.name()
	known := reach.Ask(ctx, opts.RESTConfig, where, reach.Question{Operator: o.Config.Name, Parent: key})
	explanation, err := c.program.Explain(ctx, o, opts, key, known)
	if err != nil {
		return err
	}
	if e.output == "json" {
		return writeExplanationJSON(c, explanation)
	}
	return tree.Write(c.stdout, explanation, tree.Options{Width: terminal.Width(c.stdout), Colours: terminal.Colours(c.stdout), Now: time.Now()})
}

// writeExplanationJSON prints an explanation as JSON.
func writeExplanationJSON(c *command, e explain.Explanation) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(e)
}

// parentKey returns the key that an argument names, NAMESPACE/NAME or NAME. namespace is that of the
// flag --namespace, "" if it isn't set.
func parentKey(argument, namespace string) (types.NamespacedName, error) {
	before, name, both := strings.Cut(argument, "/")
	key := types.NamespacedName{Namespace: before, Name: name}
	if !both {
		key = types.NamespacedName{Namespace: namespace, Name: before}
	}
	switch {
	case argument == "":
		return key, errors.New("which parent? write NAMESPACE/NAME, or NAME of a cluster-scoped one")
	case key.Name == "" || both && key.Namespace == "" || strings.Contains(name, "/"):
		return key, fmt.Errorf("%q is neither NAMESPACE/NAME nor NAME", argument)
	case both && namespace != "" && namespace != key.Namespace:
		return key, fmt.Errorf("%q isn't in the namespace of --namespace, %q", argument, namespace)
	}
	for _, part := range []string{key.Namespace, key.Name} {
		if wrong := content.IsPathSegmentName(part); len(wrong) > 0 {
			return key, fmt.Errorf("%q can't be a name: %s", part, wrong[0])
		}
	}
	return key, nil
}

// chooseOperator returns the operator of a name, or the only one.
func chooseOperator(operators []Operator, name string) (Operator, error) {
	if name == "" && len(operators) == 1 {
		return operators[0], nil
	}
	names := make([]string, 0, len(operators))
	for _, o := range operators {
		names = append(names, o.Config.Name)
	}
	if name == "" {
		return Operator{}, fmt.Errorf("the program has several operators; choose one with --operator: %s", strings.Join(names, ", "))
	}
	if i := slices.Index(names, name); i >= 0 {
		return operators[i], nil
	}
	err := fmt.Errorf("--operator: there is none of the name %q", name)
	if near := textdiff.Nearest(name, names); near != "" {
		return Operator{}, fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return Operator{}, fmt.Errorf("%w; there are %s", err, strings.Join(names, ", "))
}

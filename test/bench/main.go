package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options are what the command line says.
type options struct {
	parents  int
	rounds   int
	variants []variant
	phases   []string      // beside cold
	singles  int           // changes of the phase single, per run
	quiet    time.Duration // length of the phase quiet; in the first round only
	out      string        // path of the JSON file; "": none
	crd      string
	bin      string // folder of the operators' binaries
	dir      string // where the operators' output goes
}

// A variant is an operator that is measured.
type variant struct {
	name, binary string
	args         []string
}

func variants() []variant {
	return []variant{
		{name: limit, binary: "limit"},
		{name: ours, binary: "roperator"},
		{name: peer, binary: "controller-runtime", args: []string{"-workers=10"}},
		{name: "controller-runtime-1", binary: "controller-runtime", args: []string{"-workers=1"}},
		{name: untyped, binary: "controller-runtime", args: []string{"-workers=10", "-unstructured"}},
	}
}

// The variants that the ratios are of.
const (
	limit   = "limit"
	ours    = "roperator"
	peer    = "controller-runtime"
	untyped = "controller-runtime-unstructured"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard()) // what envtest would say
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	if opts.dir, err = os.MkdirTemp("", "roperator-bench-"); err != nil {
		return err
	}
	opts.bin, opts.crd = filepath.Join(opts.dir, "bin"), "app/crd.yaml"
	if err := build(ctx, opts.bin); err != nil {
		return err
	}
	results, err := runAll(ctx, opts, func(r *result) { fmt.Println(r.summary()) })
	if opts.out != "" && len(results) > 0 { // hours may have gone into them
		err = errors.Join(err, writeJSON(opts.out, opts, results))
	}
	if err != nil {
		return fmt.Errorf("%w; what the operators said is in %s", err, opts.dir)
	}
	report(os.Stdout, opts, results)
	return os.RemoveAll(opts.dir)
}

func parse(args []string) (options, error) {
	var opts options
	var names, phases string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&opts.parents, "n", 1000, "parents")
	flags.IntVar(&opts.rounds, "rounds", 5, "runs of each variant, alternating")
	flags.IntVar(&opts.singles, "singles", 400, "changes of one parent among all, in each run")
	flags.DurationVar(&opts.quiet, "quiet", time.Minute, "length of the quiet phase, in the first round")
	flags.StringVar(&opts.out, "out", "", "file for the raw figures as JSON")
	flags.StringVar(&names, "variants", "", "which, separated by commas (all)")
	flags.StringVar(&phases, "phases", "", "which to measure after cold, separated by commas (all)")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if opts.parents < 1 || opts.rounds < 1 {
		return opts, fmt.Errorf("-n %d, -rounds %d: at least 1 each", opts.parents, opts.rounds)
	}
	opts.variants = variants()
	var known []string
	for _, v := range opts.variants {
		known = append(known, v.name)
	}
	var err error
	if opts.phases, err = chosen("-phases", phases, []string{"spec", "repair", "single", "quiet", "restart"}); err != nil {
		return opts, err
	}
	wanted, err := chosen("-variants", names, known)
	opts.variants = slices.DeleteFunc(opts.variants, func(v variant) bool { return !slices.Contains(wanted, v.name) })
	return opts, err
}

// chosen returns the names in the value of a flag, all that are known if it is empty.
func chosen(flag, value string, known []string) ([]string, error) {
	if value == "" {
		return known, nil
	}
	names := strings.Split(value, ",")
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s: %q is none; there are %s", flag, name, strings.Join(known, ", "))
		}
	}
	return names, nil
}

// build builds the operators into the folder.
func build(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+string(os.PathSeparator), "./cmd/...")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	return nil
}

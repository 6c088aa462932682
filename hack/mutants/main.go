// The command mutants takes the engine's safeguards out, one at a time, and runs
// tests, which must find out: the unit tests of one package, the short histories, or the
// simulation.
//
//	go run ./hack/mutants             # all mutants
//	go run ./hack/mutants -sim        # those that the simulation and the histories must find
//	go run ./hack/mutants -unit       # those that unit tests must find
//	go run ./hack/mutants "UID guard" # the mutant of this name
//
// It is run at the root of the repository, and changes nothing in the working tree:
// the compiler is given the changed files by -overlay.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

func main() {
	sim := flag.Bool("sim", false, "only the mutants that the simulation and the histories must find")
	unit := flag.Bool("unit", false, "only the mutants that unit tests must find")
	flag.Parse()
	chosen := slices.DeleteFunc(mutants(), func(m mutant) bool {
		return *sim && !m.random() || *unit && m.random() || flag.NArg() > 0 && !slices.Contains(flag.Args(), m.name)
	})
	if err := run(chosen); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run builds the program with all mutants, and hunts those of the list.
func run(list []mutant) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeProgram(dir, mutants())
	if err != nil {
		return err
	}
	h := hunter{dir, map[string]time.Duration{}}
	var failed []error
	for _, pkg := range packagesOf(list) {
		begin := time.Now()
		if err := h.build(overlay, pkg); err != nil {
			return err
		}
		fmt.Printf("mutants: %s: built (%.0f s)\n", pkg, time.Since(begin).Seconds())
		of := slices.DeleteFunc(slices.Clone(list), func(m mutant) bool { return m.pkg() != pkg })
		failed = append(failed, h.huntAll(pkg, of)...)
	}
	fmt.Printf("mutants: %d of %d caught\n", len(list)-len(failed), len(list))
	return errors.Join(failed...)
}

// packagesOf returns the packages whose tests must find the mutants of a list, each
// once.
func packagesOf(list []mutant) []string {
	var out []string
	for _, m := range list {
		if !slices.Contains(out, m.pkg()) {
			out = append(out, m.pkg())
		}
	}
	return out
}

// huntAll hunts mutants by the tests of one package, and returns an error for each that
// they don't find. Unit tests run side by side. Random tests keep every core busy by
// themselves.
func (h hunter) huntAll(pkg string, list []mutant) (failed []error) {
	room := 1
	if len(list) > 0 && !list[0].random() {
		if err := h.measure(pkg); err != nil {
			return []error{err}
		}
		room = runtime.GOMAXPROCS(0)
	}
	errs := make([]error, len(list))
	slots := make(chan struct{}, room)
	var wg sync.WaitGroup
	for i, m := range list {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = h.report(m)
		})
	}
	wg.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// report hunts a mutant, and prints how it was found. The error says that it wasn't.
func (h hunter) report(m mutant) error {
	begin := time.Now()
	how, err := h.hunt(m)
	switch {
	case err != nil:
		how, err = "error", fmt.Errorf("%s: %w", m.name, err)
	case how == "":
		how, err = "NOT CAUGHT", fmt.Errorf("%s: the tests don't see what is missing", m.name)
	}
	fmt.Printf("mutants: without %s: %s (%.0f s)\n", m.name, how, time.Since(begin).Seconds())
	return err
}

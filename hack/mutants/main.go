// The command mutants removes the engine's safeguards, one at a time, and runs the
// simulation, which must find each violation:
//
//	go run ./hack/mutants             # all mutants
//	go run ./hack/mutants "UID guard" # the mutant of this name
//
// Run it at the root of the repository. It changes nothing in the working tree:
// the compiler gets the changed files by -overlay.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run builds the program with all mutants, and hunts those with these names; all if there are none.
func run(names []string) error {
	list, err := chosen(names)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeProgram(dir, mutants())
	if err != nil {
		return err
	}
	h := hunter{dir}
	built := map[string]bool{}
	var failed []error
	for _, m := range list {
		if pkg := m.by.pkg; !built[pkg] {
			begin := time.Now()
			if err := h.build(overlay, pkg); err != nil {
				return err
			}
			fmt.Printf("mutants: %s: built (%.0f s)\n", pkg, time.Since(begin).Seconds())
			built[pkg] = true
		}
		if err := h.report(m); err != nil {
			failed = append(failed, err)
		}
	}
	fmt.Printf("mutants: %d of %d found\n", len(list)-len(failed), len(list))
	return errors.Join(failed...)
}

// chosen returns the mutants with these names, or all if there are none.
func chosen(names []string) ([]mutant, error) {
	all := mutants()
	if len(names) == 0 {
		return all, nil
	}
	var out []mutant
	for _, name := range names {
		i := slices.IndexFunc(all, func(m mutant) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%q: no mutant has this name", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// report hunts a mutant, and prints which violation was found. It returns an error if none was.
func (h hunter) report(m mutant) error {
	begin := time.Now()
	how, err := h.hunt(m)
	switch {
	case err != nil:
		how, err = "error", fmt.Errorf("%s: %w", m.name, err)
	case how == "":
		how, err = "NOT FOUND", fmt.Errorf("%s: %s finds no violation without it", m.name, m.by.test)
	}
	fmt.Printf("mutants: without %s: %s (%.0f s)\n", m.name, how, time.Since(begin).Seconds())
	return err
}

// Command state compares lines of code, and fields and booleans of large structs, with hack/state/core.txt.
//
//	go run ./hack/state            # fails if there is more than the table allows, or much less
//	go run ./hack/state -update    # writes the table
//
// A line of code has a token other than a comment. Tests and generated files don't count, nor do the folders test, hack,
// examples and internal/testing, which no user runs. docs/contributing.md says how to change the table.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/roperator/roperator/internal/testing/gate"
)

const (
	// core is the package tree whose lines are compared.
	core = "internal/engine"
	// large is the least number of fields of a struct that is compared.
	large = 15
	// slack is by how much the lines of the core may differ from the table, as a share.
	slack = 0.01

	linesOfCore = "lines of " + core
)

func main() {
	update := flag.Bool("update", false, "write the table in place of comparing with it")
	root := flag.String("root", ".", "folder of the module")
	file := flag.String("table", filepath.Join("hack", "state", "core.txt"), "the table, from the root")
	flag.Parse()
	if err := run(*root, filepath.Join(*root, *file), *update, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "state:", err)
		os.Exit(1)
	}
}

// run compares what is below root with the table in file, or writes the table.
func run(root, file string, update bool, out io.Writer) error {
	measured, err := measure(root)
	if err != nil {
		return err
	}
	if update {
		return measured.Write(file, comment())
	}
	table, err := gate.Read(file)
	if err != nil {
		return err
	}
	problems := table.Compare(measured, margin)
	if len(problems) == 0 {
		return nil
	}
	for _, problem := range problems {
		fmt.Fprintln(out, "state:", problem)
	}
	fmt.Fprintln(out, "state: what differs from the table:")
	for _, line := range table.Changed(measured) {
		fmt.Fprintln(out, "state:     ", line)
	}
	return fmt.Errorf("%s doesn't hold: make the code smaller, or run make gates-update and give the reason in the commit's message (docs/contributing.md)", file)
}

// margin returns by how much a figure may differ from the table, as a share.
func margin(name string) float64 {
	switch {
	case name == linesOfCore:
		return slack
	case strings.HasPrefix(name, "lines "):
		return gate.Unchecked
	}
	return 0
}

// comment is what the table begins with.
func comment() string {
	return fmt.Sprintf(`# Code and state of the library. "make gates" compares, "make gates-update" writes it.
# A commit that changes it gives the reason in its message: see docs/contributing.md.
#
# Compared: %s, within %g %%; fields and booleans of each struct with %d fields or more, exactly.
# The lines of packages tell where the sum comes from. They may differ.

`, linesOfCore, slack*100, large)
}

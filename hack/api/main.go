// Command api records the module's public API, a line for each name, field and
// method, in docs/reference/api.txt, so that a review sees every change to it:
//
//	go run ./hack/api                 # writes the listing (part of make generate)
//	go run ./hack/api -against v0.1.0 # says what has changed since, in git's terms
//
// The second fails if anything has changed that programs may depend on. Names
// of parameters and comments are no part of the listing.
package main

//go:generate go run . -root ../..

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// file is where the listing is, from the module's folder.
const file = "docs/reference/api.txt"

func main() {
	root := flag.String("root", ".", "the module's folder")
	against := flag.String("against", "", "a commit or tag, with whose listing to compare instead of writing one")
	flag.Parse()
	if err := run(os.Stdout, *root, *against); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, root, against string) error {
	now, err := list(root)
	if err != nil {
		return err
	}
	if against == "" {
		return os.WriteFile(filepath.Join(root, filepath.FromSlash(file)), []byte(strings.Join(now, "\n")+"\n"), 0o644)
	}
	show := exec.Command("git", "show", against+":"+file)
	show.Dir = root
	before, err := show.Output()
	if err != nil {
		return fmt.Errorf("git show %s:%s: %w; name a commit that has the listing by -against", against, file, err)
	}
	changes := compare(strings.Split(strings.TrimSpace(string(before)), "\n"), now)
	for _, line := range changes.incompatible {
		fmt.Fprintln(w, "incompatible:", line)
	}
	for _, line := range changes.compatible {
		fmt.Fprintln(w, "compatible:  ", line)
	}
	fmt.Fprintf(w, "api: since %s: %d incompatible, %d compatible\n", against, len(changes.incompatible), len(changes.compatible))
	if len(changes.incompatible) > 0 {
		return errors.New("programs that compile today may no longer do so: that is for a new minor version (before 1.0), and an entry under Changed or Removed in CHANGELOG.md")
	}
	return nil
}

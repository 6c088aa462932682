// Command api writes the module's public API, a line for each name, field and
// method, to docs/reference/api.txt, so that a review sees every change to it:
//
//	go generate ./hack/api
//
// Names of parameters and comments are no part of the listing. `make check-generated`
// fails if the listing is not that of the code. since.sh tells which changes since a
// commit may break programs.
package main

//go:generate go run . -root ../..

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the module's folder")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	lines, err := list(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "reference", "api.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

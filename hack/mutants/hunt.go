package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A hunter runs tests of the program with all mutants.
type hunter struct {
	dir string // has the test binaries
}

// binary returns the path of the test binary of a package.
func (h hunter) binary(pkg string) string {
	return filepath.Join(h.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// build builds the test binary of a package.
func (h hunter) build(overlay, pkg string) error {
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", h.binary(pkg), "./"+pkg).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: build: %w\n%s", pkg, err, out)
	}
	return nil
}

// hunt returns the first violation that the search finds with a mutant, "" if it finds none.
func (h hunter) hunt(m mutant) (string, error) {
	found := regexp.MustCompile(`\d+ violations:\n\s*(.*)`)
	for _, count := range m.by.seeds {
		cmd := exec.Command(h.binary(m.by.pkg), "-test.run=^"+m.by.test+"$")
		cmd.Dir = m.by.pkg
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", m.by.variable, count), chosenBy+"="+m.name)
		out, err := cmd.CombinedOutput()
		if broken := found.FindSubmatch(out); broken != nil {
			return string(broken[1][:min(len(broken[1]), 150)]), nil
		}
		if _, failed := errors.AsType[*exec.ExitError](err); failed {
			return "", fmt.Errorf("run: %s", out[max(0, len(out)-2000):])
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

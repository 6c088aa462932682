package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A hunter runs tests of the program with all mutants.
type hunter struct {
	dir    string                   // has the test binaries
	limits map[string]time.Duration // package -> how long its tests may take before they hang
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

// run runs the tests of a package with a mutant; "": with the whole engine. It returns
// what they print, and whether they have passed.
func (h hunter) run(pkg, mutant string, env []string, args ...string) (out string, passed bool, err error) {
	cmd := exec.Command(h.binary(pkg), args...)
	cmd.Dir, cmd.Env = pkg, append(append(os.Environ(), env...), chosenBy+"="+mutant)
	raw, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return string(raw), false, nil
	}
	return string(raw), err == nil, err
}

// hunt returns how a mutant was found, "" if it wasn't.
func (h hunter) hunt(m mutant) (how string, err error) {
	switch m.pkg() {
	case simulation:
		return h.violation(m, "^TestSeeds$", "SIM_SEEDS=60", "SIM_SEEDS=500", "SIM_SEEDS=3000")
	case histories:
		return h.violation(m, "^TestHistories$", "STRESS_COUNT=300", "STRESS_COUNT=3000", "STRESS_COUNT=12000")
	}
	return h.failingTest(m.tests, m.name)
}

// measure runs the tests of a package with the whole engine, which they must pass. By the
// time that they take it is known with a mutant that they hang.
func (h hunter) measure(pkg string) error {
	begin := time.Now()
	h.limits[pkg] = 10 * time.Minute
	how, err := h.failingTest(pkg, "")
	if err == nil && how != "" {
		err = errors.New(how)
	}
	if err != nil {
		return fmt.Errorf("%s: the tests fail with the whole engine: %w", pkg, err)
	}
	h.limits[pkg] = 20*time.Second + 5*time.Since(begin)
	return nil
}

// failingTest returns the first test of a package that fails with a mutant, "" if none
// does. A test that hangs fails, too. Those that try out much come last, since they take
// the most time.
func (h hunter) failingTest(pkg, mutant string) (string, error) {
	const long = "Propert|Fuzz"
	for _, choice := range []string{"-test.skip=" + long, "-test.run=" + long} {
		out, passed, err := h.run(pkg, mutant, nil, choice, "-test.short", "-test.failfast", "-test.timeout="+h.limits[pkg].String())
		if err != nil {
			return "", err
		}
		if passed {
			continue
		}
		for _, failure := range []string{`--- FAIL: (\S+)`, `(?s)panic: test timed out.*?running tests:\s*(\S+)`, `(goleak: Errors on successful test run)`, `(?m)^(panic: .*)`} {
			if found := regexp.MustCompile(failure).FindStringSubmatch(out); found != nil {
				return pkg + ": " + found[1], nil
			}
		}
		return "", fmt.Errorf("run: %s", tail(out))
	}
	return "", nil
}

// violation returns the first promise that random tests find broken with a mutant, "" if
// they find none. They are tried with more and more seeds.
func (h hunter) violation(m mutant, test string, seeds ...string) (string, error) {
	found := regexp.MustCompile(`\d+ violations:\n\s*(.*)`)
	for _, env := range seeds {
		out, passed, err := h.run(m.pkg(), m.name, []string{env}, "-test.run="+test)
		if err != nil {
			return "", err
		}
		if broken := found.FindStringSubmatch(out); broken != nil {
			return broken[1][:min(len(broken[1]), 150)], nil
		}
		if !passed {
			return "", fmt.Errorf("run: %s", tail(out))
		}
	}
	return "", nil
}

// tail returns the end of an output.
func tail(out string) string { return out[max(0, len(out)-2000):] }

// Command scenarios runs the conformance suite and prints one line per
// scenario as it ends, the output of those that failed, and last how many
// passed. Its arguments go to go test.
//
//	go run ./hack/scenarios -race -run C16 ./test/conformance
//
// With -quick as first argument it runs the few of quick.go.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "-quick" {
		args = append([]string{"-run", quickPattern()}, args[1:]...)
	}
	if err := run(args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scenarios:", err)
		os.Exit(1)
	}
}

// An event is one line of go test -json.
type event struct {
	Action, Test, Output, Key, Value string
}

// A report gathers what go test says.
type report struct {
	out     io.Writer
	titles  map[string]string   // test -> "C16 Service ports …"
	output  map[string][]string // test -> its output, with its subtests'
	failed  []string
	passed  int
	skipped int
	other   []string // output of no test: build errors, TestMain
}

func run(args []string, out io.Writer) error {
	cmd := exec.Command("go", append([]string{"test", "-json", "-count=1"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	r := &report{out: out, titles: map[string]string{}, output: map[string][]string{}}
	readErr := r.read(stdout)
	runErr := cmd.Wait()
	total := r.passed + len(r.failed)
	if runErr != nil || total == 0 {
		for _, line := range r.other {
			fmt.Fprint(out, line)
		}
	}
	if r.skipped > 0 {
		fmt.Fprintf(out, "conformance: %d skipped\n", r.skipped)
	}
	fmt.Fprintf(out, "conformance: %d of %d scenarios pass\n", r.passed, total)
	switch {
	case total == 0:
		return errors.Join(readErr, runErr, errors.New("no scenario has run"))
	case len(r.failed) > 0:
		slices.Sort(r.failed)
		return errors.Join(readErr, fmt.Errorf("failed: %s", strings.Join(r.failed, ", ")))
	}
	return errors.Join(readErr, runErr)
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("go test -json: %w", err)
		}
		r.take(e)
	}
	return lines.Err()
}

func (r *report) take(e event) {
	test, _, sub := strings.Cut(e.Test, "/")
	switch {
	case e.Action == "output" || e.Action == "build-output":
		if test == "" {
			r.other = append(r.other, e.Output)
		} else {
			r.output[test] = append(r.output[test], e.Output)
		}
	case e.Action == "attr" && e.Key == "scenario":
		r.titles[test] = e.Value
	case sub || test == "":
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		r.ended(test, e.Action)
	}
}

// ended prints the line of a test. One that isn't a scenario is told of only
// if it failed.
func (r *report) ended(test, action string) {
	title, scenario := r.titles[test]
	if !scenario {
		title = test
	}
	switch {
	case action == "fail":
		r.failed = append(r.failed, test)
		fmt.Fprintf(r.out, "%s: FAILED\n%s", title, strings.Join(r.output[test], ""))
	case !scenario:
	case action == "skip":
		r.skipped++
		fmt.Fprintf(r.out, "%s: skipped\n", title)
	default:
		r.passed++
		fmt.Fprintf(r.out, "%s: ok\n", title)
	}
	delete(r.output, test)
}

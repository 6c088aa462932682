// The command mutants switches off the engine's safeguards, one at a time, and
// runs the simulation, which must find out. Of safeguards whose loss a simulation
// meets too rarely, the unit tests of a package must find out:
//
//	go run ./hack/mutants
//
// It changes nothing in the working tree: the compiler is given the changed
// files by -overlay. The name of a mutant as argument runs only that one.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// An edit replaces what occurs exactly once in a file.
type edit struct{ file, old, new string }

// A mutant is an engine without one of its safeguards.
type mutant struct {
	name  string
	edits []edit
	tests string // the package whose unit tests must find out; empty: the simulation must
}

func mutants() []mutant { return append(forSimulation(), forUnitTests()...) }

// forSimulation returns the mutants that the simulation must find.
func forSimulation() []mutant {
	one := func(name, file, was, is string) mutant { return mutant{name, []edit{{file, was, is}}, ""} }
	return []mutant{
		one("read your writes", "internal/engine/apply/requests.go", "	x.keep(live)\n	changed :=", "	changed :="),
		one("newer states only", "internal/engine/store/store.go", "if held != nil && !newer(res.ResourceVersion(), held.ResourceVersion()) {", "if false {"),
		one("tombstones of own deletes", "internal/engine/store/own_writes.go", "	gone[res.UID()] = tombstone{key: ref.Key, version: held.ResourceVersion()}\n", ""),
		one("relist deletion", "internal/engine/store/observed.go", "		all.add(s.removeLocked(ref, held))\n", "		continue\n"),
		one("UID guard", "internal/engine/client/client.go", "		Preconditions:     &metav1.Preconditions{UID: &uid},\n", ""),
		one("test operations", "internal/engine/plan/json_patch.go", `ops := []operation{{"test", "/metadata/uid", parent.UID()}, {"test", "/metadata/finalizers", before}}`, "ops, _ := []operation{}, before"),
		one("finalizer before the handler", "internal/engine/catalog/settings.go", "return append(held, s.Finalizer)", "return held"),
		one("finalize until finalized", "internal/engine/reconcile/finalize.go", "if resp.Finalized {", "if true {"),
		one("delete suppression in a failed pass", "internal/engine/apply/order.go", "if back.holds(a.Ref) {", "if false {"),
		one("children that went with their parent", "internal/engine/reconcile/pass.go", "	if planned.Creates() {\n", "	if false {\n"),
		one("foreign objects", "internal/engine/apply/standing.go", "s.controller == nil && !s.foreign && (s.ours || s.adoptable)", "s.controller == nil && !s.foreign"),
		{"the lease check", []edit{
			{"internal/engine/client/link.go", "		if !g.lease.Held() {\n", "		if false {\n"},
			{"internal/engine/lead/election.go", "		stop()\n		cut(lost)\n", ""},
		}, ""},
		one("no writes after a handler's error", "internal/engine/reconcile/pass.go", "	if err != nil {\n		return p.failSync(ctx, resp, err)\n	}\n", "	if err != nil {\n		resp = &handler.SyncResponse{}\n	}\n"),
		one("removal of dropped fields", "internal/engine/plan/request_bodies.go", "Merge(a.LiveObject(), wanted, a.former))", "Merge(a.LiveObject(), wanted, nil))"),
		one("retry of a failed pass", "internal/engine/reconcile/pass.go", "	out.Err = err != nil\n", ""),
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only []string) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	count, caught := 0, 0
	for _, m := range mutants() {
		if len(only) > 0 && m.name != only[0] {
			continue
		}
		count++
		how, err := m.hunt(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if how != "" {
			caught++
		} else {
			how = "NOT CAUGHT"
		}
		fmt.Printf("sim-mutants: without %s: %s\n", m.name, how)
	}
	fmt.Printf("sim-mutants: %d of %d caught\n", caught, count)
	if caught < count {
		return errors.New("the tests don't see what is missing")
	}
	return nil
}

// hunt returns how the mutant was found, "" if it wasn't. The simulation looks for a
// violation with more and more seeds.
func (m mutant) hunt(dir string) (string, error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	if m.tests != "" {
		return failingTest(overlay, m.tests)
	}
	binary := filepath.Join(dir, "sim.test")
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", binary, "./test/sim")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	found := regexp.MustCompile(`\d+ violations:\n\s*(.*)`)
	for _, seeds := range []string{"60", "500", "3000"} {
		sim := exec.Command(binary, "-test.run", "^TestSeeds$")
		sim.Dir = filepath.Join("test", "sim")
		sim.Env = append(os.Environ(), "SIM_SEEDS="+seeds)
		out, err := sim.CombinedOutput()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			return "", fmt.Errorf("run: %w", err)
		}
		if violation := found.FindSubmatch(out); violation != nil {
			text := string(violation[1])
			return text[:min(len(text), 150)], nil
		}
		if err != nil {
			return "", fmt.Errorf("run: %w\n%s", err, out[max(0, len(out)-2000):])
		}
	}
	return "", nil
}

// failingTest returns the first test of a package that fails with an overlay, "" if
// none does.
func failingTest(overlay, pkg string) (string, error) {
	out, err := exec.Command("go", "test", "-short", "-count=1", "-overlay", overlay, pkg).CombinedOutput()
	if err == nil {
		return "", nil
	}
	if failed := regexp.MustCompile(`--- FAIL: (\S+)`).FindSubmatch(out); failed != nil {
		return pkg + ": " + string(failed[1]) + " fails", nil
	}
	return "", fmt.Errorf("run: %w\n%s", err, out[max(0, len(out)-2000):])
}

// overlay writes the changed files and the list that go build wants of them.
func (m mutant) overlay(dir string) (string, error) {
	replace := map[string]string{}
	for i, e := range m.edits {
		text, err := os.ReadFile(e.file)
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, not once; change the mutant with the code", e.file, e.old, n)
		}
		path, err := filepath.Abs(e.file)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(replace[path], []byte(strings.Replace(string(text), e.old, e.new, 1)), 0o600); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, raw, 0o600)
}

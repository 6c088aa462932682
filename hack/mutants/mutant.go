package main

import "slices"

// An edit replaces what occurs exactly once in a file, and lies within one function.
type edit struct{ file, old, new string }

// A mutant is an engine without one of its safeguards.
type mutant struct {
	name  string
	edits []edit
	tests string // the package whose unit tests must find out; empty: the simulation must
}

// mutants returns all mutants. The names tell them apart.
func mutants() []mutant {
	return slices.Concat(
		inStore(), inSchedule(), inWatchAndClient(), inPlan(), inMerge(), inApply(), inReconcile(), inLeadAndManager(), forSimulation(),
	)
}

// unit returns a mutant by one edit, which the unit tests of a package of the engine
// must find.
func unit(name, tests, file, was, is string) mutant {
	return mutant{name, []edit{{"internal/engine/" + file, was, is}}, "internal/engine/" + tests}
}

// byFile returns the edits of a mutant by file.
func (m mutant) byFile() map[string][]edit {
	out := map[string][]edit{}
	for _, e := range m.edits {
		out[e.file] = append(out[e.file], e)
	}
	return out
}

// simulation is the package of the simulation.
const simulation = "test/sim"

// pkg returns the package whose tests must find the mutant.
func (m mutant) pkg() string {
	if m.tests == "" {
		return simulation
	}
	return m.tests
}

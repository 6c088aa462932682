package main

import "slices"

// An edit replaces what occurs exactly once in a file, and lies within one function.
type edit struct{ file, old, new string }

// A mutant is an engine without one of its safeguards.
type mutant struct {
	name  string
	edits []edit
	tests string // the package whose unit tests must find out, or histories; empty: the simulation must
}

// mutants returns all mutants. The names tell them apart.
func mutants() []mutant {
	return slices.Concat(
		inStore(), inStoreOfWrites(), inSchedule(), inWatchAndClient(), inClient(), inPlan(), inMerge(), inApply(), inDeletes(), inReconcile(), inPlans(), inRelate(), inCircles(), inServing(), inReadiness(), inTeardown(), inRollouts(), inGates(), inLifeOfParents(), inLeadAndManager(), inRights(), inShards(), inMessages(), inCatalogAndObserve(), inLeaves(), inDefinitions(), inWindow(), inStorm(), forHistories(), forSimulation(),
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

// The packages of random tests that find mutants with more and more seeds.
const simulation, histories = "test/sim", "test/histories"

// pkg returns the package whose tests must find the mutant.
func (m mutant) pkg() string {
	if m.tests == "" {
		return simulation
	}
	return m.tests
}

// random says whether tests must find the mutant that try out one seed after the other.
func (m mutant) random() bool { return m.pkg() == simulation || m.pkg() == histories }

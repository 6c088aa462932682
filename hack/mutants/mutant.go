package main

import "slices"

// An edit replaces text that occurs exactly once in a file, and lies within one function.
type edit struct{ file, old, new string }

// A mutant is an engine without one of its safeguards.
type mutant struct {
	name  string
	edits []edit
	by    search // finds the mutant
}

// A search is a test that runs as many seeds as an environment variable says.
type search struct {
	pkg, test string
	variable  string
	seeds     [3]int // tried in this order, until one run finds the mutant
}

// simulation returns the search among long and sparse runs.
func simulation() search { return search{"test/sim", "TestSeeds", "SIM_SEEDS", [3]int{60, 500, 3000}} }

// histories returns the search among short and dense runs.
func histories() search {
	return search{"test/sim", "TestHistories", "STRESS_COUNT", [3]int{300, 3000, 12000}}
}

// mutants returns all mutants. Their names are unique.
func mutants() []mutant { return slices.Concat(forSimulation(), forHistories()) }

// inEngine returns a mutant by one edit of a file of the engine.
func inEngine(by search, name, file, was, is string) mutant {
	return mutant{name, []edit{{"internal/engine/" + file, was, is}}, by}
}

// byFile returns the edits of a mutant by file.
func (m mutant) byFile() map[string][]edit {
	out := map[string][]edit{}
	for _, e := range m.edits {
		out[e.file] = append(out[e.file], e)
	}
	return out
}

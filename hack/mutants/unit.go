package main

// forUnitTests returns the mutants that the unit tests of a package must find.
func forUnitTests() []mutant {
	one := func(name, tests, file, was, is string) mutant { return mutant{name, []edit{{file, was, is}}, tests} }
	return []mutant{
		one("a lease counts from when its request began", "./internal/engine/lead", "internal/engine/lead/lease.go",
			"l.mu.renewed, l.mu.ever = begin, true", "l.mu.renewed, l.mu.ever = time.Now(), true"),
	}
}

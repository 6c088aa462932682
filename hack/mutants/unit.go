package main

// forUnitTests returns the mutants that the unit tests of a package must find.
func forUnitTests() []mutant {
	one := func(name, tests, file, was, is string) mutant { return mutant{name, []edit{{file, was, is}}, tests} }
	return []mutant{
		one("a lease counts from when its request began", "./internal/engine/lead", "internal/engine/lead/lease.go",
			"l.mu.renewed, l.mu.ever = begin, true", "l.mu.renewed, l.mu.ever = time.Now(), true"),
		one("a standby queues nothing", "./internal/engine/manager", "internal/engine/reconcile/engine.go",
			"	if e.standby.Load() {\n", "	if false {\n"),
		one("a parent that is gone waits for nothing", "./internal/engine/store", "internal/engine/store/store.go",
			"		s.endWaitsLocked(held.UID())\n", ""),
		one("the lease isn't released while something still runs", "./internal/engine/manager", "internal/engine/lead/election.go",
			"	l.leave(unfinished)\n", ""),
	}
}

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
		one("a new history is noticed by a list", "./internal/engine/manager", "internal/engine/store/start_over.go",
			"	return err == nil && c < 0\n", "	return err == nil && c < -1\n"),
		one("a list comes before a watch that may be of an old history", "./internal/engine/manager", "internal/engine/watch/watch.go",
			"		w.mu.unsure = max(w.mu.unsure, unsureOfLast)\n", ""),
		one("a list comes after a time without an API server", "./internal/engine/manager", "internal/engine/watch/watch.go",
			"		w.mu.unsure = unsureOfAll ", "		// w.mu.unsure = unsureOfAll "),
		one("the check of the history is a single attempt", "./internal/engine/manager", "internal/engine/client/client.go",
			".MaxRetries(0)", ""),
		one("an older state in a newer list shows a new history", "./internal/engine/manager", "internal/engine/store/start_over.go",
			"	proven = Older(listVersion, asked) || ", "	proven = Older(listVersion, asked) || false && "),
		one("the check of the lease before a write", "./internal/engine/client", "internal/engine/client/link.go",
			"		if !g.lease.Held() {\n", "		if false {\n"),
		one("the test of the UID in the patch of finalizers", "./internal/engine/plan", "internal/engine/plan/json_patch.go",
			`ops := []operation{{"test", "/metadata/uid", parent.UID()}, {"test", "/metadata/finalizers", before}}`,
			`ops := []operation{{"test", "/metadata/finalizers", before}}`),
		one("another operator's child isn't claimed", "./internal/engine/apply", "internal/engine/apply/adopt.go",
			"	case s.controlled && !s.foreign:\n", "	case s.controlled:\n"),
		one("a delete of what is gone is no error", "./internal/engine/apply", "internal/engine/apply/judge.go",
			"	missing := apierrors.IsNotFound(err) && a.Verb != plan.VerbCreate ", "	missing := false "),
		one("a pass follows though an awaited state never comes", "./internal/engine/reconcile", "internal/engine/reconcile/learn.go",
			"		out.Resync = p.awaitFor(a)\n", ""),
		one("conflict counters go with their parent", "./internal/engine/reconcile", "internal/engine/reconcile/pass.go",
			"	e.loops.Forget(uid)\n", ""),
		one("an observed deletion is of the object held", "./internal/engine/store", "internal/engine/store/observed.go",
			"	if held.UID() != res.UID() || newer(", "	if newer("),
		one("an observed deletion is newer than the state held", "./internal/engine/store", "internal/engine/store/observed.go",
			"	if held.UID() != res.UID() || newer(held.ResourceVersion(), res.ResourceVersion()) {\n", "	if held.UID() != res.UID() {\n"),
	}
}

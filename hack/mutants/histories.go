package main

// forHistories returns the mutants that the short histories must find.
func forHistories() []mutant {
	one := func(name, file, was, is string) mutant { return inEngine(histories(), name, file, was, is) }
	return []mutant{
		one("the loser of a name is told", "store/writes.go",
			"		c = s.readLocked(r.Live).without(w.Parent)\n", "		s.readLocked(r.Live)\n"),
		one("another client's change during a write triggers", "store/writes.go",
			"return !own || h.uid != r.Live.UID()", "return false && h.uid != r.Live.UID()"),
		one("an older list shows a restore", "revision/revision.go",
			"	t.storage.restored(err)\n", ""),
		one("a 404 for the finalizers isn't the end of the parent", "reconcile/finalize.go",
			"	case apierrors.IsNotFound(err):\n		return p.lookAgain(ctx, fmt.Errorf(\"%s: finalizer: %w\", object.RefOf(p.parent), err))\n",
			"	case apierrors.IsNotFound(err):\n		return schedule.Outcome{Forget: true}, nil\n"),
		one("a former finalizer is the operator's", "reconcile/finalize.go",
			"	nothing := !p.hasOurs(p.parent) || ", "	nothing := !slices.Contains(p.parent.Finalizers(), p.Finalizer) || "),
		one("a child that is still there is found", "reconcile/undeleted.go",
			"	case e.deleted <- struct{}{}:\n", "	case (chan struct{})(nil) <- struct{}{}:\n"),
		one("a standby queues nothing, in histories", "reconcile/engine.go",
			"	if !e.standby.Load() {\n		e.queue.Add(", "	if true {\n		e.queue.Add("),
		one("waits end with their parent", "store/store.go",
			"		s.endWaitsLocked(held.UID(), s.mu.awaited[held.UID()])\n", ""),
		one("waits end with the wish", "store/waiting.go",
			"	s.endWaitsLocked(parent, over)\n", ""),
	}
}

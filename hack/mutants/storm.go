package main

// inStorm returns the mutants of what testkit.Storm looks for. Those that say so by their bugs must be
// noticed by examples/buggy.
func inStorm() []mutant {
	by := func(tests, name, file, was, is string) mutant {
		return mutant{name, []edit{{"internal/testing/storm/" + file, was, is}}, tests}
	}
	faults := func(name, file, was, is string) mutant {
		return mutant{name, []edit{{"internal/testing/faults/" + file, was, is}}, "internal/testing/faults"}
	}
	bugs := func(name, file, was, is string) mutant { return by("examples/buggy", name, file, was, is) }
	room := func(name, file, was, is string) mutant { return by("internal/testing/storm", name, file, was, is) }
	builtIn := func(name, file, was, is string) mutant {
		return mutant{name, []edit{{"internal/testing/builtin/" + file, was, is}}, "internal/testing/builtin"}
	}
	return []mutant{
		builtIn("defaults are filled in", "reader.go", "	fill(reflect.ValueOf(typed).Elem())\n", "	_ = reflect.ValueOf\n"),
		builtIn("of metadata that nobody knows is told", "reader.go", "slices.Concat(more, read.unknown)", "slices.Concat(more[:0], read.unknown)"),
		builtIn("what may change isn't frozen", "immutable.go", "slices.Contains(f.but, name) ||", "slices.Contains(f.but[:0], name) ||"),
		{"immutable fields can't be changed", []edit{{"internal/testing/fakeapi/write.go", "k.updated(key.Name, was, object); err != nil", "k.updated(key.Name, was, object); false && err != nil"}}, "internal/testing/storm"},
		bugs("another process has no memory of this one", "storm.go", "return copyOf(newCopier(of.systems...), pristine)", "return pristine"),
		bugs("an answer is asked for minutes later", "proxy.go", "			x.compare(ctx, x.inner, a.request, a.answer, \"the same snapshot gets another answer minutes later\")\n", ""),
		bugs("Finalize is called again", "proxy.go", "		x.finalizeAgain(ctx, req)\n", ""),
		bugs("a parent that keeps failing is told of", "check.go", "!reconcile.HandlerFailed(errs[len(errs)-1])", "false"),
		bugs("an end is held against that without faults", "check.go", "		for _, text := range differences(o.state, ought.state) {\n", "		for _, text := range []string(nil) {\n"),
		bugs("the end is checked", "check.go", "	w.look(\"finally\", w.scenario.finally)", "	_ = w.scenario.finally"),
		bugs("the end is checked before systems are called again", "check.go", "	w.look(\"finally\", w.scenario.finally)", "	defer w.look(\"finally\", w.scenario.finally)"),
		bugs("outside systems are as they were", "storm.go", "	s.reset()\n", ""),
		bugs("children are deleted", "others.go", "			_ = w.server.Delete(child.Type(), child.Key())\n", ""),
		bugs("outside systems fall silent", "external.go", "	if w.areSilent() {\n", "	if false {\n"),
		room("what outlives its parent isn't collected", "check.go", "&& w.retains(r.Type()) {", "&& false {"),
		room("what others own is theirs to lose", "check.go", "r.IsControlledBy(w.operator.Parent.GroupVersionKind().GroupKind(), owner.UID) && ", ""),
		room("the way decides of what has outlived its parent", "state.go", "			if w.hasOutlived(r) {\n", "			if false {\n"),
		room("what a step is about is compared", "check.go", " && !w.inSteps(r)", ""),
		room("silence is waited for", "world.go", "		if len(writes) == 0 && len(calls) == 0 && !w.isThrottled() {\n", "		if len(writes) >= 0 {\n"),
		room("each write is checked", "world.go", "	if len(w.scenario.always) > 0 && !p.Killed() {\n", "	if false {\n"),
		room("what isn't needed is left out", "shrink.go", "	k.script = sc\n	return true\n", "	return false\n"),
		room("a Secret's values aren't told", "state.go", "		if secret && (", "		if secret && false && ("),
		room("a pointer to a part leads into the copy", "copy.go", "	if c.parts[at] {\n", "	if false {\n"),
		room("slices of one array stay so", "survey.go", "n < c.arrays[whole] {\n", "n < 0 {\n"),
		room("a call that doesn't return is no rest", "world.go", "len(writes) == 0 && len(calls) == 0 && ", "len(writes) == 0 && "),
		room("who always fails is found", "storm.go", "		if !s.mayFail(name) {\n", "		if false {\n"),
		room("the order of conditions doesn't count", "ordered.go", "ok && name == \"conditions\"", "ok && false && name == \"conditions\""),
		room("a name that goes is waited for", "steps.go", "return live == nil || !live.IsDeleting()", "return true || !live.IsDeleting()"),
		room("a UID is the same in each run", "server.go", "	s.NameUIDs()\n", ""),
		faults("faults end", "dice.go", "	if d.mu.healed {\n", "	if false {\n"),
		faults("a script draws nothing", "dice.go", "	if d.script == nil {\n", "	if f.Outcome == \"\" {\n"),
		faults("a dead process gets to know nothing", "link.go", "	if l.Process.Killed() {\n", "	if false {\n"),
		faults("a frame is told again with those after it", "frames.go", "	frame = append(frame, b.kept...)\n", ""),
		faults("a request arrives though its sender is gone", "exchange.go", "context.WithoutCancel(x.Context())", "x.Context()"),
		room("children that steps are about are left alone", "others.go", "return w.inSteps(r) })", "return false })"),
	}
}

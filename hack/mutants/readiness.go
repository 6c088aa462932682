package main

// inReadiness returns the mutants of conditions and of children that wait for others.
func inReadiness() []mutant {
	return []mutant{
		unit("a condition keeps its time", "plan", "plan/conditions.go",
			"at != nil && was[\"status\"] == c.status", "at != nil && false"),
		unit("a condition's time is that of its last transition", "plan", "plan/conditions.go",
			" && was[\"status\"] == c.status", ""),
		unit("a time is given once", "reconcile", "plan/conditions.go",
			"!ok || given.status != c.status || given.live != sum", "!ok || given.live == sum || given.live != sum"),
		unit("a transition that isn't live yet has its own time", "plan", "plan/conditions.go",
			"given.status != c.status || ", ""),
		unit("a condition has a reason", "reconcile", "reconcile/status.go",
			"	if err := plan.CheckConditions(want.value); err != nil {", "	if err := plan.CheckConditions(nil); err != nil {"),
		unit("no creation before its needs are ready", "plan", "plan/gates.go",
			"		if a.Want.gate.closed || len(g.Needs) > 0 {", "		if a.Want.gate.closed {"),
		unit("no creation before its condition is met", "plan", "plan/gates.go",
			"		if a.Want.gate.closed || len(g.Needs) > 0 {", "		if len(g.Needs) > 0 {"),
		unit("a need that is to be written isn't ready", "reconcile", "plan/gates.go",
			"unsettled || !in.isMet(n)", "unsettled && false || !in.isMet(n)"),
		unit("a Job that runs isn't done", "plan", "plan/gates.go",
			"		return hasCondition(res, \"Complete\")\n", "		return true\n"),
		unit("a Pod that has failed isn't done", "plan", "plan/gates.go",
			"		return phase != \"Failed\"\n", "		return phase != \"\"\n"),
		unit("a child that was deleted to be created anew doesn't wait", "reconcile", "reconcile/learn.go",
			"			p.memory.Recreate(a.Want)\n", ""),
		unit("a child that was created anew waits like any other", "plan", "plan/memory.go",
			"	delete(p.recreating, d.ref)\n", ""),
		unit("a refused creation waits for its gate", "reconcile", "plan/plan.go",
			"	case a.Verb == VerbCreate && d.gate != nil && !in.Memory.recreates(d.ref):", "	case a.Verb == VerbCreate && d.gate != nil && !in.Memory.recreates(d.ref) && in.Memory.setback(&a) == nil:"),
		unit("children that need each other are refused", "plan", "plan/gates.go",
			"		if around := cycle(desired); around != nil {", "		if around := cycle(nil); around != nil {"),
		unit("a need that nobody would create is refused", "plan", "plan/gates.go",
			"f.in.Refers == nil || !f.in.Refers(ref)", "false"),
		unit("the status of a parent whose children wait is of no new generation", "reconcile", "reconcile/status.go",
			"children.failed || children.waits", "children.failed"),
	}
}

package main

// inMessages returns the mutants of what is told of: once, not too often, and of nobody else.
func inMessages() []mutant {
	return []mutant{
		unit("a namespace that can't be asked for isn't told of as missing", "manager", "client/namespaces.go",
			"		if apierror.IsMissing(errs[i], name) {\n", "		if errs[i] != nil {\n"),
		unit("forbidden Events are told of once", "observe", "observe/eventsink.go",
			"		if s.forbids(asked) {\n", "		if s.forbids(asked) && false {\n"),
		unit("a namespace where Events are written doesn't let another be told of again", "observe", "observe/eventsink.go",
			"		delete(s.forbidden, asked)\n", "		clear(s.forbidden)\n"),
		unit("that a parent is paused again is told", "reconcile", "observe/eventsink.go",
			"apierrors.IsAlreadyExists(err) && queued.again {", "apierrors.IsAlreadyExists(err) && false {"),
		unit("another process tells no more that a parent is paused", "reconcile", "observe/events.go",
			"	e.Name = s.nameOfState(on, reason)\n", ""),
		unit("metrics of single parents are bounded", "reconcile", "observe/parents.go",
			"		if len(p.mu.series) >= p.limit {\n", "		if false {\n"),
		unit("a parent of the same name begins its metrics anew", "observe", "observe/parents.go",
			"	if of != nil && of.uid != uid {\n", "	if false {\n"),
		unit("a parent that went in its last pass has no metrics", "reconcile", "reconcile/pass.go",
			"	if !out.Forget {\n		p.metrics.PassedParent", "	if true {\n		p.metrics.PassedParent"),
		unit("a warning is told of once for each object", "client", "client/warnings.go",
			"	case told:\n", "	case told && false:\n"),
		unit("a dry run is no Event", "client", "client/warnings.go",
			"		v.log, v.tell = true, persisted\n", "		v.log, v.tell = true, true\n"),
		unit("a typo in many objects hides no other warning", "client", "client/warnings.go",
			"	if known {\n		room = ", "	if known || !known {\n		room = "),
		unit("a Secret's warning is told of in our own words", "reconcile", "client/warnings.go",
			"			text = apierror.RedactedWarning(w.Text, what)\n", "			_ = apierror.RedactedWarning\n"),
		unit("a status that this process has written has no rival", "reconcile", "reconcile/rivals.go",
			"	if p.memory.LeftStatus(live) || !p.loops", "	if !p.loops"),
		unit("who else writes a Secret isn't named", "plan", "plan/rival.go",
			"	case about.Secret():\n", "	case false:\n"),
		unit("the handler of one worker isn't taken for another's", "reconcile", "reconcile/stacks.go",
			"		out[worker] = ", "		out[worker[:0]] = "),
	}
}

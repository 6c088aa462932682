package main

// inWindow returns the mutants of what the window keeps, asks for and serves.
func inWindow() []mutant {
	served := func(name, file, was, is string) mutant {
		return mutant{name, []edit{{"internal/window/" + file, was, is}}, "internal/window"}
	}
	return []mutant{
		unit("a busy parent's passes take nobody else's place", "journal", "journal/journal.go", "	if f.passes.n >= PassesOfParent {\n", "	if false {\n"),
		unit("a journal has so many passes", "journal", "journal/journal.go", "(j.mu.kept.n >= maxPasses || j", "(j"),
		unit("a journal has so many writes", "journal", "journal/journal.go", " || j.mu.writes+writes > maxWrites)", ")"),
		unit("a parent without passes is forgotten", "journal", "journal/journal.go", "		delete(j.mu.families, r.uid)\n", ""),
		unit("a step begins with nothing", "journal", "journal/plots.go", "		*b = bucket{number: number}\n", "		b.number = number\n"),
		unit("a full journal drops no failed write", "reconcile", "reconcile/journal.go", "	add(true)\n	add(false)\n", "	add(false)\n	add(true)\n"),
		unit("what is gone is in no journal", "reconcile", "reconcile/pass.go", "	e.journal.Forget(uid)\n", ""),
		unit("only dry runs rehearse", "client", "client/link.go", "(!g.dryRuns || !isDryRun(req))", "!g.dryRuns"),
		unit("a look through the window is a dry run", "manager", "manager/rehearsals.go", "	cfg.DryRun = true\n", ""),
		unit("a look through the window ends", "manager", "manager/rehearsals.go", "	case <-ctx.Done():\n		return fmt.Errorf(\"no", "	case <-make(chan struct{}):\n		return fmt.Errorf(\"no"),
		unit("an address without a host is this machine's", "access", "access/address.go", "net.JoinHostPort(\"127.0.0.1\", port)", "net.JoinHostPort(\"\", port)"),
		served("a name that means this machine is asked for", "security.go", "	case w.opts.Loopback && !isLoopbackHost(req.Host):\n", "	case false:\n"),
		served("another site asks for nothing", "security.go", "	case !sameSite(req, page):\n", "	case false:\n"),
		served("the window is read only", "security.go", "	case req.Method != http.MethodGet && req.Method != http.MethodHead:\n", "	case false:\n"),
		served("data are protected", "window.go", "		w.data = opts.Protect(w.data)\n", ""),
		served("there are so many streams", "window.go", "	case len(w.mu.open) >= w.opts.maxStreams:\n", "	case false:\n"),
		served("what is gone is told of", "overview.go", "	for ; i < len(before); i++ {\n", "	for ; false; i++ {\n"),
		served("the first rows are all there are", "overview.go", "parentsEvent{All: !o.all,", "parentsEvent{All: false,"),
		served("what nobody looks at isn't recorded", "parent.go", "	defer release()\n", "	_ = release\n"),
		served("a client that takes nothing is given up", "answer.go", "	if err := a.control.SetWriteDeadline(time.Now().Add(patience)); err != nil", "	if err := error(nil); err != nil"),
		served("a recording is bounded", "recording.go", "	if b.Len()+len(p) > maxRecording {\n", "	if false {\n"),
	}
}

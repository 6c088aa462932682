package main

// inLeadAndManager returns the mutants of the lease, of starts and stops, of the
// catalog, and of what is told.
func inLeadAndManager() []mutant {
	return []mutant{
		unit("a right to the Lease that is gone for a moment ends nobody", "lead", "lead/rights.go",
			"	if r.given[request] {\n", "	if false {\n"),
		unit("a right to the Lease that was never given ends the process", "lead", "lead/rights.go",
			" || again && r.allowed > before.allowed\n", "\n"),
		unit("all rights may be gone when the Lease would be taken", "lead", "lead/rights.go",
			"r.allowed == 0 || again && r.allowed > before.allowed\n", "true\n"),
		unit("a lease counts from when its request began", "lead", "lead/lease.go",
			"l.mu.renewed, l.mu.ever = begin, true", "l.mu.renewed, l.mu.ever = time.Now(), true"),
		unit("the lease isn't held while something still runs", "manager", "lead/election.go",
			"	l.leave(unfinished)\n", ""),
		unit("the lease is released though something still runs", "manager", "lead/lease.go",
			"unfinished, true\n", "unfinished, false\n"),
		unit("the lease of another isn't released", "manager", "lead/lease.go",
			"	l.mu.leaving = false\n", ""),
		unit("a lease is held until its deadline", "lead", "lead/lease.go",
			" && elapsed(l.mu.renewed) < l.config.RenewDeadline\n", "\n"),
		unit("a lease that was lost isn't taken again", "lead", "lead/lease.go",
			"	case !l.mu.gone:\n		l.mu.renewed", "	default:\n		l.mu.renewed"),
		unit("a lease that was lost isn't renewed", "lead", "lead/lease.go",
			"	if err := l.Lost(); err != nil && (record.HolderIdentity != \"\" || !l.mayRelease()) {\n		return err\n	}\n	begin := time.Now()\n	if record", "	begin := time.Now()\n	if record"),
		unit("a lease that another process has is lost", "lead", "lead/lease.go",
			"	if err == nil && record.HolderIdentity != \"\" && record", "	if false && record"),
		unit("a lease that was released isn't held", "lead", "lead/lease.go",
			"		l.mu.renewed = time.Time{}\n	case", "	case"),
		unit("a request about the lease has a timeout", "lead", "lead/lease.go",
			"	httpClient.Timeout = max(", "	_ = max("),
		unit("passes are cut short when the lease is lost", "lead", "lead/election.go",
			"		cut(lost)\n", ""),
		unit("no more passes begin when the lease is lost", "lead", "lead/election.go",
			"		lost = l.Lost()\n		stop()\n", "		lost = l.Lost()\n"),
		unit("who took the lease ends the work at once", "lead", "lead/election.go",
			"			case <-l.taken:\n				timer.Stop()\n", ""),
		unit("a lost lease isn't healthy", "manager", "manager/health.go",
			"	if lease != nil && lease.Lost() != nil {\n", "	if false {\n"),
		unit("a stuck handler isn't healthy", "manager", "manager/health.go",
			"			errs = append(errs, e.Stuck())\n", ""),
		unit("connections are bounded", "manager", "manager/connections.go",
			"	if len(l.mu.open) <= l.limit {\n", "	if true {\n"),
		unit("who has the most connections loses one", "manager", "manager/connections.go",
			"		if has[each.host] > has[surplus.host] {\n", "		if false {\n"),
		unit("a connection that is closed isn't counted", "manager", "manager/connections.go",
			"return each == c })", "return false && each == c })"),
		{"nobody waits for ever for a line of the log", []edit{{
			"internal/logbuffer/writer.go", "		case <-w.timer.C:\n			w.mu.Lock()\n", "		case <-make(chan struct{}):\n			w.mu.Lock()\n"}}, "internal/logbuffer"},
		{"a late log isn't waited for with each line", []edit{{
			"internal/logbuffer/writer.go", "			w.mu.late = w.mu.out < w.mu.got\n", ""}}, "internal/logbuffer"},
		{"a log that has caught up isn't late", []edit{{
			"internal/logbuffer/writer.go", "		w.mu.late = false\n", ""}}, "internal/logbuffer"},
		{"a line is out when its call returns", []edit{{
			"internal/logbuffer/writer.go", "	if wait {\n", "	if wait && false {\n"}}, "internal/logbuffer"},
		{"the lines that wait are bounded", []edit{{
			"internal/logbuffer/writer.go", "		w.mu.dropped++\n		w.lost.Add(1)\n		return 0, false, nil\n", ""}}, "internal/logbuffer"},
		{"what is missing stands in one place", []edit{{
			"internal/logbuffer/writer.go", "(w.mu.dropped > 0 || ", "(false || "}}, "internal/logbuffer"},
		{"lines that can't be written are counted", []edit{{
			"internal/logbuffer/writer.go", "	l.w.lost.Add(uint64(n))\n", ""}}, "internal/logbuffer"},
		{"what is missing is said before what follows", []edit{{
			"internal/logbuffer/writer.go", "	if l.missing > 0 && !l.tell() {\n", "	if false {\n"}}, "internal/logbuffer"},
		{"a large buffer is given back", []edit{{
			"internal/logbuffer/writer.go", "	if cap(used) > keptBuffer {\n", "	if false {\n"}}, "internal/logbuffer"},
		{"a log that is stuck doesn't keep the process", []edit{{
			"internal/logbuffer/writer.go", "	case <-w.ended:\n	case <-timer.C:\n", "	case <-w.ended:\n"}}, "internal/logbuffer"},
		{"the log of run is buffered", []edit{{
			"internal/cli/log.go", "	c.log, c.lost = c.flags.logger(w), w.Dropped\n", "	c.lost = w.Dropped\n"}}, "internal/cli"},
		{"package log goes the same way", []edit{{
			"internal/cli/log.go", "		log.SetOutput(w)\n", ""}}, "internal/cli"},
		unit("an operator with an overdue pass isn't ready", "reconcile", "manager/health.go",
			"err: e.Overdue()}", "err: nil}"),
		unit("no election in a dry run", "manager", "manager/manager.go",
			"		if !o.cfg.DryRun {\n", "		if !o.cfg.DryRun || true {\n"),
		unit("who begins to lead lists anew", "manager", "manager/run.go",
			"			if !standby || m.refresh(ctx, engines, stop) {", "			if true {"),
		unit("a replica waits in standby", "manager", "manager/run.go",
			"			e.Standby()\n", ""),
		unit("writes are under the lease", "manager", "manager/manager.go",
			"		guarded = l.Under(lock)\n", ""),
	}
}

// inRights returns the mutants of what is looked at before work begins.
func inRights() []mutant {
	return []mutant{
		unit("a right that is required and missing ends the start", "manager", "manager/rights.go",
			"{ return l.required }", "{ return false }"),
		unit("a right that is only sometimes needed doesn't end the start", "manager", "manager/rights.go",
			"{ return l.required }", "{ return true }"),
		unit("who waits for the lease looks at the rights to it", "manager", "manager/manager.go",
			"	if lock != nil {\n		needed", "	if false {\n		needed"),
		unit("a right is looked at once for all operators", "manager", "manager/rights.go",
			"			if !known[r] {\n", "			if true {\n"),
		unit("rights are looked at without the lease", "manager", "manager/manager.go",
			"m.checkRights(ctx, l, engines, needed)", "m.checkRights(ctx, guarded, engines, needed)"),
		unit("who is told to stop lacks no right", "manager", "manager/rights.go",
			"	if ctx.Err() != nil {\n", "	if false {\n"),
		unit("who may not list doesn't hold the lease", "manager", "manager/run.go",
			"			if apierrors.IsForbidden(err) {\n", "			if false {\n"),
		unit("why nobody begins to lead is said once", "manager", "manager/run.go",
			"text != said {", "text != said || true {"),
		unit("what isn't found is confirmed by the list of groups", "catalog", "catalog/discovery.go",
			"			return nil, confirm(ctx, dc, t.GroupVersionKind().GroupVersion())\n		case err != nil:\n", "			return nil, nil\n		case err != nil:\n"),
		unit("a lease that exists needn't be created", "catalog", "catalog/rights.go",
			"			r.Required = r.Verb != \"create\"\n", "			r.Required = true\n"),
		unit("what is listed is required", "catalog", "catalog/rights.go",
			"r.Required, r.Selector = true, ", "r.Required, r.Selector = false, "),
		unit("Events about cluster-scoped parents are in a namespace", "catalog", "catalog/rights.go",
			"	return []string{metav1.NamespaceDefault}\n", "	return []string{metav1.NamespaceAll}\n"),
		unit("a status that isn't served needs no right", "catalog", "catalog/rules.go",
			"	if c.Parent.HasStatus {\n", "	if true {\n"),
	}
}

// inCatalogAndObserve returns the mutants of the catalog, and of Events.
func inCatalogAndObserve() []mutant {
	return []mutant{
		unit("Namespaces go first", "catalog", "catalog/catalog.go",
			"		case a.IsNamespace():\n			return -1\n", ""),
		unit("one object isn't configured as two types", "catalog", "catalog/discovery.go",
			"		if other := first[k.storage]; other != nil {", "		if other := first[k.storage]; false && other != nil {"),
		unit("a finalizer that nobody wants goes", "catalog", "catalog/settings.go",
			"	case !s.Holds && has:\n", "	case false:\n"),
		unit("an Event never blocks", "observe", "observe/eventsink.go",
			"	default: // dropped: the log has the same text\n		s.waiting.Add(-1)\n		s.counted.WithLabelValues(eventDropped).Inc()\n", ""),
		unit("series of Events are bounded", "observe", "observe/eventsink.go",
			"		clear(s.series)\n", ""),
		unit("an Event without the lease isn't sent again", "observe", "observe/eventsink.go",
			"errors.Is(err, apierror.ErrNoLease) || ", ""),
		unit("Events about writes are limited", "observe", "observe/eventsink.go",
			"	if !s.limit.TryAccept() {\n", "	if false {\n"),
	}
}

package main

// forSimulation returns the mutants that the simulation must find.
func forSimulation() []mutant {
	one := func(name, file, was, is string) mutant { return inEngine(simulation(), name, file, was, is) }
	return []mutant{
		one("read your writes", "store/writes.go", "		c = s.readLocked(r.Live).without(w.Parent)\n", ""),
		one("newer states only", "store/store.go", "if held != nil && !newer(res.ResourceVersion(), held.ResourceVersion()) && ", "if false && "),
		one("relist deletion", "store/observed.go", "		all.add(s.holdBackLocked(s.removeLocked(ref, held), ref, held.UID(), listVersion))\n", "		continue\n"),
		one("UID guard", "client/client.go", "	only := &metav1.Preconditions{UID: &uid}\n", "	only := &metav1.Preconditions{}\n"),
		one("test operations", "plan/json_patch.go", `ops := []operation{{"test", "/metadata/uid", parent.UID()}, {"test", "/metadata/finalizers", before}}`, "ops, _ := []operation{}, before"),
		one("finalizer before the handler", "catalog/settings.go", "return append(held, s.Finalizer)", "return held"),
		one("finalize until finalized", "reconcile/finalize.go", "if resp.Finalized {", "if true {"),
		one("delete suppression in a failed pass", "apply/order.go", "if back.holds(a.Ref) {", "if false && back.holds(a.Ref) {"),
		one("children that went with their parent", "reconcile/pass.go", "	if planned.Creates() {\n", "	if false {\n"),
		one("foreign objects", "apply/standing.go", "s.controller == nil && !s.foreign && (s.ours || s.adoptable)", "s.controller == nil && !s.foreign"),
		{"the lease check", []edit{
			{"internal/engine/client/link.go", "		if !g.lease.Held() && (!g.dryRuns || !isDryRun(req)) {\n", "		if false {\n"},
			{"internal/engine/lead/election.go", "		stop()\n		cut(lost)\n", ""},
		}, simulation()},
		one("no writes after a handler's error", "reconcile/pass.go", "	if err != nil {\n		return p.failSync(ctx, resp, err)\n	}\n", "	if err != nil {\n		resp = &handler.SyncResponse{}\n	}\n"),
		one("removal of dropped fields", "plan/request_bodies.go", "Merge(a.LiveObject(), wanted, a.former))", "Merge(a.LiveObject(), wanted, nil))"),
		one("old references are dropped", "relate/relations.go", "		if delete(of.parents, parent); len(of.parents) == 0 {\n			r.dropLocked(of)\n		}\n", "		_ = of\n"),
		one("no pass before the lookup", "relate/relations.go", "		if from == nil {\n			known = false\n", "		if from == nil {\n			_ = known\n"),
		one("the limit of a rollout", "plan/roll.go", "r.max-len(r.down), r.down)", "r.max-len(r.down)+1, r.down)"),
		one("a creation behind its gate", "plan/gates.go", "		if a.Want.gate.closed || len(g.Needs) > 0 {", "		if a.Want.gate.closed {"),
		one("readiness of an old generation", "plan/gates.go", "	is := readiness.Of(res)\n", "	is := readiness.Of(res)\n	if hasCondition(res, \"Ready\") {\n		is.State = readiness.Current\n	}\n"),
		one("Ready before the children are", "reconcile/ready.go", "	case child != nil:\n", "	case child != nil && false:\n"),
		one("the order of a teardown", "plan/teardown.go", "slices.Backward(s.Types.Children)", "slices.All(s.Types.Children)"),
		one("the order of a teardown after a restart", "plan/teardown.go", "		turn, holders := len(first) == 0, ", "		turn, holders := len(first) == 0 || in.Memory.Children() == 0, "),
		one("the lease of another shard", "manager/divided.go", "shard.Shard{Index: index, ", "shard.Shard{Index: (index + 1) % m.opts.Shards, "),
		one("the parents of other shards", "shard/shard.go", "return s.Of <= 1 || bucket*s.Of/Buckets == s.Index", "return true"),
		one("the lease of a shard", "lead/members_shards.go", "return !r.ended.Load() && r.term.held() && r.lease.Held()", "return true"),
		one("retry of a failed pass", "reconcile/pass.go", "	out.Err = err != nil\n", ""),
	}
}

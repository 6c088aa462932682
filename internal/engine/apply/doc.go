// Package apply carries out a plan: it turns the actions on the children of one
// parent into requests, and puts the API server's answers into the store. With
// DryRun it sends dry runs instead, which tell what each action would change.
//
// A pass makes one Executor, runs it once, and learns from the report:
//
//	x := &apply.Executor{
//		Settings: settings, Client: client, Store: store, Tracing: tracing,
//		Lessons: lessons, Slots: slots, Parent: parent, Owner: pass,
//	}
//	report := x.Run(ctx, &planned, memory.NamespacesTerminating())
//	for _, r := range report.Results { … }
//
// The room decides nothing about a child. What its requests find out goes to
// plan.Next as a finding, which returns the action to go on with: see carryOut.
// It never changes an action, nor the memory of a parent.
//
// A run, in order.go, keeps the order of one plan: what is repeated, what a failed
// write holds back, and what has to go first (obstacles.go).
//
// It imports plan, client, store, observe, merge, catalog and the leaves below
// them. It knows a pass only as an Owner, and must not import schedule or
// reconcile.
//
// An Executor owns the state of one run: the namespaces that turn out to be
// terminating (under a lock), and those that a dry run foresees. The goroutines
// that carry out the actions of one type end before Run returns. Each writes a
// result of its own. A panic in one of them is the error of that child alone.
package apply

// Package reconcile makes the passes of one operator. A pass takes a snapshot of
// a parent and its children, calls the handler, lets package plan decide and
// package apply write, and writes the parent's status last. While a parent is
// being deleted, its passes call Finalize instead. They create no child. They delete those
// that Finalize leaves out of its response, or that have to go before the parent, and let
// go of those that survive it: see finalize.go, teardown.go and retained.go.
//
//	e := reconcile.New(reconcile.Config{Settings: settings, Handler: h, Client: c, Metrics: m, Log: log})
//	e.Watchers(fatal)
//	go e.Watch(ctx) // fills the engine's store
//	if e.AwaitSynced(ctx) {
//		err := e.Refresh(ctx) // if another replica has led
//		err = e.Work(ctx, passes, shutdownTimeout)
//	}
//
// [Engine.PlanAll] makes the same passes without a write, [Engine.ReleaseAll]
// takes the operator's finalizers off, and an [OfflinePlanner] plans a pass
// without an API server.
//
// # Ownership
//
// An Engine owns the store, the scheduler, the memory of parents, the conflict
// detector and the history of errors. Each of them guards itself with a mutex
// under which no other is taken. A pass has a snapshot that nobody changes. What
// is remembered of one parent belongs to the pass over that parent, and the
// scheduler never hands out a parent twice at a time.
// What another goroutine may read of a running reconciliation is in a passUnderWay: values
// that never change, copies under a mutex, and atomics.
//
// The engine owns the catalog, too, in which the schemas of custom resources
// arrive and change: see KeepSchemas. A new schema makes a new catalog, which is
// stored in an atomic pointer. A pass takes the catalog once, when it begins.
// A type that comes or goes makes a new catalog as well: see Watch.
//
// # Goroutines
//
// Watch runs each watcher in a goroutine. The caller's own follows types that come and go: it
// makes requests only while a type isn't served, or after the API server has ended a watch
// before its time. All end with the context.
//
// KeepSchemas runs in its caller's goroutine, and ends with its context. It makes
// requests only while a schema is missing, or after the API server has ended a
// watch of a custom resource before its time.
//
// Refresh, FindUnlabelled, FindFormer and Stamp start a goroutine for each of their lists, of
// which few make a request at a time (lists.go). All end before the call returns.
//
// Work starts MaxConcurrentSyncs workers. Each ends after its pass once the
// context has ended. One more goroutine cancels those passes after the shutdown
// timeout, and another one logs which passes take long; both end with the workers. Each
// call of the handler has a goroutine, which ends with the call: a handler may end its
// goroutine. A call that doesn't heed the end of its context is given up when the
// operator stops. Its goroutine is the only one that may outlive Work, and nothing takes
// what it returns.
//
// Where replicas share the parents, the engine is that of a shard (Settings.Shard), and another goroutine of Work
// labels children that lack the label of their bucket: see Stamp.
//
// Two more goroutines of Work end with its context. One looks for departed parents, if
// there may be any. The other one reads the children that were deleted, and the parents
// that were let go, whose end no watch has confirmed. A pass that reads unlabelled
// objects starts as many goroutines as there are workers at most, which end before the
// handler is called. PlanAll and ReleaseAll start as many goroutines as there are
// workers, which end before the call returns.
//
// # Imports
//
// The package stands on every other room of the engine but lead and manager. It
// makes its requests through package client, and reads no flag, file or
// environment variable.
package reconcile

// Package manager runs the operators of one process. It connects each to the API
// server, starts their watches, takes the lease, starts their workers, and serves
// metrics and health. Before the watches begin, it looks at the rights that all of
// this takes. Package runner is its public face; testkit and the tests use it where
// they need to look into an engine.
//
//	m, err := manager.New(manager.Options{LeaderElection: &lead.Config{}}, manager.Spec{Config: cfg, Handler: h})
//	…
//	err = m.Start(ctx) // until ctx ends
//
// # What is shared
//
// Each operator has an engine of its own, with its own store, queue and workers.
// The operators of a manager share the link to the API server, the lease, the
// metrics registry and the HTTP server. A manager guards its lease, and each
// operator its engine and watchers, with a mutex under which no other is taken.
//
// Where replicas share the parents (divided.go), there are engines for each shard that the process holds, from when the
// shard is taken until it is given up. The shards of an operator share its slots
// (schedule.Slots), which bound and order their reconciliations, and its journal.
//
// # Goroutines
//
// Start returns after all of these have ended:
//
//   - one per served address, which ends when Start returns, and one for each of its
//     connections, which are bounded (connections.go),
//   - access.Certificates.Keep for each protected address, which ends with the addresses,
//   - those of the window's page, which end before the addresses, and one for each rehearsal that the page has asked
//     for (rehearsals.go), of which there are few,
//   - those of client.Review, which end before the watches begin,
//   - one watch.Watcher.Run per type and namespace, which ends with the context,
//   - one reconcile.Engine.KeepSchemas per operator, which ends with the context,
//   - one per operator that waits until its types are mirrored, which ends with the context,
//   - one that looks at the progress of the lists of a new leader, which ends with them (run.go),
//   - those of lead.Run, the election and the guard of the lease, which end after
//     the last pass,
//   - one reconcile.Engine.Work per operator, which ends when its passes have,
//   - those of lead.Members, which end after the work of the last shard; the watches, KeepSchemas and Work above are
//     those of a shard then, and end with it.
//
// A call of a handler that doesn't heed the end of its context outlives Start, whose error names the call. A
// rehearsal whose handler doesn't heed it outlives Start, too.
//
// # Imports
//
// The package wires the rooms and decides nothing about objects: it imports
// access, catalog, client, watch, observe, lead, reconcile and shard, of plan only the type
// of a change, and journal and view for what the window shows. No room imports it.
package manager

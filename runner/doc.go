// Package runner runs operators: it watches a parent type and its child types,
// calls the handler with a snapshot of a parent and its children, and makes
// the cluster as the handler wants it.
//
//	func main() { runner.Main(operator, handler.SyncFunc(sync)) }
//
// # The way of an event
//
// The files of this package, in the order in which a watch event passes them:
//
//	watch.go        a list and watch of one type, in one namespace or all: a
//	                client-go Reflector that writes straight into our store
//	wire.go         the event's bytes become a resource.Resource, nothing else
//	                (wire_frames.go: where an event ends in the stream)
//	resourcemap.go  the newest known state of every object, with an index from
//	                a parent's UID to its children; answers to our own writes
//	                enter by resourceVersion like everything else, so that
//	                nobody ever reads a state older than our own writes
//	                (resourcemap_index.go: what happens under its lock)
//	schedule.go     which parents are due: at most one pass per parent at a
//	                time, backoff, resync, fresh changes before the backlog
//	snapshot.go     parent and children become a handler.SyncRequest
//	sync.go         one pass: finalizers, the handler, then what follows
//	                (finalize.go: the same for a parent that is being deleted)
//	desired.go      the response is validated as a whole before any write
//	plan.go         what has to be done: a pure function of the children, the
//	                desired state and the memory
//	compare.go      does a live object satisfy a desired one, and the merge of
//	                both (merge.go); what an earlier desired state had set
//	                (applied.go), kept in a mark on the child (mark.go)
//	apply.go        actions become requests (strategy.go: their bodies; verify.go:
//	                dry runs first; managed.go: what an apply may remove), their
//	                answers go into the store (claim.go: a name that is taken)
//	memory.go       what the API server made of which desired state, so that
//	                its normalizing never looks like a difference
//	loop.go         writes that never settle (loops.go) are slowed down
//	status.go       the parent's status, last
//
// What is told of it: passlog.go (one line per pass, with its syncID), events.go
// (on the parent; eventsink.go writes them), metrics.go (metrics_api.go: requests;
// metrics_gauges.go: what is looked up when asked), trace.go (spans). What client-go
// says passes bodies.go, which keeps objects out of it.
//
// Plan (planrun.go) is one pass over every parent with DryRun: the actions are
// rehearsed (planrun_rehearse.go) instead of carried out, and what would be
// written is noted down (planrun_pass.go).
//
// # Goroutines
//
// Start owns all of them and returns when they have ended:
//
//	server          one per address that is served; ends when Start returns
//	watcher.run     one per type and namespace; ends with the context
//	Runner.lead     the election, which ends after the last pass and releases
//	                the lease, and one goroutine that cuts the passes short when
//	                the lease isn't renewed in time
//	engine.work     MaxConcurrentSyncs workers; each ends after the pass it is
//	                in, once the context has ended, and one goroutine that
//	                cancels those passes after the shutdown timeout
//	executor.runAll at most 16 writes of one pass, 64 in all; ends with the pass
//	eventSink       one, that writes Events; ends when Start returns
//
// Plan owns those of its own, which end before it returns:
//
//	engine.planAll  at most MaxConcurrentSyncs passes; each ends by itself
//	eventSink       as above, with nothing to write
//
// # Several operators
//
// A Runner has one or more (RunAll): each an engine with a store, a queue and
// workers of its own. What they share is the link to the API server (link.go),
// the lease (leader.go, lease.go) and the server (server.go).
//
// # Ownership
//
// The resource map, the scheduler, the memory's map of parents and the loop
// detector each guard themselves with a mutex that no other is taken under.
// What is remembered of one parent belongs to the pass over it, of which there
// is never more than one. Objects are immutable and shared.
package runner

// Package runner runs operators: it watches a parent type and its child types,
// calls the handler with a snapshot of a parent and its children, and makes
// the cluster as the handler wants it.
//
//	func main() { runner.Main(operator, handler.SyncFunc(sync)) }
//
// This package is the engine's face: Options, Runner, Run, RunAll, Main, Program, Plan
// and PlanFor. The engine itself is in the packages under internal/engine.
//
// # The way of an event
//
// These are the packages of the engine, in the order in which a change in the
// cluster passes them:
//
//	client     sends requests, and decodes objects and the events of a watch. An
//	           object becomes a resource.Resource, which keeps the JSON.
//	watch      lists and watches one type, in one namespace or in all: a client-go
//	           Reflector that writes straight into the store.
//	store      holds the newest known state of every object, with an index from a
//	           parent's UID to the parent's children. The answers to the operator's
//	           own writes enter by resourceVersion as everything else does, so that
//	           nobody ever reads a state older than an own write.
//	schedule   says which parent is due: at most one pass per parent at a time,
//	           backoff, resync, fresh changes before the backlog. Writes that never
//	           settle are slowed down (the conflict detector).
//	reconcile  makes the pass: a snapshot of the parent and its children, the
//	           finalizer, the handler's Sync or Finalize, then plan, apply and,
//	           last, the parent's status.
//	plan       validates the response as a whole, and decides what to do with each
//	           child: immutable actions with the bodies of their requests. It also
//	           remembers what the API server made of which desired state, so that
//	           normalizing never looks like a difference.
//	merge      says whether a live object satisfies a desired one, and merges the
//	           two. What an earlier desired state had set, and today's doesn't,
//	           is removed. An annotation on the child, the mark, lists it.
//	apply      turns the actions into requests, and puts the answers into the
//	           store. What a request finds out goes back to plan, which returns
//	           the next action.
//
// Plan and merge are pure: they make no request and read no clock. Beside the way
// of an event are these packages:
//
//	catalog      how the API server serves each type, and the settings that no pass
//	             changes
//	relate       what each parent refers to, and what there is of it
//	observe      metrics, Events and spans; it takes values, and never an engine
//	explain      why a parent and its children are as they are
//	journal      what was done lately, for the window; view has what else that shows
//	lead         the lease by which replicas take turns, or those of their shards
//	shard        divides the parents among replicas
//	access       protects the metrics and the window
//	definitions  installs the operator's CustomResourceDefinitions
//	leave        takes an operator out of a cluster
//	manager      wires all of these for the operators of one process
//
// A dry run is the same way: apply sends dry runs instead of writes, and the pass
// notes what it would change. Plan is one dry run of a pass over every parent.
//
// # Goroutines
//
// Start owns all of them, and returns when they have ended. These do most of the
// work:
//
//	manager.Manager.Start   one per address that is served, until Start returns; one
//	                        per operator while it connects to the API server
//	watch.Watcher.Run       one per type and namespace, until the context ends
//	lead.Run                the election, which ends after the last pass and then
//	                        releases the lease; and one that cuts the passes short
//	                        when the lease isn't renewed in time
//	reconcile.Engine.Work   MaxConcurrentSyncs workers, each of which ends after its
//	                        pass once the context has ended; and one that cuts those
//	                        passes short after the shutdown timeout; one per call of
//	                        the handler, until the call returns, and be that after
//	                        Start has given it up
//	apply.Executor.Run      at most 16 writes of one pass, 64 of one operator, until
//	                        the pass ends
//	observe.EventSink       one per operator, which writes Events until Work returns
//
// Plan starts at most MaxConcurrentSyncs passes at a time (reconcile.Engine.PlanAll)
// and an EventSink, which all end before it returns. Main adds two goroutines: one
// waits for the first signal. The other one writes the log, unless Options.Logger is set.
//
// # Several operators
//
// A Runner has one operator or more (RunAll). Each has an engine of its own, with
// a store, a scheduler and workers. They share the connections to the API server
// (client.Link), the lease, and the addresses for metrics and health.
//
// # Ownership
//
// Every state has one owner. Where goroutines share it, the owner guards it with a
// mutex under which no other is taken:
//
//	the objects                          store.Store
//	who is due, and who waits            schedule.Scheduler
//	writes that may be a conflict loop   conflict.Detector
//	which parents are remembered         plan.Memory
//	what is remembered of one parent     the pass over the parent (plan.ParentMemory)
//	the namespaces found terminating     the run of a plan (apply.Executor)
//	how far a watch has come             watch.Watcher, and store.Store
//	etcd's newest known revision         revision.Storage
//	Events that wait to be written       observe.EventSink
//	whether this process leads           lead.Lease
//
// There is never more than one pass over a parent, so that what is remembered of
// one parent needs no lock. Objects, settings and actions are immutable and
// shared.
package runner

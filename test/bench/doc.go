// Command bench measures this library beside what a user would take instead,
// on a real API server: controller-runtime, typed and with unstructured
// children, and plain client-go that issues only the writes which are needed,
// which is what the API server allows at best.
//
//	make bench N=1000
//
// Every operator does the same job: N parents, for each of which it keeps a
// finalizer, two ConfigMaps, a headless Service, a Deployment and a status. Each is a process
// of its own on a control plane of its own, in turn and in several rounds. The
// phases of a run:
//
//	cold     from the start of the process, with N parents there, until the
//	         last one has its status
//	spec     every parent's spec changes
//	repair   every ConfigMap is deleted
//	single   one parent's spec changes while nothing else happens: from the
//	         arrival of the event to the child's request leaving, and to the
//	         child's write seen by a watcher
//	quiet    nothing happens
//	restart  from the start of another process, with all in place, until every
//	         parent has been looked at once
//
// Standard output gets a table of medians, and a line for each ratio of two
// variants' medians. Every figure of every run is written as JSON.
package main

// Package gates measures what an operator allocates for each parent, and fails if that is more than
// allocations.txt says. CPU time is another on each machine and with each load. Allocations repeat within 0.5 %.
//
//	make gates           # compares, with hack/state's table too
//	make gates-update    # writes both tables; docs/contributing.md says what belongs into the commit
//
// The operator runs in a process of its own, against a real API server, with 200 parents that have three children each.
// In each phase everything happens once for each parent:
//
//	cold     the operator starts, and there are no children yet
//	spec     somebody changes the spec of the parent
//	deleted  somebody deletes a child
//	edited   somebody edits a child
//	restart  the operator starts again, and all is as it should be
//
// A phase ends when the operator is at rest. From what starts allocate, what a start without parents allocates is
// subtracted. The figures that tell the cause of a growth are held as well: reconciliations, calls of the handler, requests.
//
// # What is kept out
//
// Whatever depends on the load of the machine is kept out or made the same each time:
//
//   - The event of a write may arrive before or after the response to the write. Today the engine reconciles once more if the event
//     is first. Here each watch event waits until the operator is at rest, so the response is always first (wire_test.go).
//   - Deletions of children are delivered 24 at a time. With 32 parents that miss a child, the engine lists all parents in place of reading
//     each, as often as time allows.
//   - Watches have an HTTP/1.1 connection each. In HTTP/2, what arrives faster than it is read fills buffers of net/http.
//   - Requests about Events wait until the phase is over. The engine sends two a second.
//   - The garbage collector is off in a phase, since it empties pools. GOMAXPROCS is 2, since pools are per processor.
//
// Figures are those of one version of Go, and of one version of Kubernetes, whose objects differ in length. With
// -race nothing is measured: the race detector empties pools at random.
package gates

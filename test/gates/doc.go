// Package gates measures what an operator allocates for each parent, and fails if that is more than
// allocations.txt says. CPU time depends on the machine and its load. Allocations repeat within 1 %.
//
//	make gates           # compares with the table, and with that of hack/state
//	make gates-update    # writes both tables; docs/contributing.md says what the commit's message has
//
// The operator runs in a process of its own, against a real API server, with 200 parents that have three children each.
// The phases, in each of which one thing happens to each parent:
//
//	cold     the operator starts and creates the children
//	spec     the test changes the spec of the parent
//	deleted  the test deletes a child
//	edited   the test edits a child
//	restart  the operator starts again and has nothing to write
//
// A phase ends when the operator is at rest. What a start without parents allocates is subtracted from the figures of starts.
// Reconciliations, handler calls and requests are compared as well, since they tell the cause of a growth.
//
// # What is kept out
//
// What depends on the load of the machine is kept out or made the same each time:
//
//   - The watch event of a write arrives before or after the API response to the write. If the event is first, the engine reconciles
//     once more. Here watch events wait until the operator is at rest, so the response is always first (wire_test.go).
//   - Deletions of children are delivered 24 at a time. If 32 parents miss a child, the engine lists all parents
//     in place of reading each, and the number of lists depends on time.
//   - Watches have an HTTP/1.1 connection each. With HTTP/2, unread bytes fill buffers of net/http.
//   - Requests about Events wait until the phase is over. The engine sends two a second.
//   - The operator authenticates by a token, as in a Pod and as testkit's control plane wants it. With a client certificate
//     each request has 8 allocations fewer.
//   - The garbage collector is off in a phase, since it empties pools. GOMAXPROCS is 2, since pools are per processor.
//
// The figures belong to one version of Go and one of Kubernetes, whose objects differ in length. With -race
// nothing is measured: the race detector empties pools at random.
package gates

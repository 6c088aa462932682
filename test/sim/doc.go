// Package sim runs whole operators against an API server in the process that
// does its worst, in a bubble of testing/synctest, where hours pass in no time:
//
//	make sim SEEDS=2000
//
// A seed becomes a script: which strategies and how many replicas there are,
// what users, other controllers and the garbage collector do at what time
// (actions_test.go), and which request meets which fault (faults_test.go):
// latency, 409, 429, 500, 503, 504, connections that break before or after the
// write took effect, answers and watches cut in the middle, 410 to watches and
// to pages of lists, handlers that fail, processes that are killed before or
// after any request, replicas that lose touch with the lease alone. Which kinds
// were met how often is printed, and none may be missing. Then the faults
// end, and what is left of them is checked by code that shares none with the
// engine (check_test.go). While all that goes on, every snapshot that a handler
// gets is held against what its process was told before, every write against
// the lease and the owner of its object, and every end of a parent against what
// its handler had finalized.
//
// In most runs parents also refer to objects that aren't their children, by
// names, by selectors, or to all of a type. Those change, vanish and come back,
// and so do the references (related_actions_test.go). What a handler is shown
// of them is held against their history (internal/testing/past). In the end
// the children tell of them as they are, what nobody refers to wakes nobody,
// and no watch is left that no parent needs (related_check_test.go).
//
// In half of the runs parents have several Parts, which a controller of the world
// says to be ready every three seconds, or not: Parts fail, values break them, the
// controller sleeps (readiness_test.go). A Secret comes after the first Part, and in a
// chain each Part after the one before. New desired states go over the Parts one or two
// at a time. Each write is held against what its pass was shown, and against what
// operators have written that hasn't been ready since. The engine keeps the conditions
// of the parents: none is said to be ready before its Parts are, times change with the
// status of a condition alone, and in the end all are ready. In some runs children are
// torn down in an order (readiness_check_test.go).
//
// In which order goroutines run isn't the seed's to decide. So a run notes down
// what happened, as a script that plays the same faults again:
//
//	SIM_SCRIPT=file go test -run TestScript ./test/sim
//
// Requests are named by method, path and a count, such as
//
//	on PATCH /apis/sim.example.com/v1/namespaces/ns/parents/p0 #2 break-after 40ms
//
// which is the same request in most orders.
package sim

// Package sim runs whole operators against an API server in the process that
// does its worst, in a bubble of testing/synctest, where hours pass in no time.
// There is one world, with one language of scripts, one handler and all checks.
// Three generators write scripts:
//
//	make sim SEEDS=2000      # sparse_test.go: long and sparse, full of random faults
//	make stress COUNT=20000  # dense_test.go: short and dense, full of races
//	go test -run TestOrder ./test/sim  # life_test.go: the life of one parent
//
// A seed becomes a script: which strategies and how many replicas there are, and what
// users, other controllers and the garbage collector do at what time
// (actions_test.go). In sparse scripts dice decide which request meets which fault (faults_test.go):
// latency, 409, 429, 500, 503, 504, connections that break before or after the
// write took effect, responses and watches cut in the middle, 410 to watches and
// to pages of lists, handlers that fail, processes that are killed before or
// after any request, replicas that lose touch with the lease alone. Which kinds
// were met how often is printed, and none may be missing.
//
// In dense scripts two to six parents want children of the same few names. Actions lay out what the next
// requests meet (plans_test.go), hold back watches of one type or repeat their frames, restore
// the API server from a backup, and kill replicas. Some follow at once on the one before, in
// the middle of its reconciliations.
//
// While that goes on, every snapshot that a handler
// gets is held against what its process was told before, every write against
// the lease and the owner of its object, every end of a parent against what
// its handler had finalized, and the number of calls against a limit (check_test.go). Then the faults
// end, and what is left of them is checked by code that shares none with the
// engine (check_end_test.go). A fresh operator on the same cluster has nothing to write, and holds as much
// as the old one did: in queue, store and memory nothing of what is gone was left (check_fresh_test.go).
//
// In most runs parents also refer to objects that aren't their children, by
// names, by selectors, or to all of a type. Those change, vanish and come back,
// and so do the references (related_actions_test.go). What a handler is shown
// of them is held against their history (internal/testing/past). In the end
// the children tell of them as they are, a change of any other object wakes no
// parent, and no watch is left that no parent needs (related_check_test.go).
//
// In half of the sparse runs parents have several Parts, which a controller of the world
// says to be ready every three seconds, or not: Parts fail, values break them, the
// controller sleeps (readiness_test.go). A Secret comes after the first Part, and in a
// chain each Part after the one before. New desired states go over the Parts one or two
// at a time. Each write is held against what its reconciliation was shown, and against what
// operators have written that hasn't been ready since. The engine keeps the conditions
// of the parents: none is said to be ready before its Parts are, times change with the
// status of a condition alone, and in the end all are ready. In some runs children are
// torn down in an order (readiness_check_test.go).
//
// Each life is played twice: events of own writes arrive before the responses to
// them, or after (order_link_test.go). The handler must be called equally often (order_test.go).
//
// The jitter of the operator's queue follows from the script. In which order goroutines
// run that are due at the same instant isn't the seed's to decide. So a run notes down
// what happened, as a script that plays the same faults again, in dense runs after it was made shorter:
//
//	SIM_SCRIPT=file go test -run 'TestScript$' ./test/sim
//
// Requests are named by method, path and a count, such as
//
//	on PATCH /apis/sim.example.com/v1/namespaces/ns/parents/p0 #2 break-after 40ms
//
// which is the same request in most orders.
package sim

// Package histories runs operators through short histories against an API server in
// the process, each in a bubble of testing/synctest, thousands in a minute:
//
//	make stress COUNT=100000 FIRST=1
//
// A seed becomes a script of steps (script_test.go): two to six parents want children
// of the same few names, people create, change, mend and delete them, other writers
// change and take away children, watches are held back for one type alone, repeat what
// they told, or end, lists are late, requests meet every wrong answer (link_test.go),
// the API server is restored from a backup, and replicas stop, die and start anew. Some
// steps follow at once on the one before, in the middle of its passes.
//
// In half of them the parents refer to objects: to Secrets, which are created, changed,
// relabelled and deleted, to the children of others, and to one another. What handlers are
// shown of these is held against their history (internal/testing/past).
//
// Then all that ends, and one oracle looks at what is there (oracle_test.go). Of each
// parent and child it knows what the handler makes of the last state, so a parent whose
// handler hasn't seen that, and a status that isn't of it, are found by the status
// itself. A fresh operator on the same cluster has nothing to write, and holds as much
// as the old one does: in queue, store and memory nothing of what is gone is left.
//
// In which order goroutines run isn't the seed's to decide. A history that failed is
// played again and again with fewer steps, and the shortest that fails is told. It can be
// played once more from a file: see TestScript.
//
// Package sim has longer lives under random faults, and looks at each write while it
// happens. Here the interleavings are dense, and there are many.
package histories

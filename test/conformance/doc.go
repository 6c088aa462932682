// Package conformance holds the engine to its promises: each test is a
// scenario on a real API server, through the public testkit.
//
// A scenario is identified by the letter C and a number, as in the name of its
// test, TestC4_DeletedChildComesBack. `go test -json` reports it with the
// attribute "scenario", whose value is the number and a sentence on what must
// hold.
//
// Scenarios that need kube-controller-manager are skipped where its binary is
// missing, and fail there if CI=true.
package conformance

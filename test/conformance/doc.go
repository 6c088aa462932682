// Package conformance holds the engine to its promises: each test is a
// scenario on a real API server, through the public testkit.
//
// A scenario has an id of its own: a letter and a number, as in the name of its
// test, TestC4_DeletedChildComesBack. A letter behind the number, as in C30b,
// marks a further scenario of the same promise. `go test -json` reports a
// scenario with the attribute "scenario", whose value is the id and a sentence
// on what must hold. docs/reference/scenarios.md lists them all by topic. The
// topic is what the name of the file begins with.
//
// Scenarios that need kube-controller-manager are skipped where its binary is
// missing, and fail there if CI=true.
package conformance

//go:generate go run ./page

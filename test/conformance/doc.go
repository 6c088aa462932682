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
// A settled operator must make no request. stage.silent notes the moment and waits for nothing.
// The next action of the test on that operator ends the silence, after two seconds at least, and
// judges the audit log. If the test ends before, its operator runs on beside the next tests until
// the silence has lasted ten seconds. What is wrong then is told at the end of the package. Only
// the scenarios of late wait ten seconds, by quiet.
//
// On an existing cluster the variable ROPERATOR_AUDIT_LOG says where its audit log is. Scenarios
// that count requests are skipped without it.
//
// Scenarios that need kube-controller-manager are skipped where its binary is
// missing, and fail there if CI=true.
package conformance

//go:generate go run ./page

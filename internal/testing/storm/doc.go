// Package storm runs an operator, with its author's handler, against an API server in the
// process, under faults that a seed draws, and finds out whether the operator ends as it does
// without them. testkit.Storm documents it for users.
//
// A run is a bubble of testing/synctest, so hours pass in no time. It has a scenario: what
// users do, step by step. The first run of a scenario has no faults, and its end is what the
// end of every other run is held against (state.go). The faults are drawn by kind, seed and the
// name of what meets them (faults.go): requests and frames of watches (link.go, frames.go),
// calls of the handler (proxy.go) and of outside systems (external.go), and what other writers
// do (others.go). Each process of a run has a handler of its own, a copy of the one that the
// author has given (copy.go), so that what a process remembers ends with it.
//
// With a Live cluster a run is on a real API server instead, in real time (live.go).
//
// In which order goroutines run isn't the seed's to decide. So a run notes down which faults
// it has met, as a script that plays the same faults again. From a script that fails, what the
// failure doesn't need is left out (shrink.go).
package storm

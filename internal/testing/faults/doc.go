// Package faults has what the simulations of operators are made of: the storm of
// internal/testing/storm and test/sim.
//
// Dice say what the n-th thing of a name meets, be it a request, a frame of a watch or a call
// (dice.go). A Process is one run of an operator's program, which can be killed or kept from
// what it needs (process.go). A Link is its connection to the API server. It carries an Exchange
// as a Fault says: late, refused, broken, cut, or done without an answer (link.go, answers.go,
// frames.go). A Diary keeps what has happened and what must not have (diary.go). What has failed
// is made shorter by Reduce, and Seeds runs many runs side by side (search.go).
//
// Nothing here knows what an operator does, or what is right.
package faults

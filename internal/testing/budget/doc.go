// Package budget has the number of runs of every search of this repository's tests: of simulations,
// storms, generated lives and random properties.
//
//	for seed := range budget.Count(t, "ROLL_COUNT", 60) {
//
// A build with -race makes a tenth of the default number. The race detector looks for races, and needs
// few runs for that, each of which takes many times as long. A number that the environment variable gives
// is taken as it is. Only tests import this package.
package budget

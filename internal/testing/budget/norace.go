//go:build !race

package budget

// Raced says whether this is a build with -race.
const Raced = false

// divisor is the part of the default number that is run.
const divisor = 1

//go:build !race

package budget

// divisor is the part of the default number that is run.
const divisor = 1

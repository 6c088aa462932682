//go:build race

package gates

// raced says that the race detector is on.
const raced = true

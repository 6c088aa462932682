// Package soak lets an operator work for a long time, and looks at what it
// holds: while parents come, change and go, heap, goroutines, open files,
// metric series and everything that is kept by parent must end where they
// began.
//
// It runs in this process against a real API server with a garbage collector.
// Some parents stay all the time. "Began" is after a warm-up, "ended" when
// everybody else has gone; both times nothing is going on.
//
//	make soak MINUTES=30
//	make soak MINUTES=1 OPERATORS=3   # several operators in one process
package soak

// Package journal remembers what an operator did lately: the last passes of each
// parent, the Events that were recorded, and counts of the last fifteen minutes. The
// window shows it.
//
// A Journal's memory is bounded. It has a fixed number of passes in all, of which no parent has more
// than its share; the parent that wrote last gets the place of the oldest pass. Once
// a Journal is full, to note a pass allocates nothing. A nil *Journal keeps
// nothing, and costs nothing.
//
// The room owns its maps and rings under one mutex, which is held for no longer than a copy
// takes. It has no goroutine. It holds no value of any object: of a difference, the path
// alone.
//
// It imports nothing of the engine, makes no request and writes no log.
package journal

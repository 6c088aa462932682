// Package schedule decides which parent has its next pass, and when. It also
// finds conflict loops: objects that are written over and over.
//
//	s := schedule.New(maxBackoff, nil)
//	s.Add(uid, schedule.Fresh, "child Pod ns/name") // the parent has changed
//	for due, ok := s.Next(ctx); ok; due, ok = s.Next(ctx) {
//		s.Done(due.UID, pass(due)) // an Outcome
//	}
//
// A Scheduler coalesces the triggers of a parent, keeps fresh changes before the
// backlog, and delays parents that failed or asked for a later pass. Its
// documentation states the exact rules. A ConflictDetector counts suspicious
// writes. The package reconcile decides which writes are suspicious, and
// throttles the parents of a loop.
//
// # Ownership
//
// A Scheduler and a ConflictDetector each own their state, and guard it with a
// mutex under which no other is taken. Schedulers that share Slots share their mutex. Their methods may be called
// concurrently. The package starts no goroutine: each caller of Next waits in its
// own, until a parent is due, its context ends, or Close is called.
//
// It knows parents by their UIDs alone and imports nothing of the engine. It must
// import neither client-go nor the store.
package schedule

// Package schedule decides which parent is reconciled next, and when.
//
//	s := schedule.New(maxBackoff, nil)
//	s.Add(uid, schedule.Fresh, "child Pod ns/name") // the parent has changed
//	for due, ok := s.Next(ctx); ok; due, ok = s.Next(ctx) {
//		s.Done(due.UID, pass(due)) // an Outcome
//	}
//
// A Scheduler coalesces the triggers of a parent, keeps fresh changes before the
// backlog, and delays parents that failed or asked for a later reconciliation. Its
// documentation states the exact rules.
//
// # Ownership
//
// A Scheduler guards its state with a mutex under which no other is taken. Schedulers
// that share Slots share their mutex. Its methods may be called concurrently. The package starts no goroutine: each caller of Next waits in its
// own, until a parent is due, its context ends, or Close is called.
//
// It knows parents by their UIDs alone and imports nothing of the engine. It must
// import neither client-go nor the store.
package schedule

// Package conflict finds conflict loops: writes that keep restoring or alternating, and that never end.
//
//	d := conflict.New()
//	d.Forgive(parent, edited)                // the parent was edited, or what it refers to has changed
//	v := d.Wrote(now, conflict.Write{ ... }) // after each write of a child or a status
//	throttle := d.Throttle(now, parent)      // at the end of the reconciliation
//
// It counts states that repeat, and does not trace causes. The rules, all but the slow fight within one minute:
//
//  1. Restore: a write gives an object its last state again, because another client undid it. Five are a loop.
//  2. Flip-flop: a write gives it one of its last four states, but not the last. Five are a loop. If another
//     client or Resync set the reconciliation off, three count as one.
//  3. An edit of the parent, or a change of what it refers to, forgets the states and the writes of the rate, but
//     not the repeats so far. Of a status, only an edit forgets the rate: what follows from related objects has them for
//     its cause, and does not count. An edit ends the throttle.
//  4. Proof: an object that gets three new states asks for a proof, at most once a minute per parent. The caller
//     calls the handler twice for the same snapshot. Different responses are a loop.
//  5. Rate: the children of one type get more than 30 writes, and three for each desired child. Updates that another
//     client set off do not count, but ten times as many writes of any kind always do (of a status, forty times). Of a
//     status, the children of all types count.
//  6. Replaced: an object takes the place of one of its type that the engine wrote and did not delete. It inherits
//     the history of that one, so names that are new each time hide nothing.
//  7. Intruders: children of another client, under another name each time, are deleted. Five reconciliations are a loop.
//  8. Follow-ups: 60 that no client has asked for, and that gave no child a new state, are a loop.
//  9. Slow fight: the first field that differs is restored to the same value 5, 10, 20 … times, at any pace. It is reported, and
//     throttles nothing.
//  10. A loop backs off exponentially. A rate has a fixed pace, because its cause can be legitimate.
//
// A Detector guards what it remembers by one mutex. It reads no clock and starts no goroutine. It may import resource and
// internal/jsonvalue.
package conflict

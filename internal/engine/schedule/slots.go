package schedule

import (
	"container/list"
	"sync"
)

// Slots bound how many reconciliations are under way at once in all schedulers that share
// them, and put the parents of these schedulers into one order: that of a single Scheduler
// which holds them all. So a process with many shards takes a fresh parent as soon as one
// without shards does. A caller of Next has no slot while it waits, so that a scheduler
// without due parents keeps no slot from the others. They are safe for concurrent use.
//
// All schedulers of the Slots share one mutex, and number the places in their queues
// together. The order needs no other state: the scheduler whose first parent has the
// lowest number goes next. A scheduler counts only while a caller waits in its Next: before
// its workers begin and after they have ended, its parents hold up no other ones.
type Slots struct {
	mu sync.Mutex

	free    int                // how many more reconciliations may begin
	callers map[*Scheduler]int // how many calls of Next wait, by scheduler
	streak  int                // fresh parents taken since the backlog had its turn
	// head and tail are the lowest and the highest number of a place so far.
	head, tail int64
}

// NewSlots returns slots for so many reconciliations at once, for NewSharing.
func NewSlots(n int) *Slots {
	return &Slots{free: n, callers: map[*Scheduler]int{}}
}

// arrive counts a call of Next that is about to wait.
func (l *Slots) arrive(s *Scheduler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callers[s]++
}

// leave ends what arrive began. The caller may have been the one that was to take a
// parent: another one looks.
func (l *Slots) leave(s *Scheduler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callers[s]--; l.callers[s] == 0 {
		delete(l.callers, s)
	}
	l.wakeLocked()
}

// wakeLocked makes a caller of the scheduler look whose parent goes next, if a slot is free.
func (l *Slots) wakeLocked() {
	if next, _, _ := l.nextLocked(); next != nil {
		next.signal()
	}
}

// nextLocked returns the scheduler whose parent goes next, the class of that parent, and
// whether parents wait in the backlog. The scheduler is nil if no slot is free, or no parent
// is due.
func (l *Slots) nextLocked() (next *Scheduler, p Priority, backlog bool) {
	if l.free == 0 {
		return nil, Backlog, false
	}
	var first [2]*list.Element
	var of [2]*Scheduler
	for s := range l.callers {
		if s.mu.closed {
			continue
		}
		for p := range first {
			if front := s.mu.queues[p].Front(); front != nil && (first[p] == nil || placeOf(front) < placeOf(first[p])) {
				first[p], of[p] = front, s
			}
		}
	}
	p, backlog = Fresh, of[Backlog] != nil
	if of[Fresh] == nil || l.streak >= freshPerBacklog && backlog {
		p = Backlog
	}
	return of[p], p, backlog
}

// dequeueLocked removes the next parent of all from the queue of s, takes a slot, and returns
// the parent. It returns nil if no slot is free, no parent is due, or the next one is another
// scheduler's, of which a caller looks then.
func (l *Slots) dequeueLocked(s *Scheduler) *parentEntry {
	next, p, backlog := l.nextLocked()
	if next == nil {
		return nil
	}
	if next != s {
		next.signal()
		return nil
	}
	l.free--
	l.streak++
	if p == Backlog || !backlog {
		l.streak = 0
	}
	e, _ := s.mu.queues[p].Remove(s.mu.queues[p].Front()).(*parentEntry)
	e.elem = nil
	return e
}

// releaseLocked gives the slot of a reconciliation back, which goes to the next parent.
func (l *Slots) releaseLocked() {
	l.free++
	l.wakeLocked()
}

// placeOf returns the number of the place of a parent in its queue.
func placeOf(elem *list.Element) int64 {
	e, _ := elem.Value.(*parentEntry)
	return e.place
}

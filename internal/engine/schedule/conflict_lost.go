package schedule

import "time"

// Creates are part of a conflict loop if somebody deletes what is created, or takes
// it away from the operator.

// Looping says whether an object is in a conflict loop that hasn't ended.
func (d *ConflictDetector) Looping(now time.Time, key LoopKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.mu.parents[key.Parent][key]
	return h != nil && h.count > 0 && !d.expired(now, h)
}

// Lost notes that somebody has deleted an object, or has taken it away from the
// operator. since is how long ago the operator last wrote the object. If that was
// long ago, and there is no loop, Lost does nothing: many objects may be deleted
// one after the other for good reason, but not those that were only just created.
func (d *ConflictDetector) Lost(now time.Time, key LoopKey, since time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweepLocked(now)
	h := d.mu.parents[key.Parent][key]
	if since <= d.window || h != nil && h.count > 0 && !d.expired(now, h) {
		d.historyLocked(now, key).lost = now
	}
}

// Replaces says whether the create of an object replaces a lost object: one of this
// name, or else one of the same type and parent, unless only the name counts
// (sameName). Such a create is suspicious. The lost object's history becomes that
// of the object: of several the one with the most suspicious writes.
func (d *ConflictDetector) Replaces(now time.Time, key LoopKey, sameName bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	objects := d.mu.parents[key.Parent]
	from, found := key, objects[key]
	if found == nil || found.lost.IsZero() || d.expired(now, found) {
		found = nil
		for k, h := range objects {
			if !sameName && k.Type == key.Type && !h.lost.IsZero() && !d.expired(now, h) && (found == nil || h.more(found)) {
				from, found = k, h
			}
		}
	}
	if found == nil {
		return false
	}
	found.lost = time.Time{}
	delete(objects, from)
	objects[key] = found
	return true
}

// more says whether h has more suspicious writes than other.
func (h *loopHistory) more(other *loopHistory) bool {
	return h.count > other.count || h.count == other.count && len(h.writes) > len(other.writes)
}

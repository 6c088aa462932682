package conflict

import (
	"slices"
	"time"

	"github.com/roperator/roperator/internal/jsonvalue"
)

const (
	maxFields = 16 // that are remembered of one write
	maxValues = 5  // that a Loop names
)

// A history is what is remembered of the writes of one object, or of all children of a type.
type history struct {
	states  []state     // the last ones, each once
	repeats []time.Time // the last ones that count
	news    []time.Time // when it last got new states
	weak    int         // flip-flops that other clients have set off
	fields  [][]Field   // of the last writes
	last    time.Time   // the last write
	gap     time.Duration
	// Of a loop:
	count    int // writes since it began; 0: there is none
	throttle Throttle
	excused  bool // the parent was edited since the last write
}

type state struct {
	digest jsonvalue.Digest
	at     time.Time
}

// wrote counts a write of the object. prove asks for a proof.
func (h *history) wrote(now time.Time, w *Write) (repeats bool, found *Loop, prove bool) {
	last := len(h.states) > 0 && h.states[len(h.states)-1].digest == w.State
	repeats = h.had(now, w.State)
	h.give(now, w.State)
	h.note(now, w.Fields)
	switch {
	case w.Kind == Status && w.Excused:
		return repeats, nil, false
	case repeats && !last && !w.Replaces && (w.Foreign || w.Excused) && !h.third():
	case repeats, w.Replaces:
		if h.repeats = lately(append(h.repeats, now), now, limit); len(h.repeats) == limit && h.count == 0 {
			return repeats, h.begin(w.Key, Backoff), false
		}
	case !w.Excused:
		h.news = lately(append(h.news, now), now, newStates)
		prove = len(h.news) == newStates
	}
	if h.count > 0 {
		found = h.goOn(w.Key)
	}
	return repeats, found, prove
}

// third counts flip-flops of which every third counts.
func (h *history) third() bool {
	h.weak++
	return h.weak%repeatsByOthers == 0
}

// give makes a state the last one.
func (h *history) give(now time.Time, digest jsonvalue.Digest) {
	h.states = slices.DeleteFunc(h.states, func(s state) bool { return s.digest == digest })
	if len(h.states) == lastStates {
		h.states = slices.Delete(h.states, 0, 1)
	}
	h.states = append(h.states, state{digest, now})
}

// had reports whether the object had a state within the window.
func (h *history) had(now time.Time, digest jsonvalue.Digest) bool {
	return slices.ContainsFunc(h.states, func(s state) bool { return s.digest == digest && now.Sub(s.at) <= window })
}

// note remembers the fields of a write. It keeps the slice.
func (h *history) note(now time.Time, fields []Field) {
	if len(h.fields) == limit {
		h.fields = slices.Delete(h.fields, 0, 1)
	}
	h.fields = append(h.fields, fields[:min(len(fields), maxFields)])
	if !h.last.IsZero() && !h.last.Equal(now) {
		h.gap = now.Sub(h.last)
	}
	h.last, h.excused = now, false
}

// forgive forgets the states.
func (h *history) forgive(edited bool) {
	h.states, h.news = nil, nil
	h.excused = h.excused || edited
}

// lives reports whether the object was written within the window, and not deleted last.
func (h *history) lives(now time.Time) bool {
	return len(h.states) > 0 && h.states[len(h.states)-1].digest != Gone && !h.expired(now)
}

// repeated returns how much speaks for a loop.
func (h *history) repeated() int { return max(len(h.repeats), h.count) }

// begin begins a loop.
func (h *history) begin(key Key, t Throttle) *Loop {
	h.count, h.throttle = limit, t
	return h.loop(key)
}

// goOn counts another write of a loop, and returns it with each fifth one.
func (h *history) goOn(key Key) *Loop {
	if h.count++; h.count%limit != 0 {
		return nil
	}
	return h.loop(key)
}

func (h *history) loop(key Key) *Loop {
	path, values := h.culprit()
	return &Loop{Key: key, Path: path, Values: values, Writes: h.count}
}

// active reports whether a loop throttles the parent.
func (h *history) active(now time.Time) bool {
	return h.count > 0 && !h.excused && now.Sub(h.last) <= window
}

// near reports whether so many more repeats would be a loop, or tell of one again.
func (h *history) near(now time.Time, repeats int) bool {
	if h.count > 0 {
		return limit-h.count%limit <= repeats
	}
	return len(lately(slices.Clone(h.repeats), now, limit))+repeats >= limit
}

// expired reports whether the window, or the loop, is over. The pauses of a throttled loop grow up to threefold.
func (h *history) expired(now time.Time) bool {
	keep := window
	if h.count > 0 {
		keep += 3 * h.gap
	}
	return now.Sub(h.last) > keep
}

// culprit returns the path that most of the writes had in common, the first of several, and the distinct values of that
// field.
func (h *history) culprit() (path string, values []string) {
	fields := slices.Concat(h.fields...)
	counts := map[string]int{}
	for _, f := range fields {
		counts[f.Path]++
	}
	for _, f := range fields {
		if counts[f.Path] > counts[path] {
			path = f.Path
		}
	}
	for _, f := range fields {
		if f.Path != path {
			continue
		}
		for _, v := range [...]string{f.From, f.To} {
			if v != "" && len(values) < maxValues && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	}
	return path, values
}

// lately returns the newest of these times that are within the window, at most so many. It overwrites times.
func lately(times []time.Time, now time.Time, most int) []time.Time {
	times = slices.DeleteFunc(times, func(at time.Time) bool { return now.Sub(at) > window })
	return times[max(0, len(times)-most):]
}

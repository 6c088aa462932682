package journal

import (
	"errors"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// maxEventsShown is how many Events of one parent Events returns.
const maxEventsShown = 50

// Passes returns the passes over a parent that are kept, the newest first. The caller may change them.
func (j *Journal) Passes(parent types.UID) []Pass {
	out := []Pass{}
	if j == nil {
		return out
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.mu.families[parent]
	if f == nil {
		return out
	}
	for at := f.passes.last; at != none; at = j.mu.records[at].ofOwner.older {
		out = append(out, j.mu.records[at].pass())
	}
	return out
}

// Events returns the newest Events about a parent, the newest first.
func (j *Journal) Events(parent types.UID) []Event {
	if j == nil {
		return []Event{}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.events.of(parent, maxEventsShown)
}

// Last returns the number of the newest pass over a parent and when it began; zeros if none is kept.
func (j *Journal) Last(parent types.UID) (number uint64, start time.Time) {
	if j == nil {
		return 0, time.Time{}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.mu.families[parent]
	if f == nil || f.passes.n == 0 {
		return 0, time.Time{}
	}
	r := &j.mu.records[f.passes.last]
	return r.number, r.Start
}

// Plots returns what was done in the fifteen minutes before now.
func (j *Journal) Plots(now time.Time) Plots {
	if j == nil {
		return (&plots{}).read(now)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.plots.read(now)
}

// pass returns a record as it is shown.
func (r *record) pass() Pass {
	p := Pass{
		Number: r.number, ID: r.ID, Start: r.Start.UTC(), Millis: millis(r.Took), WaitedMillis: millis(r.Waited), Trigger: r.Trigger, More: r.More,
		Call: r.Call, CallMillis: millis(r.CallTook), Error: r.err, Throttled: r.Throttled, Writes: []Write{}, MoreWrites: r.MoreWrites,
	}
	for _, w := range r.Writes {
		shown := Write{
			Object: Object{w.Object.Type.APIVersion, w.Object.Type.Kind, w.Object.Key.Namespace, w.Object.Key.Name},
			Verb:   w.Verb, Millis: millis(w.Took), Result: w.Result, Fields: []string{}, MoreFields: w.MoreFields,
		}
		if w.Err != nil {
			shown.Error = w.Err.Error()
		}
		shown.Fields = append(shown.Fields, w.Fields...)
		p.Writes = append(p.Writes, shown)
	}
	return p
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// textOf returns the text of an error, shortened; "" of nil.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return shorten(err.Error())
}

// shortened returns an error that has the text alone of err, nil for nil: err may hold on to much.
func shortened(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(textOf(err))
}

// shorten cuts a text off that is longer than maxText.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

package window

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/roperator/roperator/internal/engine/view"
)

const (
	lookEvery = time.Second // at an operator
	// figuresEvery is how often a client gets figures: with every second look, though it come a little early.
	figuresEvery = 2*lookEvery - lookEvery/4
	// rowsOfEvent is how many parents one event tells of at most, and of how many that are gone.
	rowsOfEvent = 2000
)

// A look is what was seen of an operator at one moment. It is read only.
type look struct {
	running bool
	parents []view.Parent
	figures view.Figures
}

// look looks at an operator, and returns false if that panics.
func (w *Window) look(operator string) (out look, ok bool) {
	var err error
	func() {
		defer w.recovered("the overview of "+operator, &err)
		seen, running := w.source.Overview(operator)
		out = look{running, sorted(seen.Parents), seen.Figures}
	}()
	return out, err == nil
}

// overviewBegun is the data of the event begin of an overview.
type overviewBegun struct {
	Operators []string `json:"operators"`
	Operator  string   `json:"operator"`
	Running   bool     `json:"running"`
}

// parentsEvent is the data of the event parents.
type parentsEvent struct {
	All  bool        `json:"all"`
	Set  [][7]any    `json:"set"`
	Gone [][2]string `json:"gone"`
}

// serveOverview streams the overview of an operator.
func (w *Window) serveOverview(ctx context.Context, a *answer, t target) {
	o := &overviewStream{stream: w.stream(a), operators: w.source.Operators(), operator: t.operator}
	w.hubs[t.operator].follow(ctx, o.tell)
}

// An overviewStream is one client's. It belongs to one goroutine.
type overviewStream struct {
	*stream
	operators []string
	operator  string

	begun   bool          // the event begin was sent
	running bool          // what it said
	started time.Time     // when that engine began to work
	told    []view.Parent // what the client knows
	all     bool          // the client knows of the first parents
	figures time.Time     // when they were sent last
}

// tell sends what a look has that the client doesn't know.
func (o *overviewStream) tell(seen look) error {
	if !o.begun || o.running != seen.running || !o.started.Equal(seen.figures.Started) {
		o.begun, o.running, o.started, o.all, o.told, o.figures = true, seen.running, seen.figures.Started, false, nil, time.Time{}
		if err := o.send("begin", overviewBegun{o.operators, o.operator, seen.running}); err != nil {
			return err
		}
	}
	if !seen.running {
		return o.tick()
	}
	if now := time.Now(); now.Sub(o.figures) >= figuresEvery {
		o.figures = now
		if err := o.send("figures", seen.figures); err != nil {
			return err
		}
	}
	return o.tellParents(seen.parents)
}

// tellParents sends the parents that have changed, come or gone.
func (o *overviewStream) tellParents(parents []view.Parent) error {
	changed, gone := differences(o.told, parents)
	o.told = parents
	for !o.all || len(changed) > 0 || len(gone) > 0 {
		n, m := min(len(changed), rowsOfEvent), min(len(gone), rowsOfEvent)
		event := parentsEvent{All: !o.all, Set: rows(changed[:n]), Gone: gone[:m]}
		o.all, changed, gone = true, changed[n:], gone[m:]
		if err := o.send("parents", event); err != nil {
			return err
		}
	}
	return nil
}

// differences returns the parents that are in after and not so in before, and the names of those that are in
// before alone. Both are by namespace and name.
func differences(before, after []view.Parent) (changed []view.Parent, gone [][2]string) {
	gone = [][2]string{}
	i := 0
	for _, p := range after {
		if i < len(before) && before[i] == p { // as nearly all are
			i++
			continue
		}
		for i < len(before) && compare(before[i], p) < 0 {
			gone = append(gone, [2]string{before[i].Namespace, before[i].Name})
			i++
		}
		if i < len(before) && compare(before[i], p) == 0 {
			if i++; before[i-1] == p {
				continue
			}
		}
		changed = append(changed, p)
	}
	for ; i < len(before); i++ {
		gone = append(gone, [2]string{before[i].Namespace, before[i].Name})
	}
	return changed, gone
}

func compare(a, b view.Parent) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// rows returns parents as lists of their fields, which is a third of the text that objects are.
func rows(parents []view.Parent) [][7]any {
	out := make([][7]any, 0, len(parents))
	for _, p := range parents {
		out = append(out, [7]any{p.Namespace, p.Name, p.State, p.Reason, timeText(p.Since), p.Children, timeText(p.LastPass)})
	}
	return out
}

// timeText returns a time in RFC 3339, "" for the zero time.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// sorted returns the parents by namespace and name.
func sorted(parents []view.Parent) []view.Parent {
	if slices.IsSortedFunc(parents, compare) {
		return parents
	}
	return slices.SortedFunc(slices.Values(parents), compare)
}

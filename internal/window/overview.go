package window

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/roperator/roperator/internal/engine/view"
)

const (
	lookEvery    = time.Second     // at an operator
	figuresEvery = 2 * time.Second // to a client
	// rowsOfEvent is how many parents one event tells of at most.
	rowsOfEvent = 2000
)

// A look is what was seen of an operator at one moment. It is read only.
type look struct {
	running bool
	parents []view.Parent
	figures view.Figures
}

// look looks at an operator. A panic is that of an operator that doesn't run.
func (w *Window) look(operator string) (out look) {
	defer func() {
		if v := recover(); v != nil {
			w.opts.Log.Error("window: overview panicked", "operator", operator, "panic", v)
			out = look{}
		}
	}()
	seen, running := w.source.Overview(operator)
	return look{running, seen.Parents, seen.Figures}
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
func (w *Window) serveOverview(rw http.ResponseWriter, req *http.Request) {
	t, ok := w.target(rw, req, false)
	if !ok {
		return
	}
	ctx, end, ok := w.begin(rw, req)
	if !ok {
		return
	}
	defer end()
	if req.Method == http.MethodHead {
		return
	}
	o := &overviewStream{stream: newStream(rw), operators: w.source.Operators(), operator: t.operator}
	w.hubs[t.operator].follow(ctx, o.tell)
}

// An overviewStream is one client's. It belongs to one goroutine.
type overviewStream struct {
	*stream
	operators []string
	operator  string

	begun   bool          // the event begin was sent
	running bool          // what it said
	told    []view.Parent // what the client knows
	all     bool          // the client knows of the first parents
	figures time.Time     // of the last that were sent
}

// tell sends what a look has that the client doesn't know.
func (o *overviewStream) tell(seen look) error {
	if !o.begun || o.running != seen.running {
		o.begun, o.running, o.all, o.told, o.figures = true, seen.running, false, nil, time.Time{}
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
	if err := o.tellParents(seen.parents); err != nil {
		return err
	}
	return o.tick()
}

// tellParents sends the parents that have changed, come or gone.
func (o *overviewStream) tellParents(parents []view.Parent) error {
	changed, gone := differences(o.told, parents)
	if o.all && len(changed) == 0 && len(gone) == 0 {
		return nil
	}
	o.told = parents
	for {
		n := min(len(changed), rowsOfEvent)
		event := parentsEvent{All: !o.all, Set: rows(changed[:n]), Gone: gone}
		o.all = true
		if err := o.send("parents", event); err != nil {
			return err
		}
		if changed, gone = changed[n:], [][2]string{}; len(changed) == 0 {
			return nil
		}
	}
}

// differences returns the parents that are in after and not so in before, and the names of those that are in
// before alone. Both are by namespace and name.
func differences(before, after []view.Parent) (changed []view.Parent, gone [][2]string) {
	gone = [][2]string{}
	i := 0
	for _, p := range after {
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

// follow calls tell with each look of the hub, until it fails or ctx ends. The hub looks as long as somebody
// follows it.
func (h *hub) follow(ctx context.Context, tell func(look) error) {
	looks, leave := h.join()
	defer leave()
	for {
		select {
		case <-ctx.Done():
			return
		case seen := <-looks:
			if tell(seen) != nil {
				return
			}
		}
	}
}

package leave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
)

// lookEvery is how often what is left is looked for.
const lookEvery = time.Second

// lastLook bounds the last look at what is left, once the caller's context has ended.
const lastLook = 5 * time.Second

// tellEvery is how often, at most, is told what is waited for.
const tellEvery = 5 * time.Second

// A Left is what is left of an operator.
type Left struct {
	Operator string
	Parents  []Remnant // not those that were to stay
	Children []Remnant // not those that were to stay
	Unknown  bool      // there may be more: it couldn't be looked for
}

// Nothing says whether nothing is left.
func (l *Left) Nothing() bool { return len(l.Parents)+len(l.Children) == 0 && !l.Unknown }

// Delete deletes the parents of the survey, and waits until they
// are gone, and their children, for as long as how.Drain says. If the parents or the children are to stay,
// Prepare has done what was to be done, and Delete only waits for parents that are being deleted. It
// goes through the operators in the given order: see InOrder. Parents that have come since
// the survey aren't touched: they are in Left as New. Left is what there is in the end,
// also beside an error.
//
// running says whether an operator works that takes its finalizers off. Once it says no,
// Delete waits no longer for parents that have one. It may be nil. Delete calls tell with a line about what is waited for.
func Delete(ctx context.Context, operators []Operator, surveys []Survey, how How, running func(ctx context.Context) bool, tell func(string)) ([]Left, error) {
	deadline := time.Now().Add(how.Drain)
	var errs []error
	left := make([]Left, 0, len(operators))
	for i, o := range operators {
		d := draining{Operator: o, survey: surveys[i], how: how, deadline: deadline, running: running, tell: tell}
		errs = append(errs, d.deleteParents(ctx))
		l, err := d.drain(ctx)
		left = append(left, l)
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}

// A draining is the wait for the end of an operator's parents and children.
type draining struct {
	Operator
	survey   Survey
	how      How
	deadline time.Time
	running  func(ctx context.Context) bool
	tell     func(string)

	told   time.Time // when was last told what is waited for
	before string    // what was told then
}

// deleteParents deletes the parents of the survey that the operator serves, and takes its
// finalizers off those that it doesn't serve any more.
func (d *draining) deleteParents(ctx context.Context) error {
	if d.how.Keeps() || ctx.Err() != nil {
		return nil //nolint:nilerr // told to stop
	}
	parents, _, err := d.parents(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, parent := range parents {
		switch {
		case !d.survey.has(parent.UID()) || parent.IsDeleting() || ctx.Err() != nil:
		case d.Settings.Selects(parent):
			errs = append(errs, d.delete(ctx, object.RefOf(parent), parent.UID()))
		default:
			errs = append(errs, d.change(ctx, d.Settings.Types.Parent, parent, d.releasePatch))
		}
	}
	return errors.Join(errs...)
}

// drain waits until nothing is left, and returns what is.
func (d *draining) drain(ctx context.Context) (Left, error) {
	for {
		if ctx.Err() != nil {
			return d.atTheEnd(ctx)
		}
		left, err := d.left(ctx)
		switch {
		case ctx.Err() != nil:
			return d.atTheEnd(ctx)
		case err != nil:
			return left, err
		case !d.waits(&left), !time.Now().Before(d.deadline):
			return left, nil
		case d.stuck(ctx, &left):
			return left, nil
		}
		d.tellWait(&left)
		timer := time.NewTimer(min(lookEvery, time.Until(d.deadline)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// atTheEnd looks once more what is left, although ctx has ended.
func (d *draining) atTheEnd(ctx context.Context) (Left, error) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	left, err := d.left(last)
	return left, errors.Join(fmt.Errorf("uninstall: %s: %w; run it again to go on", d.name(), context.Cause(ctx)), err)
}

// waits says whether something is left that goes by itself.
func (d *draining) waits(left *Left) bool {
	return len(left.Children) > 0 || slices.ContainsFunc(left.Parents, func(p Remnant) bool { return !p.New && p.Deleting })
}

// stuck says whether a parent waits for an operator, and none works.
func (d *draining) stuck(ctx context.Context, left *Left) bool {
	held := slices.ContainsFunc(left.Parents, func(p Remnant) bool { return !p.New && p.Holds })
	return held && d.running != nil && !d.running(ctx)
}

// left finds what is left. Children are looked for once no parent of the survey is there.
func (d *draining) left(ctx context.Context) (Left, error) {
	out := Left{Operator: d.name(), Unknown: true}
	parents, others, err := d.parents(ctx)
	if err != nil {
		return out, err
	}
	old, created := 0, map[types.UID]bool{}
	for _, parent := range parents {
		r := d.remnant(parent)
		r.New = !d.survey.has(parent.UID())
		if d.how.KeepParents && !r.New && !r.Deleting && !r.Holds {
			continue // it stays
		}
		if created[r.UID] = r.New; !r.New {
			old++
		}
		out.Parents = append(out.Parents, r)
	}
	if old > 0 || d.how.Keeps() {
		out.Unknown = false
		return out, nil
	}
	children, err := d.children(ctx, nil)
	kept := byUID(others)
	for _, c := range children {
		if !created[c.parent] && kept[c.parent] == nil { // also of parents that are gone since an earlier try
			out.Children = append(out.Children, remnantOf(c.object))
		}
	}
	out.Unknown = err != nil
	return out, err
}

// tellWait says what is waited for, if that is news.
func (d *draining) tellWait(left *Left) {
	text := fmt.Sprintf("%s: waiting for parents to end: %d", d.name(), len(left.Parents))
	if len(left.Children) > 0 {
		text = fmt.Sprintf("%s: waiting for children to end: %d", d.name(), len(left.Children))
	}
	if text == d.before || time.Since(d.told) < tellEvery {
		return
	}
	d.told, d.before = time.Now(), text
	d.tell(text)
}

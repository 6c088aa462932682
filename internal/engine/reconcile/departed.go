package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/resource"
)

// A parent that leaves the ParentSelector while no operator runs is delivered by no
// watch, and would keep the operator's finalizer for ever. So at the start one list of
// all parents' metadata finds those that don't match the selector and have a finalizer
// of the operator. From then on they are parents that have left: see release. They are listed
// again when parents were missing from a list: nobody has seen in which state they left.

// maxFindDelay bounds how long after a failed list of the parents the next one is tried.
const maxFindDelay = time.Minute

// holdsDeparted says whether a parent that has left the ParentSelector may have a
// finalizer of the operator. It may if this build has nothing to finalize, too: an
// earlier one may have had.
func (e *Engine) holdsDeparted() bool {
	return e.Config.ParentSelector != ""
}

// findDepartedAgain is findDeparted at the start and after each lookAgain, until ctx ends.
func (e *Engine) findDepartedAgain(ctx context.Context) {
	e.findDeparted(ctx, func() { e.looking.Store(false) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.missing:
			e.findDeparted(ctx, func() {})
		}
	}
}

// lookAgain makes findDepartedAgain look for departed parents.
func (e *Engine) lookAgain() {
	select {
	case e.missing <- struct{}{}:
	default: // the parents will be listed anyway
	}
}

// findDeparted makes the parents due that have left the ParentSelector while no
// operator ran. A list that fails is tried again until ctx ends. looked is called after
// the first attempt.
func (e *Engine) findDeparted(ctx context.Context, looked func()) {
	failing := false
	for delay := listRetry; ; delay = min(2*delay, maxFindDelay) {
		departed, err := e.listDeparted(ctx)
		for _, parent := range departed {
			e.queue.Add(parent.UID(), schedule.Backlog, "left the selector", 0)
		}
		looked()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failing || len(departed) > 0 {
				e.log.InfoContext(ctx, "looked for parents that left the selector while no operator ran", "found", len(departed))
			}
			return
		case !failing:
			e.log.WarnContext(ctx, "can't look for parents that left the selector while no operator ran, retrying", "error", err)
		}
		failing = true
		if !sleep(ctx, delay) {
			return
		}
	}
}

// listDeparted lists the metadata of the parents, and returns those that don't match
// the ParentSelector and have a finalizer of the operator. The store has them as
// departed. A list that fails leaves out the other namespaces and pages: the result
// has those that were found, beside the error.
func (e *Engine) listDeparted(ctx context.Context) ([]*resource.Resource, error) {
	lists := e.listsOf(e.Types.Parent)
	departed, errs := make([][]*resource.Resource, len(lists)), make([]error, len(lists))
	ended := e.allLists(ctx, len(lists), func(ctx context.Context, i int) error {
		departed[i], errs[i] = e.listDepartedIn(ctx, lists[i])
		return nil
	})
	return slices.Concat(departed...), errors.Join(errors.Join(errs...), ended)
}

// listDepartedIn is listDeparted for one list.
func (e *Engine) listDepartedIn(ctx context.Context, l listOf) (departed []*resource.Resource, err error) {
	listed := map[types.UID]struct{}{} // a list that expires between two pages begins anew
	err = e.client.EachMetadata(ctx, l.kind, l.namespace, e.departedWithin, func(res *resource.Resource) {
		_, twice := listed[res.UID()]
		if !twice && e.Shard.Owns(res.UID()) && !e.Selects(res) && e.hasOurs(res) && e.store.Depart(res) {
			listed[res.UID()] = struct{}{}
			departed = append(departed, res)
		}
	})
	if err != nil {
		err = catalog.Forbidden(l.kind, "list", fmt.Errorf("%s: list: %w", l.kind.Type, err))
	}
	return departed, err
}

// hasOurs says whether a parent has a finalizer of the operator, or of one of its
// earlier builds.
func (e *Engine) hasOurs(parent *resource.Resource) bool {
	held := parent.Finalizers()
	return len(e.WithoutOurs(slices.Clone(held))) < len(held)
}

// foreseeRelease returns the change that the release of a departed parent would make.
func (e *Engine) foreseeRelease(parent *resource.Resource) plan.Change {
	held := parent.Finalizers()
	return plan.Change{
		Parent: parent.Key(), Object: parent.Key(), Type: parent.Type(), Verb: string(plan.VerbUpdate),
		Fields: []plan.FieldChange{{Path: "metadata.finalizers", Live: jsonList(held), Desired: jsonList(e.WithoutOurs(slices.Clone(held)))}},
	}
}

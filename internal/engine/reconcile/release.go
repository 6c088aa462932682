package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// release lets go of a parent that the store doesn't hold any more: it was
// deleted, or has left the ParentSelector. A parent that has left keeps its
// children and loses the operator's finalizer, so that its deletion doesn't wait
// for an operator that no longer cares.
func (e *Engine) release(ctx context.Context, worker string, uid types.UID) schedule.Outcome {
	last, ok := e.store.DepartedParent(uid)
	if !ok {
		return schedule.Outcome{Forget: true}
	}
	if e.Config.DryRun {
		e.store.Released(last)
		return schedule.Outcome{Forget: true}
	}
	e.passes.begin(last, nil, worker)
	defer e.passes.end(uid)
	if err := e.releaseDeparted(ctx, last); err != nil {
		e.log.ErrorContext(ctx, "release failed", "namespace", last.Namespace(), "name", last.Name(), "error", bounded(err))
		return schedule.Outcome{Err: true}
	}
	e.store.Released(last)
	return schedule.Outcome{Forget: true}
}

// releaseDeparted takes the operator's finalizers off a parent that has left the
// ParentSelector. last is the last known state of the parent.
func (e *Engine) releaseDeparted(ctx context.Context, last *resource.Resource) error {
	if !e.hasOurs(last) {
		if e.store.LeftUnseen(last.UID()) {
			e.lookAgain() // one list for all that have left so
		}
		return nil
	}
	live, err := e.client.Get(ctx, e.Types.Parent, last.Key())
	if apierror.IsMissing(err, last.Name()) || err == nil && live.UID() != last.UID() {
		e.store.ForgetDeparted(last.UID())
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: read: %w", object.RefOf(last), err)
	}
	if e.Selects(live) {
		return nil // the parent is back; its watch event is on the way
	}
	_, err = e.setFinalizers(ctx, live, e.WithoutOurs)
	switch {
	case err == nil, apierrors.IsNotFound(err) && e.hasLeft(ctx, live):
		return nil
	}
	return fmt.Errorf("%s: finalizer: %w", object.RefOf(last), err)
}

// hasLeft says whether a read tells that a parent has gone, or that nothing of the
// operator's is left to release: it has lost the finalizers, or the ParentSelector has
// come to match it, or has ceased to.
func (e *Engine) hasLeft(ctx context.Context, parent *resource.Resource) bool {
	live, err := e.client.Get(ctx, e.Types.Parent, parent.Key())
	if err != nil {
		return apierror.IsMissing(err, parent.Name())
	}
	return live.UID() != parent.UID() || !e.hasOurs(live) || e.Selects(live) != e.Selects(parent)
}

// ReleaseAll takes the operator's finalizers off every parent in a namespace
// (empty: in all), at most MaxConcurrentSyncs at a time. With DryRun it takes none
// off. It calls say with one line for each parent that had a finalizer of the
// operator, in the order of their namespaces and names, and returns how many
// parents there are. A parent that fails doesn't keep the others from being
// released: the error joins what went wrong.
func (e *Engine) ReleaseAll(ctx context.Context, namespace string, say func(text string)) (seen int, err error) {
	parents, _, err := e.client.ListPages(ctx, e.Types.Parent, namespace, metav1.ListOptions{})
	if err != nil {
		return 0, catalog.Forbidden(e.Types.Parent, "list", fmt.Errorf("%s: list: %w", e.Config.Parent, err))
	}
	slices.SortFunc(parents, object.Compare)
	texts, errs := each(e, len(parents), func(i int) (string, error) { return e.releaseOne(ctx, parents[i]) })
	for _, text := range texts {
		if text != "" {
			say(text)
		}
	}
	return len(parents), errors.Join(errs...)
}

// releaseOne takes the operator's finalizers off a parent, and returns the line
// about it, "" if the parent has none of them.
func (e *Engine) releaseOne(ctx context.Context, parent *resource.Resource) (string, error) {
	ours := slices.DeleteFunc(slices.Clone(parent.Finalizers()), func(f string) bool { return len(e.WithoutOurs([]string{f})) > 0 })
	if len(ours) == 0 {
		return "", nil
	}
	what := fmt.Sprintf("%s: finalizer %s", object.RefOf(parent), strings.Join(ours, ", "))
	if e.Config.DryRun {
		return what + " would be removed", nil
	}
	_, err := e.setFinalizers(ctx, parent, e.WithoutOurs)
	switch {
	case apierrors.IsNotFound(err) && e.hasLeft(ctx, parent):
		return "", nil // the parent has gone since
	case err != nil:
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return what + " removed", nil
}

package reconcile

import (
	"context"
	"time"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/schedule"
)

// confirmWithin is how long the watches have to confirm the end of a child that was
// deleted, or of a parent that was let go, before it is read. It may take twice as long.
const confirmWithin = 10 * time.Second

// confirmLater makes confirmDeletes look after the children that a pass has deleted, or
// the parent that it has let go.
func (e *Engine) confirmLater() {
	select {
	case e.deleted <- struct{}{}:
	default: // it will look anyway
	}
}

// confirmDeletes reads children whose delete has succeeded, and parents that were let go,
// whose end no watch has confirmed. A proxy may have answered in the API server's place,
// or an aggregated API server may delete later. No watch tells of an object that stays as it is, so nothing else would ever notice. The
// parent of what is still there is due. It makes no request where watches confirm in
// time, and returns when ctx ends.
func (e *Engine) confirmDeletes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.deleted:
		}
		for some := true; some; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(confirmWithin):
			}
			some = e.confirmOverdue(ctx)
		}
	}
}

// confirmOverdue makes the reads that are due, and says whether there may be more later.
// The first one that fails ends them: then they are made next time.
func (e *Engine) confirmOverdue(ctx context.Context) (more bool) {
	overdue, more := e.store.Overdue()
	for uid, ref := range overdue {
		k := e.types().Of(ref.Type)
		if k.Unserved {
			continue
		}
		live, err := e.client.Get(ctx, k, ref.Key)
		if err != nil && !apierror.IsMissing(err, ref.Key.Name) {
			return true
		}
		if err == nil && live.UID() == uid {
			if change, contradicts := e.store.Contradicts(live); contradicts {
				e.log.WarnContext(ctx, "an object is still there, though the API server has answered that it is gone", "object", ref.String())
				e.changed(change, schedule.Fresh, schedule.Trigger(ref.String()))
				continue
			}
		}
		e.store.ReadGone(ref, uid)
	}
	return more
}

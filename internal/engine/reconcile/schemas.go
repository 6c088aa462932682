package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/resource"
)

const (
	// schemaTimeout bounds one attempt to read schemas, and how long a start waits
	// for schemas that aren't published yet.
	schemaTimeout = 8 * time.Second
	// Between two attempts to read schemas there are at least minSchemaDelay,
	// doubled each time, and at most maxSchemaDelay.
	minSchemaDelay = 500 * time.Millisecond
	maxSchemaDelay = time.Minute
	// doubtLasts is for how long the API server may still publish the schema of a
	// CRD as it was before a change.
	doubtLasts = 30 * time.Second
	// staleLasts is for how long a schema may be that of a CRD which is gone.
	staleLasts = 10 * time.Second
	// neverPublished is after how long a type that is served, but isn't in the
	// documents, counts as one that has no schema.
	neverPublished = 5 * time.Minute
)

// A schemaKeeper knows which schemas of an engine have to be read. Nothing is read
// while every schema is known, and no watch was interrupted.
type schemaKeeper struct {
	schemas *catalog.Schemas // nil: none is ever read
	wake    chan struct{}    // holds a token after a new doubt

	mu struct {
		sync.Mutex // also held while Engine.current is replaced
		doubts     map[resource.Type]doubt
	}

	// The fields below belong to the goroutine of ReadSchemas, and then to that of
	// KeepSchemas.

	missing map[resource.Type]time.Time // since when a type hasn't been published
	failing bool                        // it was said that schemas can't be read
}

// A doubt is the reason to read a schema again: the CRD may have changed.
type doubt struct {
	since time.Time // when the API server last gave reason for it
	gone  bool      // the type wasn't served for a while
}

func (k *schemaKeeper) init(schemas *catalog.Schemas) {
	k.schemas, k.wake, k.missing = schemas, make(chan struct{}, 1), map[resource.Type]time.Time{}
	k.mu.doubts = map[resource.Type]doubt{}
}

// interrupted returns what a watcher of a type calls when its watch ends before its
// time, nil for the type of the parents.
func (e *Engine) interrupted(k *catalog.Kind) func(gone bool) {
	if k == e.Types.Parent {
		return nil
	}
	return func(gone bool) {
		if gone || k.Builtin == nil {
			e.doubtServed(k.Type)
		}
		if e.keeper.schemas == nil || k.Builtin != nil {
			return
		}
		e.keeper.mu.Lock()
		before := e.keeper.mu.doubts[k.Type]
		e.keeper.mu.doubts[k.Type] = doubt{since: time.Now(), gone: before.gone || gone}
		if gone { // whatever is served next under this name
			e.replaceTypesLocked(nil, k.Type)
		}
		e.keeper.mu.Unlock()
		e.keeper.awake()
	}
}

// doubtSchema has KeepSchemas read the schema of a type that has just begun to be served. For
// a while the API server may publish that of an earlier CRD.
func (e *Engine) doubtSchema(k *catalog.Kind) {
	if e.keeper.schemas == nil || k.Builtin != nil {
		return
	}
	if k.HadSchema() {
		e.keeper.mu.Lock()
		e.keeper.mu.doubts[k.Type] = doubt{since: time.Now(), gone: true}
		e.keeper.mu.Unlock()
	}
	e.keeper.awake()
}

// awake has KeepSchemas look which schemas it has to read.
func (k *schemaKeeper) awake() {
	select {
	case k.wake <- struct{}{}:
	default: // a token is there
	}
}

// ReadSchemas reads the schemas of the children that aren't built in, before the
// engine starts. It waits for a while for those that aren't published yet: their
// CRDs may have been created a moment ago. Schemas that can't be read are left to
// KeepSchemas.
func (e *Engine) ReadSchemas(ctx context.Context) {
	if e.keeper.schemas == nil || len(e.types().Custom()) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, schemaTimeout)
	defer cancel()
	said := false
	waiting := func(types []resource.Type) {
		if !said {
			e.log.InfoContext(ctx, "waiting for schemas", "types", typeNames(types))
		}
		said = true
	}
	for delay := minSchemaDelay; ; delay *= 2 {
		errs := e.readSchemas(ctx, waiting)
		unpublished := slices.DeleteFunc(slices.Clone(errs), func(err *catalog.SchemaError) bool { return !errors.Is(err, catalog.ErrNotPublished) })
		if len(unpublished) > 0 && sleep(ctx, delay) {
			waiting(typesOf(unpublished))
			continue
		}
		e.sayMissing(ctx, errs)
		return
	}
}

// KeepSchemas reads schemas that are missing, and those of CRDs that may have
// changed, until ctx ends.
func (e *Engine) KeepSchemas(ctx context.Context) {
	if e.keeper.schemas == nil {
		return
	}
	timer := time.NewTimer(maxSchemaDelay)
	defer timer.Stop()
	for delay := minSchemaDelay; ; {
		if e.schemasDue() {
			timer.Reset(delay)
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-e.keeper.wake:
			if delay == minSchemaDelay {
				// An attempt is near, or has just been made: the doubt waits for it.
				if !sleep(ctx, delay) {
					return
				}
			}
			delay = minSchemaDelay
		case <-timer.C:
			delay = min(2*delay, maxSchemaDelay)
		}
		attempt, cancel := context.WithTimeout(ctx, schemaTimeout)
		errs := e.readSchemas(attempt, func([]resource.Type) {})
		cancel()
		if ctx.Err() == nil {
			e.sayMissing(ctx, errs)
		}
	}
}

// sleep returns true after d, false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// schemasDue says whether a schema is missing or in doubt.
func (e *Engine) schemasDue() bool {
	e.keeper.mu.Lock()
	defer e.keeper.mu.Unlock()
	return len(e.keeper.mu.doubts) > 0 || slices.ContainsFunc(e.current.Load().Types.Children, (*catalog.Kind).SchemaPending)
}

// readSchemas makes one attempt to read all schemas. The parents whose children a
// new schema concerns are due. It returns an error for each type whose schema
// isn't known.
func (e *Engine) readSchemas(ctx context.Context, waiting func([]resource.Type)) []*catalog.SchemaError {
	found, errs := e.keeper.schemas.Read(ctx, e.types().Custom(), waiting)
	now := time.Now()
	e.keeper.mu.Lock()
	before := e.current.Load().Types
	errs = slices.DeleteFunc(errs, func(err *catalog.SchemaError) bool {
		if k := before.Of(err.Type); k.Unserved || !k.SchemaPending() {
			return true // the schema that was read before still serves
		}
		none := e.keeper.hasNoneLocked(err, now)
		if none {
			found[err.Type] = catalog.Schema{}
		}
		return none
	})
	for t := range found {
		delete(e.keeper.missing, t)
	}
	e.keeper.settleLocked(before, found, now)
	after := e.replaceTypesLocked(found)
	e.keeper.mu.Unlock()
	for _, k := range after.Children {
		if k == before.Of(k.Type) {
			continue
		}
		e.schemaChanged(k.Type)
	}
	return errs
}

// schemaChanged makes the parents due that the new schema of a type concerns: those that have such
// children in the backlog, and those that fail as after any change. What they couldn't write may fit the new schema,
// and it needn't be a child yet.
func (e *Engine) schemaChanged(t resource.Type) {
	why := "schema of " + schedule.Trigger(t.Kind)
	e.changed(store.Change{Parents: e.queue.Failing()}, schedule.Fresh, why)
	e.changed(store.Change{Parents: e.store.Owners(t)}, schedule.Backlog, why)
}

// hasNoneLocked says whether a type counts as one that has no schema, by the error
// of an attempt to read it.
func (k *schemaKeeper) hasNoneLocked(err *catalog.SchemaError, now time.Time) bool {
	_, doubted := k.mu.doubts[err.Type]
	since, noted := k.missing[err.Type]
	switch {
	case doubted || !errors.Is(err, catalog.ErrNotPublished):
		delete(k.missing, err.Type)
	case !noted:
		k.missing[err.Type] = now
	default:
		return now.Sub(since) >= neverPublished
	}
	return false
}

// settleLocked ends the doubts that the schemas found have settled, and those that
// are old. It takes out of found what may be the schema of a CRD that is gone.
func (k *schemaKeeper) settleLocked(before *catalog.Catalog, found map[resource.Type]catalog.Schema, now time.Time) {
	for t, d := range k.mu.doubts {
		schema, ok := found[t]
		fresh := ok && !before.Of(t).HasSchema(schema)
		if ok && !fresh && d.gone && now.Sub(d.since) < staleLasts {
			delete(found, t)
		}
		if fresh || now.Sub(d.since) >= doubtLasts {
			delete(k.mu.doubts, t)
		}
	}
}

// replaceTypesLocked gives the engine a catalog with these schemas, and without
// those of the types that are pending. It returns the catalog.
func (e *Engine) replaceTypesLocked(found map[resource.Type]catalog.Schema, pending ...resource.Type) *catalog.Catalog {
	now := e.current.Load()
	types := now.Types.WithSchemas(found, pending...)
	if types != now.Types {
		e.current.Store(now.WithTypes(types))
	}
	return types
}

// sayMissing logs, once, that schemas can't be read, and once that they are there.
func (e *Engine) sayMissing(ctx context.Context, errs []*catalog.SchemaError) {
	switch {
	case len(errs) > 0 && !e.keeper.failing:
		e.log.WarnContext(ctx, "schemas can't be read, retrying; until then children of these types are created and not updated",
			"types", typeNames(typesOf(errs)), "error", errs[0])
	case len(errs) == 0 && e.keeper.failing:
		e.log.InfoContext(ctx, "schemas are read")
	}
	e.keeper.failing = len(errs) > 0
}

func typesOf(errs []*catalog.SchemaError) []resource.Type {
	out := make([]resource.Type, 0, len(errs))
	for _, err := range errs {
		out = append(out, err.Type)
	}
	return out
}

func typeNames(types []resource.Type) []string {
	out := make([]string, 0, len(types))
	for _, t := range types {
		out = append(out, t.String())
	}
	return out
}

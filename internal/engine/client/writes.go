package client

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A Write is a request that may change an object. Dry runs are none.
type Write struct {
	Ref     object.Ref
	Parent  types.UID // the parent whose reconciliation sends it: see ByParent; "": none
	Deletes types.UID // the object that it deletes; "": it is no delete
	Guarded bool      // the API server rejects it if the object has another resourceVersion than the sender knows
}

// Track has begin called before each write is sent, and the end that it returns after the response, also if
// the request fails or panics. ok says that the API server has carried the write out. live is the object in its
// response, nil for one that is gone. Track must be called before the first request. begin and end may be called
// concurrently.
func (c *Client) Track(begin func(w Write) (end func(live *resource.Resource, ok bool))) {
	c.begin = begin
}

// byParent is a context of ByParent. context.WithValue would allocate twice.
type byParent struct {
	context.Context //nolint:containedctx // it is one
	parent          types.UID
}

type parentKey struct{}

// Value is context.Context's.
func (c *byParent) Value(key any) any {
	if key == (parentKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// ByParent returns a context for the requests of a reconciliation of the parent with this UID.
func ByParent(ctx context.Context, parent types.UID) context.Context { return &byParent{ctx, parent} }

// writeOf returns the write of an object, nil for a dry run.
func writeOf(k *catalog.Kind, key types.NamespacedName, guarded, dryRun bool) *Write {
	if dryRun {
		return nil
	}
	return &Write{Ref: object.Ref{Type: k.Type, Key: key}, Guarded: guarded}
}

// comparing sends a write of an object at this version ("": a create), and compares the version in the
// response with what was known before: see revision.
func (c *Client) comparing(k *catalog.Kind, version string, send func() (*resource.Resource, error)) (*resource.Resource, error) {
	known := c.Revision(k.Type)
	since := known.Newest()
	live, err := send()
	if err != nil {
		return nil, err
	}
	if err := known.CompareWrite(since, version, live.ResourceVersion()); err != nil {
		return nil, err
	}
	return live, nil
}

// versionIn returns the resourceVersion in the body of a write, "" if it has none.
func versionIn(object any) string {
	fields, _ := object.(map[string]any)
	meta, _ := fields["metadata"].(map[string]any)
	version, _ := meta["resourceVersion"].(string)
	return version
}

// open calls the begin of Track, unless w is nil, and returns its end.
func (c *Client) open(ctx context.Context, w *Write) (end func(live *resource.Resource, ok bool)) {
	if w == nil || c.begin == nil {
		return func(*resource.Resource, bool) {}
	}
	if by, ok := ctx.Value(parentKey{}).(*byParent); ok {
		w.Parent = by.parent
	}
	return c.begin(*w)
}

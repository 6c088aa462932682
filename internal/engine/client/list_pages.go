package client

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
)

// listPage is how many objects ListPages asks for at once.
const listPage = 500

// ListPages reads the newest state of all objects of a type in a namespace (empty:
// in all) that these options select, page by page. version is the resourceVersion of
// the list.
func (c *Client) ListPages(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions) (objects []*resource.Resource, version string, err error) {
	listed, version, err := c.listPages(ctx, k, namespace, opts, &observing{shorten: c.observed.shorten})
	if err != nil {
		return nil, "", err
	}
	objects = make([]*resource.Resource, 0, len(listed))
	for _, o := range listed {
		objects = append(objects, o.Resource)
	}
	return objects, version, nil
}

// ListHeld is ListPages for objects whose HeldFields are wanted, even after
// DropHeldFields.
func (c *Client) ListHeld(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions) (objects []*WireObject, version string, err error) {
	o := &observing{held: heldFields{manager: c.fieldManager}, shorten: c.observed.shorten}
	o.held.wanted.Store(true)
	return c.listPages(ctx, k, namespace, opts, o)
}

// listPages is ListPages for objects of which o keeps what is wanted.
func (c *Client) listPages(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions, o *observing) (objects []*WireObject, version string, err error) {
	opts.Limit = listPage
	for {
		page, err := c.list(ctx, k, namespace, opts, o)
		switch {
		case apierrors.IsResourceExpired(err) && opts.Continue != "": // the pages have expired: read all objects at once
			opts.Limit, opts.Continue, objects = 0, "", nil
			continue
		case err != nil:
			return nil, "", err
		}
		objects = append(objects, page.Items...)
		if opts.Continue = page.Continue; opts.Continue == "" {
			return objects, page.ResourceVersion, nil
		}
	}
}

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
// in all) that match a label selector (empty: every object), page by page. version
// is the resourceVersion of the list.
func (c *Client) ListPages(ctx context.Context, k *catalog.Kind, namespace, selector string) (objects []*resource.Resource, version string, err error) {
	opts := metav1.ListOptions{LabelSelector: selector, Limit: listPage}
	for {
		page, err := c.List(ctx, k, namespace, opts)
		switch {
		case apierrors.IsResourceExpired(err) && opts.Continue != "": // the pages have expired: read all objects at once
			opts.Limit, opts.Continue, objects = 0, "", nil
			continue
		case err != nil:
			return nil, "", err
		}
		for _, item := range page.Items {
			objects = append(objects, item.Resource)
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			return objects, page.ResourceVersion, nil
		}
	}
}

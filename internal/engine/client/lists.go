package client

import (
	"context"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/catalog"
)

// List reads one page of the objects of a type in a namespace (empty: in all), with
// client-go's options. ListPages reads all of them.
func (c *Client) List(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions) (*WireList, error) {
	return c.list(ctx, k, namespace, opts, c.observed)
}

// list is List for objects of which o keeps what is wanted.
func (c *Client) list(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions, o *observing) (*WireList, error) {
	return c.listBy(ctx, c.listRequest(k, namespace, opts), k, o)
}

func (c *Client) listRequest(k *catalog.Kind, namespace string, opts metav1.ListOptions) *rest.Request {
	opts.ShardSelector = c.shardOf(k.Type).Selector() // an API server that doesn't know it sends all
	return c.among(http.MethodGet, k, namespace).SpecificallyVersionedParams(&opts, c.params, schema.GroupVersion{Version: "v1"})
}

// listBy returns the list that answers a request.
func (c *Client) listBy(ctx context.Context, req *rest.Request, k *catalog.Kind, o *observing) (*WireList, error) {
	res := c.do(ctx, req)
	if err := res.Error(); err != nil {
		return nil, redacted(k, asked(k, "list", "", "", nil), err)
	}
	raw, err := res.Raw()
	if err != nil {
		return nil, redacted(k, asked(k, "list", "", "", nil), err)
	}
	c.noteList()
	return decodeList(k, raw, o, c.shardOf(k.Type))
}

// noteList notes that a page of a list has arrived.
func (c *Client) noteList() { c.listedAt.Store(time.Now().UnixNano()) }

// ListedAt returns when the last page of a list arrived, the zero time if none has.
func (c *Client) ListedAt() time.Time {
	if ns := c.listedAt.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Newest returns the newest resourceVersion that there is, by a list of one object at
// most, of those that these options select. It makes a single attempt: an answer means
// that the API server could be reached at once.
func (c *Client) Newest(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions) (string, error) {
	opts.Limit = 1
	list, err := c.listBy(ctx, c.listRequest(k, namespace, opts).MaxRetries(0), k, c.observed)
	if err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

// Watch watches the objects of a type in a namespace (empty: in all), with
// client-go's options. The events hold WireObjects. The watch ends with ctx, or when
// the caller stops it.
func (c *Client) Watch(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	events, err := c.listRequest(k, namespace, opts).Watch(WithoutBodies(ctx))
	if err != nil {
		return nil, redacted(k, asked(k, "watch", "", "", nil), err)
	}
	return events, nil
}

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
	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/resource"
)

// List reads one page of the objects of a type in a namespace (empty: in all), with
// client-go's options. ListPages reads all of them.
func (c *Client) List(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions) (*WireList, error) {
	return c.list(ctx, k, namespace, opts, c.observed)
}

// list is List for objects of which o keeps what is wanted.
func (c *Client) list(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions, o *observing) (*WireList, error) {
	if opts.ResourceVersion != "" || opts.Continue != "" {
		return c.listBy(ctx, c.listRequest(k, namespace, opts), k, o)
	}
	return c.newest(ctx, c.listRequest(k, namespace, opts), k, o)
}

// newest returns the list that answers a request at resourceVersion "", and compares it with what was known
// before: see revision.
func (c *Client) newest(ctx context.Context, req *rest.Request, k *catalog.Kind, o *observing) (*WireList, error) {
	known := c.Revision(k.Type)
	since := known.Newest()
	list, err := c.listBy(ctx, req, k, o)
	if err == nil {
		err = known.Compare(since, list.ResourceVersion)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
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

// Storage returns what is known of the revisions of the API server's storage. It may be nil.
func (c *Client) Storage() *revision.Storage { return c.storage }

// Revision returns what is known of those of a type. It may be nil. Each list at resourceVersion "",
// create and update is compared with it.
func (c *Client) Revision(t resource.Type) *revision.Type { return c.storage.Of(t.APIVersion, t.Kind) }

// Compare finds out whether etcd was restored, by a list of the metadata of one object at most, with a field selector
// (empty: any object). A label selector would make the API server read all objects if it selects none. It makes a single
// attempt. An error says that etcd was restored, or that the list has failed.
func (c *Client) Compare(ctx context.Context, k *catalog.Kind, namespace, fields string) error {
	req := c.listRequest(k, namespace, metav1.ListOptions{Limit: 1, FieldSelector: fields})
	_, err := c.newest(ctx, req.MaxRetries(0).SetHeader("Accept", metadataList), k, &observing{})
	return err
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

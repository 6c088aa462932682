package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
)

// metadataList asks for a list whose objects have nothing but their metadata. An API
// server that can't leave the rest out sends it.
const metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// EachMetadata reads the newest state of all objects of a type in a namespace (empty:
// in all) that match a label selector (empty: every object), page by page, and calls
// do for each. The resources that do gets have their type, their metadata and nothing
// else. If the pages expire in the middle, EachMetadata begins anew, and do gets
// objects that it has got before.
func (c *Client) EachMetadata(ctx context.Context, k *catalog.Kind, namespace, selector string, do func(*resource.Resource)) error {
	opts := metav1.ListOptions{LabelSelector: selector, Limit: listPage}
	for {
		page, next, err := c.listMetadata(ctx, k, namespace, opts)
		switch {
		case apierrors.IsResourceExpired(err) && opts.Continue != "": // the pages have expired: read all objects at once
			opts.Limit, opts.Continue = 0, ""
			continue
		case err != nil:
			return err
		}
		for _, res := range page {
			do(res)
		}
		if opts.Continue = next; next == "" {
			return nil
		}
	}
}

// listMetadata reads one page of the metadata of the objects of a type. next is the
// token of the next page, "" after the last one.
func (c *Client) listMetadata(ctx context.Context, k *catalog.Kind, namespace string, opts metav1.ListOptions) (page []*resource.Resource, next string, err error) {
	req := c.among(http.MethodGet, k, namespace).SetHeader("Accept", metadataList)
	res := c.do(ctx, req.SpecificallyVersionedParams(&opts, c.params, schema.GroupVersion{Version: "v1"}))
	if err := res.Error(); err != nil {
		return nil, "", redacted(k, asked(k, "list", "", "", nil), err)
	}
	raw, err := res.Raw()
	if err != nil {
		return nil, "", redacted(k, asked(k, "list", "", "", nil), err)
	}
	c.noteList()
	return decodeMetadata(k, raw)
}

// decodeMetadata decodes one page of a list of objects of type k, of which it keeps
// the metadata alone. next is the token of the next page, "" if this is the last one.
func decodeMetadata(k *catalog.Kind, raw []byte) (page []*resource.Resource, next string, err error) {
	t := k.Type
	var list struct {
		Kind     string          `json:"kind"`
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []struct {
			Metadata json.RawMessage `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, "", fmt.Errorf("%s list: %w", t, malformed(k, err))
	}
	if err := checkList(list.Kind); err != nil {
		return nil, "", fmt.Errorf("%s list: %w", t, err)
	}
	page = make([]*resource.Resource, 0, len(list.Items))
	for i, item := range list.Items {
		res, err := resource.New(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":%s}`, t.APIVersion, t.Kind, item.Metadata))
		if err != nil {
			return nil, "", fmt.Errorf("%s list: item %d: %w", t, i, err)
		}
		page = append(page, res)
	}
	return page, list.Metadata.Continue, nil
}

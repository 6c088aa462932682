package client

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/resource"
)

// A WireObject carries an observed object, or a bookmark, through client-go's
// Reflector into the store. It is immutable.
type WireObject struct {
	*resource.Resource                    // nil: it is a bookmark
	bookmark           *metav1.ObjectMeta // the metadata of a bookmark
	held               []string           // see HeldFields
}

// HeldFields returns which fields of the object the operator owns by managedFields:
// the fieldsV1 of each of its entries, but for those of subresources. It returns
// nothing for an object that was read after Client.DropHeldFields.
func (o *WireObject) HeldFields() []string { return o.held }

// GetObjectKind returns no kind: the Resource has its own.
func (o *WireObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the object itself, which is immutable.
func (o *WireObject) DeepCopyObject() runtime.Object { return o }

// GetObjectMeta returns those metadata that a Reflector reads, by apimachinery's
// meta.Accessor.
func (o *WireObject) GetObjectMeta() metav1.Object {
	if o.bookmark != nil {
		return o.bookmark
	}
	return &metav1.ObjectMeta{Name: o.Name(), Namespace: o.Namespace(), ResourceVersion: o.ResourceVersion()}
}

// A WireList is one page of a list. It is immutable.
type WireList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*WireObject // none is a bookmark
}

// GetObjectKind returns no kind: the items have their own.
func (l *WireList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the list itself, which is immutable.
func (l *WireList) DeepCopyObject() runtime.Object { return l }

// decodeList decodes a list of objects of type k. It adds the type to the items,
// since those of built-in types come without apiVersion and kind. It leaves those out that
// are of another shard.
func decodeList(k *catalog.Kind, raw []byte, o *observing, only shard.Shard) (*WireList, error) {
	t := k.Type
	var list struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%s list: %w", t, malformed(k, err))
	}
	if err := checkList(list.Kind); err != nil {
		return nil, fmt.Errorf("%s list: %w", t, err)
	}
	out := &WireList{ListMeta: list.Metadata, Items: make([]*WireObject, 0, len(list.Items))}
	// Of two members with the same key the later one counts, so an item that has a
	// type keeps it.
	head := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, t.APIVersion, t.Kind)
	var buf []byte
	for i, item := range list.Items {
		if len(item) < 2 || item[0] != '{' {
			return nil, fmt.Errorf("%s list: item %d isn't an object", t, i)
		}
		if only.Divides() && isForeign(item, only) {
			continue
		}
		buf = append(append(buf[:0], head...), item[1:]...)
		res, err := resource.New(buf)
		if err != nil {
			return nil, fmt.Errorf("%s list: item %d: %w", t, i, err)
		}
		out.Items = append(out.Items, o.object(res, buf))
	}
	return out, nil
}

// A wireCodec decodes single objects: a Status into a metav1.Status, any other
// object and bookmarks into a WireObject.
type wireCodec struct{ observed *observing }

func (wireCodec) Identifier() runtime.Identifier { return "roperator-wire" }

func (wireCodec) Encode(obj runtime.Object, w io.Writer) error { return json.NewEncoder(w).Encode(obj) }

func (c wireCodec) Decode(data []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	res, err := resource.New(data)
	if err == nil {
		gvk := res.Type().GroupVersionKind()
		return c.observed.object(res, data), &gvk, nil
	}
	var meta metav1.PartialObjectMetadata
	if jsonErr := json.Unmarshal(data, &meta); jsonErr != nil {
		return nil, nil, jsonErr
	}
	gvk := meta.GroupVersionKind()
	switch {
	case gvk == schema.GroupVersionKind{Version: "v1", Kind: "Status"}:
		var status metav1.Status
		if err := json.Unmarshal(data, &status); err != nil {
			return nil, nil, err
		}
		return &status, &gvk, nil
	case meta.Name == "" && meta.UID == "" && meta.ResourceVersion != "":
		return &WireObject{bookmark: &metav1.ObjectMeta{
			ResourceVersion: meta.ResourceVersion,
			Annotations:     meta.Annotations,
		}}, &gvk, nil
	}
	return nil, nil, err
}

// A wireSerializer makes client-go's REST client decode with the code of this
// package: streams with framer, their events with eventCodec, and objects with
// wireCodec.
type wireSerializer struct {
	observed *observing
	only     shard.Shard // whose objects alone streams have
}

// metaScheme returns a scheme with the types of the protocol itself, such as
// ListOptions.
func metaScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}

func (s wireSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType: "application/json", MediaTypeType: "application", MediaTypeSubType: "json",
		EncodesAsText: true,
		Serializer:    wireCodec{s.observed},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    eventCodec{},
			Framer:        framer{s.only},
		},
	}}
}

func (wireSerializer) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

func (wireSerializer) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

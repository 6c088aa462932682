package client

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/resource"
)

// A WireObject is an observed object on its way from the API server into the
// store, in the shape that client-go's Reflector asks of what it handles.
type WireObject struct {
	*resource.Resource
	// A bookmark has no object, only the metadata below.
	bookmark *metav1.ObjectMeta
}

func (o *WireObject) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (o *WireObject) DeepCopyObject() runtime.Object   { return o } // immutable

// GetObjectMeta makes the object known to apimachinery's meta.Accessor, with
// as much of its metadata as a Reflector reads.
func (o *WireObject) GetObjectMeta() metav1.Object {
	if o.bookmark != nil {
		return o.bookmark
	}
	return &metav1.ObjectMeta{Name: o.Name(), Namespace: o.Namespace(), ResourceVersion: o.ResourceVersion()}
}

// A wireList is one page of a list.
type wireList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []*WireObject
}

func (l *wireList) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (l *wireList) DeepCopyObject() runtime.Object   { return l } // immutable

// decodeList decodes a list of objects of type t. The items of built-in lists
// come without apiVersion and kind.
func decodeList(t resource.Type, raw []byte) (*wireList, error) {
	var list struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%s list: decode: %w", t, err)
	}
	out := &wireList{ListMeta: list.Metadata, Items: make([]*WireObject, 0, len(list.Items))}
	// A later duplicate of a key wins, so what an item says itself stays.
	head := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, t.APIVersion, t.Kind)
	var buf []byte
	for i, item := range list.Items {
		if len(item) < 2 || item[0] != '{' {
			return nil, fmt.Errorf("%s list: item %d isn't an object", t, i)
		}
		buf = append(append(buf[:0], head...), item[1:]...)
		res, err := resource.New(buf)
		if err != nil {
			return nil, fmt.Errorf("%s list: item %d: %w", t, i, err)
		}
		out.Items = append(out.Items, &WireObject{Resource: res})
	}
	return out, nil
}

// A wireCodec decodes single objects: into a metav1.Status where the server
// says so, else into a wireObject.
type wireCodec struct{}

func (wireCodec) Identifier() runtime.Identifier { return "roperator-wire" }

func (wireCodec) Encode(obj runtime.Object, w io.Writer) error { return json.NewEncoder(w).Encode(obj) }

func (wireCodec) Decode(data []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	res, err := resource.New(data)
	if err == nil {
		gvk := res.Type().GroupVersionKind()
		return &WireObject{Resource: res}, &gvk, nil
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

// A wireSerializer tells client-go's REST client how to read what comes over
// the wire: frames and events with the code of wire_frames.go, and wireCodec for
// the objects in them.
type wireSerializer struct{}

// metaScheme returns a scheme that knows the types of the protocol itself.
func metaScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}

func (wireSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{
		MediaType: "application/json", MediaTypeType: "application", MediaTypeSubType: "json",
		EncodesAsText: true,
		Serializer:    wireCodec{},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true,
			Serializer:    eventCodec{},
			Framer:        framer{},
		},
	}}
}

func (wireSerializer) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

func (wireSerializer) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

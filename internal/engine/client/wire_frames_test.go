package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const frameObject = `{"apiVersion":"v1","kind":"A","metadata":{"name":"n","uid":"u","resourceVersion":"1","managedFields":[{}]},"x":"}\\\"{\\"}`

func wireDecoder(body io.Reader) watch.Decoder {
	return streamDecoder(wireSerializer{}.SupportedMediaTypes()[0], io.NopCloser(body))
}

func TestWatchStream(t *testing.T) {
	long := strings.Replace(frameObject, `"x":"`, `"x":"`+strings.Repeat("long", 40<<10), 1)
	event := func(object string) string { return `{"type":"MODIFIED","object":` + object + "}" }
	for name, tc := range map[string]struct {
		reason string
		stream string
		events int
		err    string // after them
	}{
		"lines":          {reason: "as kube-apiserver writes them", stream: event(frameObject) + "\n" + event(frameObject) + "\n", events: 2, err: "EOF"},
		"no lines":       {reason: "a newline isn't asked for", stream: event(frameObject) + event(frameObject), events: 2, err: "EOF"},
		"pretty":         {reason: "spaces and the order of members don't matter", stream: " {\n \"object\" : " + frameObject + " , \"type\" : \"ADDED\" }\r\n\t", events: 1, err: "EOF"},
		"long":           {reason: "a buffer that is too short grows, and what follows is whole", stream: event(long) + "\n" + event(frameObject) + event(long) + event(frameObject), events: 4, err: "EOF"},
		"empty":          {reason: "a stream without an event ends", stream: " \n", err: "EOF"},
		"cut":            {reason: "an event that is cut off isn't one", stream: event(frameObject) + "\n" + event(frameObject)[:60], events: 1, err: "unexpected EOF"},
		"not an object":  {reason: "after what isn't an event there is no telling where the next begins", stream: event(frameObject) + "\n[1]\n" + event(frameObject), events: 1, err: "malformed stream"},
		"malformed":      {reason: "what isn't JSON is refused", stream: event(strings.Replace(frameObject, `"v1"`, `v1`, 1)), err: "invalid"},
		"wrong brackets": {reason: "frames are found by counting brackets, whatever their kind", stream: `{"type":"ADDED","object":{]}}`, err: "decode"},
		"unknown type":   {reason: "as client-go has it", stream: strings.Replace(event(frameObject), "MODIFIED", "SEEN", 1), err: "invalid watch event type"},
		"two objects":    {reason: "never a wrong object", stream: `{"type":"ADDED","object":` + frameObject + `,"object":1}`, err: "decode"},
		"no object":      {reason: "an event has an object", stream: `{"type":"ADDED"}`, err: "decode"},
		"no end":         {reason: "an event has a longest length", stream: `{"type":"ADDED","object":"` + strings.Repeat("x", maxEvent+frameBuffer), err: "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			readers := map[string]io.Reader{"at once": strings.NewReader(tc.stream), "with EOF": iotest.DataErrReader(strings.NewReader(tc.stream))}
			if len(tc.stream) < maxEvent {
				readers["byte by byte"] = iotest.OneByteReader(strings.NewReader(tc.stream))
				readers["halves"] = iotest.HalfReader(strings.NewReader(tc.stream))
			}
			for how, body := range readers {
				decoder := wireDecoder(body)
				for range tc.events {
					_, obj, err := decoder.Decode()
					require.NoError(t, err, "%s: %s", how, tc.reason)
					res := obj.(*WireObject).Resource
					require.Equal(t, "A n", res.String())
					x, _ := res.Field("x")
					require.True(t, strings.HasSuffix(x.(string), `}\"{\`), "%s: %s", how, tc.reason)
				}
				_, obj, err := decoder.Decode()
				require.ErrorContains(t, err, tc.err, "%s: %s", how, tc.reason)
				require.Nil(t, obj)
				require.Equal(t, tc.err == "EOF", errors.Is(err, io.EOF))
			}
		})
	}
}

func TestWatchStreamOfOthers(t *testing.T) {
	broken := errors.New("http2: client connection lost")
	decoder := wireDecoder(io.MultiReader(strings.NewReader(
		`{"type":"BOOKMARK","object":{"kind":"A","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}
		{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}}`),
		iotest.ErrReader(broken)))
	kind, obj, err := decoder.Decode()
	require.NoError(t, err)
	require.Equal(t, watch.Bookmark, kind)
	require.Equal(t, &metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}, obj.(*WireObject).bookmark)
	kind, obj, err = decoder.Decode()
	require.NoError(t, err)
	require.Equal(t, watch.Error, kind)
	require.Equal(t, int32(410), obj.(*metav1.Status).Code)
	require.Equal(t, metav1.StatusReasonExpired, obj.(*metav1.Status).Reason)
	_, _, err = decoder.Decode()
	require.Equal(t, io.ErrUnexpectedEOF, err, "client-go resumes only after this one")
}

// After a long event, the reader must not keep the memory that the event took.
func TestWatchStreamGivesMemoryBack(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 4*keptBuffer) + `"}`
	r := &frameReader{body: io.NopCloser(io.MultiReader(strings.NewReader(long), strings.NewReader(`{"b":1}`)))}
	data := make([]byte, len(long))
	n, err := r.Read(data)
	require.NoError(t, err)
	require.Equal(t, long, string(data[:n]))
	n, err = r.Read(data)
	require.NoError(t, err)
	require.Equal(t, `{"b":1}`, string(data[:n]))
	require.Len(t, r.mem, frameBuffer)
}

func FuzzWatchEvent(f *testing.F) {
	for _, seed := range []string{
		`{"type":"ADDED","object":` + frameObject + "}\n", `{"object":` + frameObject + `,"type":"DELETED"}`,
		`{"type":"ADDED","object":` + frameObject + `,"object":{}}`, `{"type":"ADDED","Object":` + frameObject + `}`,
		`{"type":"BOOKMARK","object":{"kind":"A","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`,
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410}}`,
		`{"type":"ADDED","object":{]}}`, `{"type":"ADDED","object":`, `{}`, `[]`, ` {"a":"\"}`, `{"type":"ADDED","object":"` + "\xff" + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, obj, err := wireDecoder(bytes.NewReader(data)).Decode()
		_, again, errAgain := wireDecoder(iotest.OneByteReader(bytes.NewReader(data))).Decode()
		require.Equal(t, err == nil, errAgain == nil, "it doesn't matter how the bytes arrive")
		if err != nil {
			return
		}
		// Whatever encoding/json refuses has been refused, and the object is the same.
		var want map[string]json.RawMessage
		require.NoError(t, json.NewDecoder(bytes.NewReader(data)).Decode(&want))
		var wantType string
		require.NoError(t, json.Unmarshal(want["type"], &wantType))
		require.Equal(t, wantType, string(kind))
		checkEventObject(t, want["object"], obj, again)
	})
}

func checkEventObject(t *testing.T, raw json.RawMessage, obj, again runtime.Object) {
	t.Helper()
	ours, ok := obj.(*WireObject)
	if !ok || ours.Resource == nil {
		return // a Status or a bookmark, which encoding/json decodes
	}
	want := exactJSON(t, raw)
	if metadata, ok := want["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	text, err := ours.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, want, exactJSON(t, text))
	metadata := want["metadata"].(map[string]any)
	require.Equal(t, metadata["name"], ours.Name())
	require.Equal(t, metadata["uid"], string(ours.UID()))
	require.Equal(t, metadata["resourceVersion"], ours.ResourceVersion())
	textAgain, err := again.(*WireObject).MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(text), string(textAgain))
}

// exactJSON decodes an object, numbers without loss.
func exactJSON(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var object map[string]any
	require.NoError(t, decoder.Decode(&object))
	return object
}

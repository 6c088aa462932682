package client

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/roperator/roperator/internal/engine/shard"
)

func TestUIDOf(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, object, want string // empty: it isn't found
	}{
		"plain":         {"as an API server writes it", `{"apiVersion":"v1","kind":"A","metadata":{"name":"n","uid":"u-1"}}`, "u-1"},
		"first":         {"the order doesn't matter", `{"metadata":{"uid":"u-1","name":"n"},"kind":"A"}`, "u-1"},
		"spaces":        {"nor do spaces", "{ \"metadata\" :\n\t{ \"uid\" : \"u-1\" } }", "u-1"},
		"spec":          {"a uid elsewhere is another's", `{"spec":{"uid":"u-2","metadata":{"uid":"u-3"}},"metadata":{"uid":"u-1"}}`, "u-1"},
		"owner":         {"an owner's is another's", `{"metadata":{"ownerReferences":[{"uid":"u-2"}],"labels":{"uid":"u-3"},"uid":"u-1"}}`, "u-1"},
		"value":         {"what looks like the key is a value", `{"metadata":{"a":"uid","b":["uid",":"],"uid":"u-1"}}`, "u-1"},
		"quotes":        {"strings may have quotes and brackets", `{"x":"\\\"}{\"metadata\":{\"uid\":\"u-2\"}","metadata":{"n":"\\","uid":"u-1"}}`, "u-1"},
		"none":          {"there may be none", `{"metadata":{"name":"n"},"spec":{"uid":"u-2"}}`, ""},
		"number":        {"a number is no UID", `{"metadata":{"uid":1}}`, ""},
		"empty":         {"nor is an empty text", `{"metadata":{"uid":""}}`, ""},
		"escape":        {"whoever decodes it knows", `{"metadata":{"uid":"\u0075"}}`, ""},
		"cut":           {"what is cut off has none", `{"metadata":{"uid":"u-`, ""},
		"cut at a key":  {"what is cut off has none", `{"metadata":{"uid"`, ""},
		"cut at spaces": {"what is cut off has none", `{"metadata":{"uid":  `, ""},
		"no object":     {"what is no object has none", `["metadata",{"uid":"u"}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			uid, ok := uidOf([]byte(tc.object))
			require.Equal(t, tc.want != "", ok, tc.reason)
			if ok {
				require.Equal(t, tc.want, string(uid), tc.reason)
			}
		})
	}
}

// FuzzUIDOf holds uidOf against encoding/json.
func FuzzUIDOf(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","metadata":{"labels":{"uid":"x"},"uid":"u-1"}}`))
	f.Add([]byte(`{"metadata":{"a":"\\","uid":"u"},"spec":[{"metadata":{"uid":"v"}}]}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		uid, ok := uidOf(object)
		var decoded map[string]json.RawMessage
		if json.Unmarshal(object, &decoded) != nil || !ok {
			return
		}
		var meta map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(decoded["metadata"], &meta))
		if strings.Count(string(object), `"uid"`) > 1 || strings.Count(string(object), `"metadata"`) > 1 || strings.Contains(string(object), `\u`) {
			return // of members with the same key, another one may count
		}
		var want string
		require.NoError(t, json.Unmarshal(meta["uid"], &want))
		require.Equal(t, want, string(uid))
	})
}

// Of a watch of parents, the events about those of other shards are left out, and nothing
// else is.
func TestWatchOfAShard(t *testing.T) {
	only := shard.Shard{Index: 2, Of: 4}
	var stream strings.Builder
	var want []types.UID
	for range 200 {
		uid := uuid.NewUUID()
		if only.Owns(uid) {
			want = append(want, uid)
		}
		fmt.Fprintf(&stream, `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"A","metadata":{"name":"n","resourceVersion":"1","uid":%q}}}`+"\n", uid)
		fmt.Fprintf(&stream, `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"A","metadata":{"resourceVersion":"1"}}}`+"\n")
	}
	fmt.Fprintf(&stream, `{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","code":410,"metadata":{"uid":"u"}}}`+"\n")
	serializer := wireSerializer{only: only}
	decoder := streamDecoder(serializer.SupportedMediaTypes()[0], io.NopCloser(strings.NewReader(stream.String())))
	var got []types.UID
	bookmarks, errs := 0, 0
	for {
		event, obj, err := decoder.Decode()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		switch o, ok := obj.(*WireObject); {
		case event == "ERROR":
			errs++
		case ok && o.Resource != nil:
			got = append(got, o.UID())
		default:
			bookmarks++
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, 200, bookmarks)
	require.Equal(t, 1, errs)
}

// A frame of another shard costs no allocation.
func TestDropsWithoutAllocation(t *testing.T) {
	r := &frameReader{only: shard.Shard{Index: 0, Of: 2}}
	var foreign []byte
	for foreign == nil {
		if uid := uuid.NewUUID(); !r.only.Owns(uid) {
			foreign = fmt.Appendf(nil, `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"A","metadata":{"name":"n","resourceVersion":"1","uid":%q}}}`, uid)
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if !r.drops(foreign) {
			t.Error("it isn't dropped")
		}
	}))
}

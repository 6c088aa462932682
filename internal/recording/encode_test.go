package recording

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

const canary = "canary-7f3a"

// inBase64 is how the API server has the canary.
func inBase64() string { return base64.StdEncoding.EncodeToString([]byte(canary)) }

func noCanary(t *testing.T, text []byte, reason string) {
	t.Helper()
	require.NotContains(t, string(text), canary, reason)
	require.NotContains(t, string(text), inBase64(), reason)
}

// A bundle is a type that client-go's scheme doesn't know.
type bundle struct {
	corev1.Secret `json:",inline"`
}

// TestEncode_ChildSecrets: in whatever form a handler returns a Secret, no value is told.
func TestEncode_ChildSecrets(t *testing.T) {
	t.Parallel()
	object := func() map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "key", "annotations": map[string]any{lastApplied: canary}},
			"data": map[string]any{"k": inBase64()}, "stringData": map[string]any{"s": canary},
		}
	}
	text, err := json.Marshal(object())
	require.NoError(t, err)
	typed := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key", Annotations: map[string]string{lastApplied: canary}},
		Data:       map[string][]byte{"k": []byte(canary)}, StringData: map[string]string{"s": canary},
	}
	there := observed(t, "Secret", "key", map[string]any{"data": map[string]any{"k": inBase64()}, "annotations": map[string]any{lastApplied: canary}})
	misnamed := object()
	for _, name := range wishNames() {
		misnamed[name] = canary
	}
	for name, tc := range map[string]struct {
		reason string
		child  any
	}{
		"typed":        {"a pointer without TypeMeta", &typed},
		"value":        {"a value", typed},
		"unknown type": {"its kind isn't known", &bundle{typed}},
		"map":          {"an object", object()},
		"typed in map": {"any values", map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": typed.ObjectMeta, "data": typed.Data, "stringData": typed.StringData}},
		"unstructured": {"an object", &unstructured.Unstructured{Object: object()}},
		"raw":          {"JSON", json.RawMessage(text)},
		"bytes":        {"JSON", text},
		"apply":        {"an apply configuration", applycorev1.Secret("key", "ns").WithStringData(map[string]string{"s": canary})},
		"resource":     {"as observed", there},
		"keep":         {"its identity alone", handler.Keep(there)},
		"leave":        {"inside", handler.Leave(object(), "data.k")},
		"after":        {"inside, and as the need", handler.After(object(), &typed, there, handler.Ref{Type: k8s.Secret, Name: "key"})},
		"when":         {"inside", handler.When(object(), false)},
		"all":          {"one in the other", handler.When(handler.After(handler.Leave(object(), "data.k"), there), false)},
		"wishes":       {"fields of the child that are called like wishes", misnamed},
		"typed list":   {"no child can be one, but a handler may return it", &corev1.SecretList{Items: []corev1.Secret{typed}}},
		"mixed list":   {"the same", map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"name": "key"}, "items": []any{object()}}},
		"manifest":     {"a custom resource that carries a Secret", map[string]any{"apiVersion": "example.com/v1", "kind": "Work", "metadata": map[string]any{"name": "key"}, "spec": map[string]any{"manifest": object()}}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Encode(Call{Kind: KindSync, Request: about(t, "one"), Response: &handler.SyncResponse{Children: []any{tc.child}}}, ByKey("k"))
			require.NoError(t, err, tc.reason)
			noCanary(t, out, tc.reason)
			require.Len(t, read(t, out).Response.Children, 1)
			if name != "typed list" {
				require.Contains(t, string(out), `"name":"key"`, tc.reason)
			}
		})
	}
}

// TestEncode_Request: no Secret in a request is told.
func TestEncode_Request(t *testing.T) {
	t.Parallel()
	secret := map[string]any{"data": map[string]any{"k": inBase64()}, "stringData": map[string]any{"s": canary}, "annotations": map[string]any{lastApplied: canary, "op.example.com/applied": canary}}
	page := map[string]any{"data": map[string]any{"k": "page"}, "annotations": map[string]any{lastApplied: canary}}
	failed := []handler.ChildError{{Type: k8s.Secret, Key: named("key"), Verb: "update", Reason: "Forbidden", Message: "not allowed"}}
	req := &handler.SyncRequest{
		Parent:     observed(t, "Site", "one", map[string]any{"annotations": map[string]any{lastApplied: canary}, "spec": map[string]any{"text": "told"}}),
		Children:   handler.NewChildren(observed(t, "Secret", "key", secret), observed(t, "ConfigMap", "page", page)),
		Related:    handler.NewObjects(observed(t, "Secret", "shared", secret), observed(t, "ConfigMap", "global", page)),
		LastErrors: failed,
	}
	for name, tc := range map[string]struct {
		reason string
		req    *handler.SyncRequest
	}{
		"request":       {"of an operator", req},
		"secret parent": {"an operator may be one of Secrets", &handler.SyncRequest{Parent: observed(t, "Secret", "one", secret)}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Encode(Call{Kind: KindFinalize, Request: tc.req}, ByKey("k"))
			require.NoError(t, err)
			noCanary(t, out, tc.reason)
		})
	}
	out, err := Encode(Call{Kind: KindSync, Request: req}, ByKey("k"))
	require.NoError(t, err)
	var got handler.SyncRequest
	require.NoError(t, json.Unmarshal(read(t, out).Request, &got))
	require.Equal(t, failed, got.LastErrors)
	require.Equal(t, 2, got.Children.Len())
	require.Equal(t, 2, got.Related.Len())
	text, _ := got.Parent.Field("spec", "text")
	require.Equal(t, "told", text)
}

func TestEncode_Answer(t *testing.T) {
	t.Parallel()
	events := []handler.Event{{Type: "Normal", Reason: "Seen", Message: "ok"}}
	there := observed(t, "ConfigMap", "kept", nil)
	for name, tc := range map[string]struct {
		reason string
		kind   Kind
		resp   any
		err    error
		want   string // the line without its request
	}{
		"nothing":      {"neither", KindSync, nil, nil, `{"call":"sync"}`},
		"nil sync":     {"a handler returned nil", KindSync, (*handler.SyncResponse)(nil), nil, `{"call":"sync"}`},
		"nil finalize": {"a handler returned nil", KindFinalize, (*handler.FinalizeResponse)(nil), errors.New("no"), `{"call":"finalize","error":"no"}`},
		"empty":        {"a response that says nothing is one", KindSync, &handler.SyncResponse{}, nil, `{"call":"sync","response":{}}`},
		"beside error": {"both are told", KindSync, &handler.SyncResponse{Status: map[string]any{"phase": "sad"}, Resync: time.Minute}, errors.New("no"), `{"call":"sync","response":{"status":{"phase":"sad"},"after":"1m0s"},"error":"no"}`},
		"permanent":    {"what it says", KindSync, nil, handler.Permanent(errors.New("never")), `{"call":"sync","error":"never"}`},
		"sync":         {"all of it", KindSync, &handler.SyncResponse{KeepChildren: true, Events: events}, nil, `{"call":"sync","response":{"keepChildren":true,"events":[{"Type":"Normal","Reason":"Seen","Message":"ok"}]}}`},
		"finalize":     {"all of it", KindFinalize, &handler.FinalizeResponse{Finalized: true, Status: 1, Retry: time.Second, Events: events}, nil, `{"call":"finalize","response":{"status":1,"finalized":true,"after":"1s","events":[{"Type":"Normal","Reason":"Seen","Message":"ok"}]}}`},
		"keep":         {"its identity", KindSync, &handler.SyncResponse{Children: []any{handler.Keep(there)}}, nil, `{"call":"sync","response":{"children":[{"apiVersion":"v1","kind":"ConfigMap","keep":true,"metadata":{"name":"kept","namespace":"ns"}}]}}`},
		"closed":       {"what the handler said beside it", KindSync, &handler.SyncResponse{Children: []any{handler.When(handler.Leave(handler.After(there, handler.Ref{Type: k8s.Pod, Name: "web"}), "data.a"), false)}}, nil, `"after":["Pod web"]`},
		"cluster-wide": {"it has no namespace", KindSync, &handler.SyncResponse{Children: []any{handler.After(there, handler.Ref{Type: k8s.Pod, Namespace: "ns", Name: "web"})}}, nil, `"after":["Pod ns/web"]`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Encode(Call{Kind: tc.kind, Request: about(t, "one"), Response: tc.resp, Err: tc.err}, Alike)
			require.NoError(t, err)
			got := read(t, out)
			got.Request = nil
			text, err := json.Marshal(got)
			require.NoError(t, err)
			if tc.want[0] == '{' {
				withRequest := `{"call":"` + string(tc.kind) + `","request":null` + tc.want[len(`{"call":""`)+len(tc.kind):]
				require.JSONEq(t, withRequest, string(text), tc.reason)
			} else {
				require.Contains(t, string(text), tc.want, tc.reason)
			}
		})
	}
}

// TestEncode_Refusals: what can't be encoded is an error that names it and quotes nothing.
func TestEncode_Refusals(t *testing.T) {
	t.Parallel()
	children := func(child any) *handler.SyncResponse { return &handler.SyncResponse{Children: []any{child}} }
	secret := map[string]any{"kind": "Secret", "data": map[string]any{"k": json.RawMessage(`{` + canary)}}
	for name, tc := range map[string]struct {
		reason string
		c      Call
		want   string
	}{
		"kind":         {"a later version's", Call{Kind: "dance", Request: about(t, "one")}, `dance: a recording of this version has no call "dance"`},
		"no kind":      {"it is needed", Call{Request: about(t, "one")}, `no call ""`},
		"no request":   {"there is nothing to ask again", Call{Kind: KindSync}, "sync: request: no parent"},
		"no parent":    {"the same", Call{Kind: KindSync, Request: &handler.SyncRequest{}}, "sync: request: no parent"},
		"response":     {"no handler returns it", Call{Kind: KindSync, Request: about(t, "one"), Response: handler.SyncResponse{}}, "sync: response: a handler.SyncResponse isn't one"},
		"status":       {"it can't be JSON", Call{Kind: KindSync, Request: about(t, "one"), Response: &handler.SyncResponse{Status: func() {}}}, "sync: status: "},
		"number":       {"no JSON of the API server has it", Call{Kind: KindSync, Request: about(t, "one"), Response: &handler.SyncResponse{Status: json.Number("1e999")}}, "value: the number is beyond a float64"},
		"final status": {"it can't be JSON", Call{Kind: KindFinalize, Request: about(t, "one"), Response: &handler.FinalizeResponse{Status: func() {}}}, "finalize: status: "},
		"child":        {"it is nil", Call{Kind: KindSync, Request: about(t, "one"), Response: children(nil)}, "sync: child 0: object is nil"},
		"secret":       {"broken JSON", Call{Kind: KindSync, Request: about(t, "one"), Response: children(secret)}, "sync: child 0: "},
		"keep":         {"of nothing", Call{Kind: KindSync, Request: about(t, "one"), Response: children(handler.Keep(nil))}, "sync: child 0: handler.Keep of nil"},
		"need":         {"of nothing", Call{Kind: KindSync, Request: about(t, "one"), Response: children(handler.After(secret0(), nil))}, "sync: child 0: handler.After: object is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Encode(tc.c, Alike)
			require.ErrorContains(t, err, tc.want, tc.reason)
			noCanary(t, []byte(err.Error()), tc.reason)
		})
	}
}

func secret0() map[string]any { return map[string]any{"kind": "Secret"} }

func TestBesideError(t *testing.T) {
	t.Parallel()
	events := []handler.Event{{Reason: "Seen"}}
	all := &Answer{Status: 1, Children: []map[string]any{{}}, KeepChildren: true, Finalized: true, After: "1s", Events: events}
	require.Equal(t, &Answer{Status: 1, After: "1s", Events: events}, all.BesideError(), "the engine ignores the rest")
}

func TestMake(t *testing.T) {
	t.Parallel()
	h := handler.Funcs{
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			req.LastErrors[0].Message, req.Parent = "changed", nil
			return &handler.SyncResponse{}, errors.New("no")
		},
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) { return nil, nil },
	}
	req := about(t, "one")
	req.LastErrors = []handler.ChildError{{Message: "as asked"}}
	c, err := Make(t.Context(), h, KindSync, req)
	require.NoError(t, err)
	require.Equal(t, "as asked", c.Request.LastErrors[0].Message, "whatever the handler does with it")
	require.NotNil(t, c.Request.Parent)
	require.Equal(t, &handler.SyncResponse{}, c.Response)
	require.EqualError(t, c.Err, "no")
	c, err = Make(t.Context(), h, KindFinalize, nil)
	require.NoError(t, err)
	answer, err := AnswerOf(c, Alike)
	require.NoError(t, err)
	require.Nil(t, answer)
	_, err = Make(t.Context(), h, "dance", nil)
	require.EqualError(t, err, `a recording of this version has no call "dance"`)
}

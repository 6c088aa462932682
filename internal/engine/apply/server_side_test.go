package apply_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An applier stands before fakeapi, which knows no server-side apply. It answers
// applies itself, and keeps the bodies of all writes.
type applier struct {
	next   http.RoundTripper
	status int    // of the answer to an apply
	answer string // its body; empty: the object that fakeapi has
	bodies []string
}

// RoundTrip is http.RoundTripper's.
func (a *applier) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		a.bodies = append(a.bodies, string(raw))
		req.Body = io.NopCloser(strings.NewReader(string(raw)))
	}
	if req.Header.Get("Content-Type") != string(types.ApplyYAMLPatchType) {
		return a.next.RoundTrip(req)
	}
	if a.answer == "" {
		read, err := http.NewRequestWithContext(req.Context(), http.MethodGet, strings.Split(req.URL.String(), "?")[0], nil)
		if err != nil {
			return nil, err
		}
		return a.next.RoundTrip(read)
	}
	return &http.Response{
		StatusCode: a.status, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(a.answer)), ContentLength: int64(len(a.answer)),
	}, nil
}

// TestApply: a child is brought in line by one write, an apply or, where an apply
// wouldn't do, an update.
func TestApply(t *testing.T) {
	const noApply = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"failed to create typed patch object (ns/c): .data.x: field not declared in schema","code":500}`
	const invalid = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","message":"data.k: Invalid value","code":422,"details":{"causes":[{"reason":"FieldValueInvalid","field":"data.k"}]}}`
	ours := []any{map[string]any{
		"manager": "op", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
		"fieldsV1": map[string]any{"f:data": map[string]any{"f:k": map[string]any{}, "f:gone": map[string]any{}}},
	}}
	for name, tc := range map[string]struct {
		reason  string
		given   map[string]any
		managed []any
		answer  string
		status  int
		asked   []string // the applies aren't fakeapi's
		said    []string // parts of the last body
		err     string
	}{
		"apply": {
			reason: "one request, which can't meet another object, nor another state of it", given: map[string]any{"k": "2"},
			asked: []string{"get ConfigMap ns/c"}, said: []string{`"data":{"k":"1"}`, `"uid":"`, `"resourceVersion":"`},
		},
		"removal": {
			reason: "an apply removes nothing that a create has set", given: map[string]any{"k": "1", "gone": "x"}, managed: ours,
			asked: []string{"get ConfigMap ns/c", "update ConfigMap ns/c"}, said: []string{`"data":{"k":"1"}`, `"operation":"Apply"`},
		},
		"removal without managedFields": {
			reason: "the API server keeps none of a large object", given: map[string]any{"k": "1", "gone": "x"},
			asked: []string{"get ConfigMap ns/c", "update ConfigMap ns/c"}, said: []string{`"data":{"k":"1"}`},
		},
		"what no apply can take": {
			reason: "an update can", given: map[string]any{"k": "2"}, answer: noApply, status: http.StatusInternalServerError,
			asked: []string{"get ConfigMap ns/c", "update ConfigMap ns/c"}, said: []string{`"data":{"k":"1"}`},
		},
		"refused": {
			reason: "an update would be refused, too", given: map[string]any{"k": "2"}, answer: invalid, status: http.StatusUnprocessableEntity,
			err: "data.k: Invalid value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Apply})
			a := &applier{answer: tc.answer, status: tc.status}
			f.wrap = func(next http.RoundTripper) http.RoundTripper { a.next = next; return a }
			live := f.given(configMap(tc.given), func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["managedFields"] = tc.managed
			})
			p := f.plan([]*resource.Resource{live}, configMap(map[string]any{"k": "1"}))

			r := f.run(t.Context(), p).Results[0]

			require.Equal(t, tc.asked, f.asked(), tc.reason)
			require.Equal(t, plan.VerbApply, r.Action.Verb)
			for _, part := range tc.said {
				require.Contains(t, a.bodies[len(a.bodies)-1], part)
			}
			if tc.err != "" {
				require.ErrorContains(t, r.Err, tc.err, tc.reason)
				return
			}
			require.NoError(t, r.Err)
			require.True(t, r.Accepted)
		})
	}
}

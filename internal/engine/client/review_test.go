package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/sample"
)

// reviewed returns what Review makes of answers.
func reviewed(t *testing.T, rights []catalog.Right, answers http.RoundTripper) ([]Denial, error) {
	t.Helper()
	link, err := Connect(&rest.Config{Host: "https://api", Transport: answers}, sample.DiscardLog())
	require.NoError(t, err)
	return Review(t.Context(), link, link.As("op", nil), rights)
}

// TestReview: only an API server's clear no is a denial.
func TestReview(t *testing.T) {
	const asked = `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"list"}},"status":`
	for name, tc := range map[string]struct {
		reason string
		code   int
		body   string
		denied bool
		err    string
	}{
		"Allowed":        {"", 201, asked + `{"allowed":true}}`, false, ""},
		"Allowed though": {"one of several authorizers has failed, another one allows it", 201, asked + `{"allowed":true,"evaluationError":"timeout"}}`, false, ""},
		"No opinion":     {"RBAC allows, and never denies", 201, asked + `{"allowed":false}}`, true, ""},
		"Denied":         {"a webhook has said no", 201, asked + `{"allowed":false,"denied":true,"evaluationError":"some other has failed"}}`, true, ""},
		"Evaluation":     {"an authorizer couldn't be asked: a request would be answered with 500", 201, asked + `{"allowed":false,"evaluationError":"timeout"}}`, false, "timeout"},
		"Forbidden":      {"a cluster may forbid reviews", 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`, false, "no"},
		"Not served":     {"it isn't a kube-apiserver", 404, `404 page not found`, false, "could not find the requested resource"},
		"Page":           {"a proxy asks for a password", 200, `<html>`, false, "couldn't get version/kind"},
		"Success":        {"a proxy answers for the API server", 200, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, false, "isn't that of a Kubernetes API server"},
		"Empty":          {"a proxy answers for the API server", 200, `{}`, false, "isn't that of a Kubernetes API server"},
	} {
		t.Run(name, func(t *testing.T) {
			right := catalog.Right{Verb: "list", Resource: "configmaps"}
			denied, err := reviewed(t, []catalog.Right{right}, answering(func(*http.Request) *http.Response { return answer(tc.code, tc.body) }))
			if tc.denied {
				require.Equal(t, []Denial{{Right: right}}, denied, tc.reason)
			} else {
				require.Empty(t, denied, tc.reason)
			}
			if tc.err == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.err, tc.reason)
			}
		})
	}
}

// TestReview_Asks: a review is of exactly the request that will be made.
func TestReview_Asks(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]authorizationv1.ResourceAttributes{}
	rights := []catalog.Right{
		{Verb: "watch", Group: "apps", Resource: "deployments", Namespace: "ns", Selector: "a=b,c"},
		{Verb: "update", Group: "example.com", Resource: "parents/status"},
		{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "ns", Name: "op"},
	}
	denied, err := reviewed(t, rights, answering(func(req *http.Request) *http.Response {
		var review authorizationv1.SelfSubjectAccessReview
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(body, &review))
		mu.Lock()
		defer mu.Unlock()
		asked[review.Spec.ResourceAttributes.Verb] = *review.Spec.ResourceAttributes
		review.Status.Reason = "because of " + review.Spec.ResourceAttributes.Verb
		body, err = json.Marshal(review)
		require.NoError(t, err)
		return answer(201, string(body))
	}))
	require.NoError(t, err)
	require.Equal(t, []Denial{{rights[0], "because of watch"}, {rights[1], "because of update"}, {rights[2], "because of get"}}, denied, "in the given order")
	require.Equal(t, map[string]authorizationv1.ResourceAttributes{
		"watch": {
			Verb: "watch", Group: "apps", Resource: "deployments", Namespace: "ns",
			LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a=b,c"},
		},
		"update": {Verb: "update", Group: "example.com", Resource: "parents", Subresource: "status"},
		"get":    {Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "ns", Name: "op"},
	}, asked)
}

// TestReview_Refused: an API server that refuses reviews isn't asked again.
func TestReview_Refused(t *testing.T) {
	var asked atomic.Int64
	_, err := reviewed(t, make([]catalog.Right, 200), answering(func(*http.Request) *http.Response {
		asked.Add(1)
		return answer(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no reviews here"}`)
	}))
	require.EqualError(t, err, "no reviews here")
	require.LessOrEqual(t, asked.Load(), int64(reviewsAtOnce))
}

// TestReview_Fails: an API server that fails to answer one review may answer the others.
func TestReview_Fails(t *testing.T) {
	rights := make([]catalog.Right, 50)
	for i := range rights {
		rights[i].Verb = fmt.Sprint("verb", i)
	}
	synctest.Test(t, func(t *testing.T) {
		denied, err := reviewed(t, rights, answering(func(req *http.Request) *http.Response {
			body, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			if strings.Contains(string(body), `"verb0"`) {
				return answer(500, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcd has no leader"}`)
			}
			<-time.After(time.Millisecond) // in the bubble: most are asked for after that answer
			return answer(201, string(body))
		}))
		require.EqualError(t, err, "etcd has no leader")
		require.Len(t, denied, 49)
	})
}

// TestReview_Ends: an API server that doesn't answer is waited for no longer than 5
// seconds. What it has said before counts, and the rights that end a start come first.
func TestReview_Ends(t *testing.T) {
	rights := make([]catalog.Right, 200)
	for i := range rights {
		rights[i].Verb = "get"
	}
	for i := range 10 {
		rights[190+i] = catalog.Right{Verb: "list", Required: true}
	}
	synctest.Test(t, func(t *testing.T) {
		s := &stalling{}
		begin := time.Now()
		denied, err := reviewed(t, rights, s)
		require.ErrorContains(t, err, "context deadline exceeded")
		require.Equal(t, reviewTimeout, time.Since(begin))
		require.Len(t, denied, 10)
		require.Equal(t, int64(10+reviewsAtOnce), s.asked.Load())
	})
}

// A stalling is an API server that answers reviews about lists alone.
type stalling struct{ asked atomic.Int64 }

func (s *stalling) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(body), `"verb":"list"`) {
		return answer(201, string(body)), nil
	}
	<-req.Context().Done()
	return nil, req.Context().Err()
}

package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A deaf transport answers every DELETE with 200 and a body of its own, and deletes
// nothing.
type deaf struct {
	next http.RoundTripper
	body string
	asks int
}

func (d *deaf) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodDelete {
		return d.next.RoundTrip(req)
	}
	d.asks++
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(d.body)), ContentLength: int64(len(d.body)),
	}, nil
}

// A delete is answered with success and deletes nothing. The operator tells of it, and
// tries less and less often.
func TestUndeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		body     string
		recreate bool
		told     string
	}{
		"SignInPage":         {"<html>sign in</html>", false, "isn't a Kubernetes API server's"},
		"SignInPageRecreate": {"<html>sign in</html>", true, "isn't a Kubernetes API server's"},
		"NoKind":             {`{"ok":true}`, false, "isn't a Kubernetes API server's"},
		"Failure":            {`{"kind":"Status","apiVersion":"v1","status":"Failure"}`, false, "is a Status that doesn't"},
		"LaterRecreate":      {`{"kind":"Status","apiVersion":"v1","status":"Success"}`, true, "still has it"},
		"Later":              {`{"kind":"Status","apiVersion":"v1","status":"Success"}`, false, "still has it"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				rest := server.RESTConfig()
				d := &deaf{next: server, body: tc.body}
				rest.Transport = d
				cfg := rig.Config()
				if tc.recreate {
					cfg.Children[0].Strategy = config.Recreate
				}
				r := rig.StartWith(t, server, cfg, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if req.Parent.Generation() > 1 && !tc.recreate {
						return &handler.SyncResponse{}, nil
					}
					return rig.Copier(ctx, req)
				}), manager.Options{RESTConfig: rest})
				r.Create("one", "v1")
				rig.Elapse(time.Second)
				r.SetSpec("one", "v2")
				rig.Elapse(time.Minute)
				require.NotEmpty(t, r.Errors("one"))
				require.ErrorContains(t, r.Errors("one")[0], tc.told)
				rig.Elapse(time.Hour)
				require.Less(t, d.asks, 150)
				require.Less(t, len(server.Requests()), 800)
				require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
				r.Stop()
			})
		})
	}
}

// A polite transport answers every PATCH of a parent as if the finalizers were off, and
// changes nothing.
type polite struct {
	next http.RoundTripper
	on   atomic.Bool
}

func (p *polite) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPatch || !p.on.Load() {
		return p.next.RoundTrip(req)
	}
	read, err := http.NewRequestWithContext(req.Context(), http.MethodGet, req.URL.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.next.RoundTrip(read)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	delete(object["metadata"].(map[string]any), "finalizers")
	if body, err = json.Marshal(object); err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// A parent that was let go by the answer, and is still there, isn't forgotten.
func TestLetGo_AndStillThere(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		p := &polite{next: server}
		rest := server.RESTConfig()
		rest.Transport = p
		cfg := rig.Config()
		cfg.Finalizer = config.FinalizerAlways
		r := rig.StartWith(t, server, cfg, handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: rest})
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		p.on.Store(true)
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(sample.ParentType(), "one"))
		require.Contains(t, r.Logs.String(), "is still there")
		require.Less(t, r.Passes(), 30)
		p.on.Store(false)
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(sample.ParentType(), "one"))
		r.Stop()
	})
}

// A stale cache stands between the operator and the API server: it has a child that is
// gone, so that a create is answered with a conflict, and a read with the child. Nobody
// has asked for the passes that follow, and nothing of what they do has an effect.
func TestRestless(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rest := server.RESTConfig()
		s := &stale{next: server}
		rest.Transport = s
		r := rig.StartWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: rest})
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		child, err := r.Get(k8s.ConfigMap, "one").MarshalJSON()
		require.NoError(t, err)
		s.child.Store(string(child))
		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("one")))
		rig.Elapse(2 * time.Second)
		require.Less(t, s.asks.Load(), int32(2*35), "ten passes at once, then ten a second")
		rig.Elapse(time.Hour)
		require.Less(t, s.asks.Load(), int32(2*60), "throttled")
		require.NotEmpty(t, slicesOf(recorded(r), "ConflictLoop"))
		require.Contains(t, slicesOf(recorded(r), "ConflictLoop")[0], "ConfigMap ns/one: created or deleted again and again")

		s.child.Store("")
		rig.Elapse(15 * time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
		r.Stop()
	})
}

// A stale transport has a ConfigMap that the API server no longer has.
type stale struct {
	next  http.RoundTripper
	child atomic.Value // the object as text; empty: it has none
	asks  atomic.Int32 // requests that it has answered
}

func (s *stale) RoundTrip(req *http.Request) (*http.Response, error) {
	child, _ := s.child.Load().(string)
	if child == "" || !strings.Contains(req.URL.Path, "/configmaps") || req.URL.Query().Get("watch") != "" {
		return s.next.RoundTrip(req)
	}
	s.asks.Add(1)
	code, body := http.StatusOK, child
	if req.Method == http.MethodPost {
		code, body = http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409,"message":"already exists"}`
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

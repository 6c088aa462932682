package security

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// A windowLooker looks through the window of an operator, and keeps all that it is told.
type windowLooker struct {
	t       *testing.T
	address string
	kit     *testkit.Kit

	mu   sync.Mutex
	text strings.Builder
}

// follow keeps what a stream tells until it ends, or the function that follow returns is called.
func (l *windowLooker) follow(path string) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.address+path, nil)
		if err != nil {
			return
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(l, resp.Body)
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (l *windowLooker) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *windowLooker) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// of returns the query about a parent.
func (l *windowLooker) of(name string) string {
	return "?" + url.Values{"namespace": {l.kit.Namespace}, "name": {name}}.Encode()
}

// fetch keeps an answer that ends by itself, and returns it.
func (l *windowLooker) fetch(path string) string {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "http://"+l.address+path, nil)
	require.NoError(l.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(l.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(l.t, err)
	require.Equal(l.t, http.StatusOK, resp.StatusCode, "%s", body)
	_, _ = l.Write(body)
	return string(body)
}

// spilling is a handler whose parents have a Secret: one that is as it should be, one that somebody changes back,
// one that the API server refuses, one that a plan would change.
func spilling(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	child := secret("of-"+name, "1")
	switch {
	case name == "refused":
		child["stringData"] = map[string]any{"not a key!": canary}
	case name == "planned" && handler.IsPlan(ctx):
		child = secret("of-"+name, "2")
	}
	return &handler.SyncResponse{Children: []any{child}}, nil
}

// Nothing that is seen through the window has a value of a Secret: neither a page, nor a stream, nor a
// recording.
func TestWindow_NoValueOfASecret(t *testing.T) {
	t.Parallel()
	l := &windowLooker{t: t, address: plane.FreeAddress(t)}
	l.kit = testkit.NewWithOptions(t, cluster, operator("glazier"), handler.SyncFunc(spilling), testkit.KitOptions{Runner: runner.Options{WindowAddress: l.address}})
	for _, name := range []string{"good", "fought", "refused", "planned"} {
		p := parent(name, map[string]any{"now": "1"})
		meta, _ := p["metadata"].(map[string]any)
		meta["annotations"] = map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"data":"` + canary + `"}`}
		l.kit.Create(p)
	}
	for _, name := range []string{"good", "fought", "planned"} {
		l.kit.EventuallyExists(secret("of-"+name, "1"), patience)
	}
	stops := []func(){l.follow("/window/overview")}
	for _, name := range []string{"good", "fought", "refused", "planned"} {
		stops = append(stops, l.follow("/window/parent"+l.of(name)))
	}
	for n := range 8 {
		l.kit.Update(secret("of-fought", fmt.Sprint("theirs ", n)))
		l.kit.Update(parent("good", map[string]any{"now": fmt.Sprint(n)}))
	}
	eventually(t, "the loop is told of", func() bool { return strings.Contains(l.said(), "is written again and again") })
	eventually(t, "the refusal is told of", func() bool { return strings.Contains(l.said(), `"failing"`) })
	eventually(t, "the explanations are there", func() bool { return strings.Count(l.said(), "event: explanation") >= 4 })
	require.Contains(t, l.fetch("/window/plan"), `"path":"data.password"`)
	for _, name := range []string{"good", "fought", "planned"} {
		require.Contains(t, l.fetch("/window/recording"+l.of(name)), "of-"+name)
	}
	for _, stop := range stops {
		stop()
	}
	require.Contains(t, l.said(), "of-good")
	require.NotContains(t, l.said(), "panicked")
	require.NotEmpty(t, l.kit.HandlerErrors(parent("refused", nil)))
	noCanary(t, "what is seen through the window", l.said())
}

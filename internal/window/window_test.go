package window

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/view"
)

// served returns a window on a socket, as the manager serves it.
func served(t *testing.T, source Source, change func(server *http.Server)) (*Window, *httptest.Server) {
	t.Helper()
	w, _ := opened(t, source)
	server := httptest.NewUnstartedServer(w)
	server.Config.WriteTimeout = time.Minute
	if change != nil {
		change(server.Config)
	}
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(w.Close) // before the server's
	return w, server
}

// fetch asks for a path by a connection of its own.
func fetch(t *testing.T, server *httptest.Server, path string) *http.Response {
	t.Helper()
	transport := &http.Transport{}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	})
	return resp
}

// Of a thousand streams, so many are open as there may be, all others are told to come again, and Close
// ends them.
func TestSockets_Many(t *testing.T) {
	source := newSource()
	source.run("sites", many(100)...)
	w, server := served(t, source, nil)
	var open, refused atomic.Int32
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	defer client.CloseIdleConnections()
	places := make(chan struct{}, 100) // of those that aren't open
	paths := []string{overviewPath, parentPath, overviewPath, "/window/overview?operator=shops"}
	for i := range 1000 {
		places <- struct{}{}
		wg.Go(func() { // until Close
			resp, err := client.Get(server.URL + paths[i%len(paths)])
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				open.Add(1)
				<-places
				_, _ = io.Copy(io.Discard, resp.Body) // it may be cut
				return
			case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "5":
				refused.Add(1)
			default:
				t.Error(resp.Status)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			<-places
		})
	}
	for range cap(places) { // all have an answer
		places <- struct{}{}
	}
	require.EqualValues(t, maxStreams, open.Load())
	require.EqualValues(t, 1000-maxStreams, refused.Load())
	w.Close()
	wg.Wait()
	require.Empty(t, w.mu.open)
	require.True(t, w.hubs["sites"].idle())
	require.Equal(t, source.taps.Load(), source.releases.Load())
}

// Streams that end make room for others.
func TestSockets_Room(t *testing.T) {
	w, server := served(t, newSource(), nil)
	w.opts.maxStreams = 1
	first := fetch(t, server, overviewPath)
	require.Equal(t, http.StatusOK, first.StatusCode)
	for _, path := range []string{overviewPath, parentPath, planPath, recordingPath} {
		require.Equal(t, http.StatusServiceUnavailable, fetch(t, server, path).StatusCode, path)
	}
	require.Equal(t, http.StatusOK, fetch(t, server, "/").StatusCode, "the page isn't counted")
	require.NoError(t, first.Body.Close())
	require.Eventually(t, func() bool { return fetch(t, server, recordingPath).StatusCode == http.StatusOK }, 10*time.Second, 10*time.Millisecond)
}

// A stream lasts longer than the server lets a request, to be read or answered.
func TestSockets_Timeouts(t *testing.T) {
	for name, proto := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newSource()
			source.run("sites", shop("a", ""))
			w, _ := opened(t, source)
			server := httptest.NewUnstartedServer(w)
			server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
			server.EnableHTTP2 = proto
			server.StartTLS()
			t.Cleanup(server.Close)
			t.Cleanup(w.Close)
			resp, err := server.Client().Get(server.URL + overviewPath)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, proto, resp.ProtoMajor == 2)
			figures, lines := 0, bufio.NewScanner(resp.Body)
			for figures < 2 && lines.Scan() {
				if lines.Text() == "event: figures" {
					figures++
				}
			}
			require.Equal(t, 2, figures, "it was still there two seconds later")
		})
	}
}

// A client that takes nothing is cut by Close, though its socket is full.
func TestSockets_Stuck(t *testing.T) {
	source := newSource()
	full := make(chan struct{})
	var last atomic.Int64
	source.plan = func(ctx context.Context, found func(view.Planned, int)) error {
		big := view.Planned{Name: "a", Error: strings.Repeat("x", 1<<20)}
		stop := make(chan struct{})
		go func() { // ends with the plan
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					if at := last.Load(); at != 0 && time.Now().UnixNano()-at > int64(300*time.Millisecond) {
						close(full)
						return
					}
				}
			}
		}()
		defer close(stop)
		for ctx.Err() == nil {
			last.Store(time.Now().UnixNano())
			found(big, 1)
		}
		return ctx.Err()
	}
	w, server := served(t, source, nil)
	fetch(t, server, planPath)
	<-full
	began := time.Now()
	w.Close()
	require.Less(t, time.Since(began), patience/2)
}

// What is cut isn't taken for the whole.
func TestSockets_CutFile(t *testing.T) {
	source := newSource()
	source.record = func(_ context.Context, to io.Writer) error {
		_, err := io.Copy(to, bytes.NewReader(make([]byte, maxRecording)))
		return err
	}
	w, server := served(t, source, nil)
	resp := fetch(t, server, recordingPath)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, fmt.Sprint(maxRecording), resp.Header.Get("Content-Length"))
	w.Close()
	_, err := io.Copy(io.Discard, resp.Body)
	require.Error(t, err)
}

// A client that goes is noticed, whatever it asked for.
func TestSockets_Gone(t *testing.T) {
	source := newSource()
	source.plan = func(ctx context.Context, _ func(view.Planned, int)) error {
		<-ctx.Done()
		return ctx.Err()
	}
	source.know("shop/a", family("1", 0))
	w, server := served(t, source, nil)
	for _, path := range []string{overviewPath, parentPath, planPath} {
		resp := fetch(t, server, path)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.mu.open) == 0
	}, 10*time.Second, 10*time.Millisecond)
	require.True(t, w.hubs["sites"].idle())
	require.Empty(t, w.plan)
	require.EqualValues(t, 1, source.releases.Load())
}

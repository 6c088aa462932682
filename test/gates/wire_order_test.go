package gates

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestWire: events of existing objects arrive at once, one with each Read. Later ones wait until they are released.
func TestWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := io.Pipe()
		w := newWire()
		w.watches = roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: server}, nil
		})
		w.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		}))
		const (
			existing = `{"type":"ADDED","object":{"name":"old"}}` + "\n"
			complete = `{"type":"BOOKMARK","object":{"annotations":{"k8s.io/initial-events-end":"true"}}}` + "\n"
			created  = `{"type":"ADDED","object":{"name":"new"}}` + "\n"
			changed  = `{"type":"MODIFIED","object":{"name":"new"}}` + "\n"
		)
		watch := send(t, w, http.MethodGet, "https://host/api/v1/namespaces/ns/configmaps?sendInitialEvents=true&watch=true")
		reads := make(chan string, 10)
		go func() { // ends with the body
			data := make([]byte, 1000)
			for {
				n, err := watch.Body.Read(data)
				if err != nil {
					close(reads)
					return
				}
				reads <- string(data[:n])
			}
		}()
		arrives := func(reason string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for len(reads) > 0 {
				got = append(got, <-reads)
			}
			require.Equal(t, want, got, reason)
		}
		write := func(text string) {
			_, err := io.WriteString(client, text)
			require.NoError(t, err)
			synctest.Wait()
		}
		write(existing + existing + complete)
		arrives("the first list isn't held back", existing, existing, complete)
		require.Zero(t, w.owed)

		made := send(t, w, http.MethodPost, "https://host/api/v1/namespaces/ns/configmaps")
		require.Equal(t, 1, w.underWay)
		write(created)
		require.Equal(t, -1, w.owed[configMaps], "the event is first")
		require.NoError(t, made.Body.Close())
		require.Zero(t, w.owed[configMaps], "the response and its event")
		require.Zero(t, w.underWay)
		write(changed + changed[:10])
		arrives("events are held back")
		require.True(t, w.release(1))
		arrives("the oldest", created)
		require.True(t, w.release(0))
		arrives("all that are complete", changed)
		require.False(t, w.release(0), "a part of an event isn't released")
		write(changed[10:])
		require.True(t, w.release(0))
		arrives("the rest of it has come", changed)

		require.NoError(t, watch.Body.Close())
		_, open := <-reads
		require.False(t, open, "a Read ends with the body")
		require.Len(t, w.slabs, types)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func send(t *testing.T, w *wire, method, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	resp, err := w.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	watchName = "frame of watch ConfigMap"
	frame1    = `{"type":"ADDED","object":{"metadata":{"name":"a"}}}` + "\n"
	frame2    = `{"type":"DELETED","object":{"metadata":{"name":"a"}}}` + "\n"
	bookmark  = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}` + "\n"
)

// A closer notes that it was closed.
type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

// watchOf returns the body of a watch that brings a text, for a process that meets faults.
func watchOf(ctx context.Context, text string, faults ...fault) (*watchBody, *closer) {
	under := &closer{Reader: strings.NewReader(text)}
	return &watchBody{
		process: scripted(faults...), ctx: ctx, name: watchName,
		under: under, frames: bufio.NewReader(under), closed: make(chan struct{}),
	}, under
}

func met(n int, outcome string) fault { return fault{Name: watchName, N: n, Outcome: outcome} }

func TestFrames(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, text string
		fault        fault
		want, error  string // empty: it ends as the server's answer does
		took         time.Duration
	}{
		"Whole":     {"frames pass", frame1 + frame2, fault{}, frame1 + frame2, "", 0},
		"Nothing":   {"there are none", "", fault{}, "", "", 0},
		"Late":      {"a frame is late", frame1 + frame2, fault{Name: watchName, N: 2, Outcome: only, Delay: 3 * time.Second}, frame1 + frame2, "", 3 * time.Second},
		"End":       {"the watch ends in place of the frame", frame1 + frame2, met(2, frameEnd), frame1, "", 0},
		"EndAtOnce": {"the first frame may be the one", frame1 + frame2, met(1, frameEnd), "", "", 0},
		"Half":      {"half of it arrives", frame1 + frame2, met(2, frameHalf), frame1 + frame2[:len(frame2)/2], "unexpected EOF", 0},
		"HalfLate":  {"half of it arrives late", frame1, fault{Name: watchName, N: 1, Outcome: frameHalf, Delay: time.Second}, frame1[:len(frame1)/2], "unexpected EOF", time.Second},
		"Hang":      {"the client finds out by its ping", frame1 + frame2, met(2, frameHang), frame1, "client connection lost", bubblePace().hang},
		"Bookmark":  {"a bookmark isn't counted, so that the others have the same numbers in each run", bookmark + frame1 + bookmark + frame2, met(2, frameEnd), bookmark + frame1 + bookmark, "", 0},
		"Others":    {"another watch has its own", frame1, fault{Name: "frame of watch Secret", N: 1, Outcome: frameEnd}, frame1, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := watchOf(t.Context(), tc.text, tc.fault)
				begin := time.Now()
				read, err := io.ReadAll(b)
				require.Equal(t, tc.want, string(read), tc.reason)
				if tc.error == "" {
					require.NoError(t, err, tc.reason)
				} else {
					require.EqualError(t, err, tc.error, tc.reason)
				}
				require.Equal(t, tc.took, time.Since(begin), tc.reason)
				n, err := b.Read(make([]byte, 1))
				require.Zero(t, n, "what has ended stays so")
				require.Error(t, err, "what has ended stays so")
			})
		})
	}
}

func TestFramesBySmallReads(t *testing.T) {
	b, _ := watchOf(t.Context(), frame1+frame2, met(2, frameHalf))
	var read []byte
	for one := make([]byte, 7); ; {
		n, err := b.Read(one)
		read = append(read, one[:n]...)
		if err != nil {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			break
		}
	}
	require.Equal(t, frame1+frame2[:len(frame2)/2], string(read), "a reader may take as little as it likes at a time")
}

func TestFrameGone(t *testing.T) {
	b, _ := watchOf(t.Context(), frame1+frame2, met(2, frameGone))
	read, err := io.ReadAll(b)
	require.NoError(t, err, "the server ends the watch")
	rest, ok := strings.CutPrefix(string(read), frame1)
	require.True(t, ok, "the frame before it arrives")
	var event struct {
		Type   string
		Object metav1.Status
	}
	require.NoError(t, json.Unmarshal([]byte(rest), &event))
	require.Equal(t, "ERROR", event.Type)
	require.True(t, strings.HasSuffix(rest, "\n"), "it is a frame")
	require.True(t, apierrors.IsResourceExpired(&apierrors.StatusError{ErrStatus: event.Object}), "a client has to list again")
	require.EqualValues(t, 410, event.Object.Code)
}

func TestFramesThatHang(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		end    func(b *watchBody)
		error  string
	}{
		"Closed": {"the client doesn't want it any more", func(b *watchBody) { _ = b.Close() }, "read on closed body"},
		"Killed": {"nobody reads any more", func(b *watchBody) { b.kill() }, errDead.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, _ := watchOf(t.Context(), frame1, met(1, frameHang))
				time.AfterFunc(time.Second, func() { tc.end(b) })
				begin := time.Now()
				_, err := io.ReadAll(b)
				require.EqualError(t, err, tc.error, tc.reason)
				require.Equal(t, time.Second, time.Since(begin), tc.reason)
			})
		})
	}
}

func TestFramesOfADeadProcess(t *testing.T) {
	b, _ := watchOf(t.Context(), frame1)
	b.kill()
	read, err := io.ReadAll(b)
	require.ErrorIs(t, err, errDead, "it gets to know nothing more")
	require.Empty(t, read)
}

func TestWatchBodyCloses(t *testing.T) {
	b, under := watchOf(t.Context(), frame1)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "a client may close it twice")
	require.Equal(t, 2, under.closed, "the server's answer is closed along")
}

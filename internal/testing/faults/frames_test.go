package faults

import (
	"encoding/json"
	"io"
	"net/http"
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

// watchOf returns the body of a watch that brings a text, to a process that meets faults.
func watchOf(t *testing.T, text string, script ...Fault) (*http.Response, *Process, *closer) {
	t.Helper()
	under := &closer{Reader: strings.NewReader(text)}
	l := linkTo(func(*Exchange, Fault) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: under}, nil
	}, script...)
	x := exchangeOf(t, http.MethodGet, "/api/v1/configmaps?watch=true", "")
	resp, err := l.Carry(x, Fault{})
	require.NoError(t, err)
	return resp, l.Process, under
}

func met(n int, outcome string) Fault { return Fault{Name: watchName, N: n, Outcome: outcome} }

func TestFrames(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, text string
		fault        Fault
		want, error  string // empty: it ends as the server's answer does
		took         time.Duration
	}{
		"Whole":     {"frames pass", frame1 + frame2, Fault{}, frame1 + frame2, "", 0},
		"Nothing":   {"there are none", "", Fault{}, "", "", 0},
		"Late":      {"a frame is late", frame1 + frame2, Fault{Name: watchName, N: 2, Outcome: Late, Delay: 3 * time.Second}, frame1 + frame2, "", 3 * time.Second},
		"End":       {"the watch ends in place of the frame", frame1 + frame2, met(2, End), frame1, "", 0},
		"EndAtOnce": {"the first frame may be the one", frame1 + frame2, met(1, End), "", "", 0},
		"Half":      {"half of it arrives", frame1 + frame2, met(2, Half), frame1 + frame2[:len(frame2)/2], "unexpected EOF", 0},
		"HalfLate":  {"half of it arrives late", frame1, Fault{Name: watchName, N: 1, Outcome: Half, Delay: time.Second}, frame1[:len(frame1)/2], "unexpected EOF", time.Second},
		"Hang":      {"the client finds out by its ping", frame1 + frame2, met(2, Hang), frame1, "client connection lost", hang},
		"Again":     {"two frames are told again", frame1 + frame2 + frame1, met(1, Again(2)), frame1 + frame2 + frame1 + frame2 + frame1, "", 0},
		"AgainOne":  {"or one", frame1 + frame2, met(2, Again(1)), frame1 + frame2 + frame2, "", 0},
		"AgainEnd":  {"what never came isn't told again", frame1 + frame2, met(2, Again(2)), frame1 + frame2, "", 0},
		"AgainMark": {"a bookmark isn't told again: it would tell of a state that the client doesn't have", frame1 + bookmark + frame2, met(1, Again(2)), frame1 + bookmark + frame2 + frame1 + frame2, "", 0},
		"Bookmark":  {"whether a bookmark meets anything is for the link's owner to say", bookmark + frame1 + bookmark + frame2, met(2, End), bookmark + frame1 + bookmark, "", 0},
		"Others":    {"another watch has its own", frame1, Fault{Name: "frame of watch Secret", N: 1, Outcome: End}, frame1, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resp, _, _ := watchOf(t, tc.text, tc.fault)
				begin := time.Now()
				read, err := io.ReadAll(resp.Body)
				require.Equal(t, tc.want, string(read), tc.reason)
				if tc.error == "" {
					require.NoError(t, err, tc.reason)
				} else {
					require.EqualError(t, err, tc.error, tc.reason)
				}
				require.Equal(t, tc.took, time.Since(begin), tc.reason)
				n, err := resp.Body.Read(make([]byte, 1))
				require.Zero(t, n, "what has ended stays so")
				require.Error(t, err, "what has ended stays so")
			})
		})
	}
}

func TestFramesBySmallReads(t *testing.T) {
	resp, _, _ := watchOf(t, frame1+frame2, met(2, Half))
	var read []byte
	for one := make([]byte, 7); ; {
		n, err := resp.Body.Read(one)
		read = append(read, one[:n]...)
		if err != nil {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			break
		}
	}
	require.Equal(t, frame1+frame2[:len(frame2)/2], string(read), "a reader may take as little as it likes at a time")
}

func TestFrameGone(t *testing.T) {
	resp, _, _ := watchOf(t, frame1+frame2, met(2, Gone))
	read, err := io.ReadAll(resp.Body)
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
		end    func(p *Process, body io.Closer)
		error  string
	}{
		"Closed": {"the client doesn't want it any more", func(_ *Process, body io.Closer) { _ = body.Close() }, "read on closed body"},
		"Killed": {"nobody reads any more", func(p *Process, _ io.Closer) { p.Kill() }, ErrDead.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resp, p, _ := watchOf(t, frame1, met(1, Hang))
				time.AfterFunc(time.Second, func() { tc.end(p, resp.Body) })
				begin := time.Now()
				_, err := io.ReadAll(resp.Body)
				require.EqualError(t, err, tc.error, tc.reason)
				require.Equal(t, time.Second, time.Since(begin), tc.reason)
			})
		})
	}
}

func TestFramesOfADeadProcess(t *testing.T) {
	resp, p, _ := watchOf(t, frame1)
	p.Kill()
	read, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, ErrDead, "it gets to know nothing more")
	require.Empty(t, read)
}

func TestWatchBodyCloses(t *testing.T) {
	resp, _, under := watchOf(t, frame1)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close(), "a client may close it twice")
	require.Equal(t, 2, under.closed, "the server's answer is closed along")
}

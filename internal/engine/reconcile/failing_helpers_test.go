package reconcile_test

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// failingFor is how long the tests below watch a handler that fails.
const failingFor = time.Minute

var errBroken = errors.New("broken")

// A deletingError asks for the parent's children to be deleted, as failable's
// DeleteChildrenOnError does.
type deletingError struct{ error }

func (deletingError) DeleteChildren() bool { return true }

// A callLog holds when a handler was called. It is safe for concurrent use.
type callLog struct {
	mu struct {
		sync.Mutex
		times []time.Time
	}
}

// note notes a call, and returns how many there were.
func (c *callLog) note() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.times = append(c.mu.times, time.Now())
	return len(c.mu.times)
}

// times returns the times of the calls after the first skip.
func (c *callLog) times(skip int) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.times[skip:])
}

func (c *callLog) len() int { return len(c.times(0)) }

// A pace says when a handler that has failed is called again.
type pace int

const (
	byBackoff   pace = iota // 100 ms, doubled and jittered each time
	byDelay                 // a second, which the response asks for
	never                   // no second call
	byWatchOnce             // one more call, once the watch should have told of a newer state
)

// requirePace checks the times of all calls of a handler that keeps failing.
func requirePace(t *testing.T, want pace, calls []time.Time, reason string) {
	t.Helper()
	switch want {
	case never:
		require.Len(t, calls, 1, reason)
	case byWatchOnce:
		require.Len(t, calls, 2, reason)
		require.Equal(t, 2*time.Second, calls[1].Sub(calls[0]), reason)
	case byDelay:
		require.Len(t, calls, int(failingFor/time.Second)+1, reason)
		for i := range calls[1:] {
			require.Equal(t, time.Second, calls[i+1].Sub(calls[i]), reason)
		}
	case byBackoff:
		require.Greater(t, len(calls), 8, reason)
		for i, least := 0, 100*time.Millisecond; i+1 < len(calls); i, least = i+1, 2*least {
			gap := calls[i+1].Sub(calls[i])
			require.GreaterOrEqual(t, gap, least, "%s: after failure %d", reason, i+1)
			require.LessOrEqual(t, gap, least*3/2, "%s: after failure %d", reason, i+1)
		}
	}
}

// statusOf returns the status of the parent "one".
func statusOf(r *rig.Rig) any {
	status, _ := r.Get(sample.ParentType(), "one").Field("status")
	return status
}

// A refusal answers the first updates of a status with an error.
type refusal struct {
	times int // how many updates; negative: all
	err   error
}

func (f *refusal) install(server *fakeapi.Server) {
	left := f.times
	server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
		if req.Subresource != "status" || left == 0 {
			return nil
		}
		left--
		return f.err
	}})
}

// conflict is the answer to an update from an old resourceVersion.
func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Group: "example.com", Resource: "parents"}, "one", errors.New("changed"))
}

// invalid is the answer to a status that the schema doesn't allow.
func invalid() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "invalid",
	}}
}

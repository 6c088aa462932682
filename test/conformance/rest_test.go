package conformance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errors) > 0
}

// said returns what failed, during the test and after it.
func (r *recorder) said(rests *register) string {
	after := rests.finish()
	r.mu.Lock()
	defer r.mu.Unlock()
	if after != nil {
		return fmt.Sprint(r.errors, after)
	}
	return fmt.Sprint(r.errors)
}

// TestSilence plants writes of an operator that ought to be silent. Each must be found.
func TestSilence(t *testing.T) {
	t.Parallel()
	needsAudit(t)
	const never = time.Hour
	for name, tc := range map[string]struct {
		reason string
		plant  time.Duration // after the mark
		idle   time.Duration // for how long the test does nothing after the mark
		acts   bool          // then it acts on the operator; else it ends
		found  bool
	}{
		"RightAfter":       {"The silence begins at the mark.", 0, 0, true, true},
		"BeforeTheAction":  {"An action at once is too early for a loop to show.", time.Second, 0, true, true},
		"SecondsLater":     {"The silence lasts until the action.", 5 * time.Second, 6 * time.Second, true, true},
		"EndOfTheTest":     {"A test that ends at once leaves no gap.", 0, 0, false, true},
		"AfterTheTest":     {"The operator runs on for ten seconds, in which it is watched.", 8 * time.Second, 0, false, true},
		"AfterTheAction":   {"The action may have caused it.", 4 * time.Second, 0, true, false},
		"NoneDuringTheRun": {"A silent operator passes.", never, 0, true, false},
		"NoneAfterTheTest": {"A silent operator passes.", never, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator := "silence-" + fmt.Sprint(time.Now().UnixNano())
			test, rests := &recorder{TB: t}, &register{all: map[*silence]string{}}
			s := newSilence(test, rests, operator)
			ended := false
			s.t.Cleanup(func() { ended = true })
			s.begin(shortSilence, nil)
			planted := plant(t, operator, tc.plant, tc.plant == 0)
			during(t, tc.idle)
			if tc.acts {
				s.acts()
			} else {
				s.leave(true)
			}
			if tc.plant != never {
				require.NoError(t, <-planted)
			}
			if tc.acts {
				s.leave(true)
			}
			found := test.said(rests)
			require.True(t, ended, "the operator ends in the end")
			if tc.found {
				require.Contains(t, found, "create configmaps/default", tc.reason)
			} else {
				require.Equal(t, "[]", found, tc.reason)
			}
		})
	}
}

// TestSilence_Objects finds that what the log doesn't tell is judged with it: once, whenever the silence ends.
func TestSilence_Objects(t *testing.T) {
	t.Parallel()
	needsAudit(t)
	for name, acts := range map[string]bool{"Action": true, "AfterTheTest": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test, rests := &recorder{TB: t}, &register{all: map[*silence]string{}}
			s := newSilence(test, rests, "silence-objects")
			judged := 0
			for range 2 {
				s.begin(0, func() { judged++; s.t.Errorf("another UID") })
			}
			if acts {
				s.acts()
			}
			s.leave(true)
			require.Contains(t, test.said(rests), "another UID")
			require.Equal(t, 2, judged)
		})
	}
}

// plant writes as an operator after a time; at once, it has written when plant returns.
func plant(t *testing.T, operator string, after time.Duration, atOnce bool) <-chan error {
	t.Helper()
	cfg := cluster.RESTConfig()
	cfg.UserAgent = operator + "/planted"
	client := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("default")
	ctx := context.WithoutCancel(t.Context())
	done := make(chan error, 1)
	write := func() {
		made, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "planted-"}}, metav1.CreateOptions{})
		if err == nil {
			err = client.Delete(ctx, made.Name, metav1.DeleteOptions{})
		}
		done <- err
	}
	if atOnce {
		write()
		return done
	}
	timer := time.AfterFunc(after, write)
	t.Cleanup(func() { timer.Stop() })
	return done
}

package rig

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

// Main is the TestMain of a package whose tests meet many errors in bubbles. It runs the
// tests, and fails if they leave a goroutine behind.
func Main(m *testing.M) {
	klog.SetLogger(logr.Discard()) // of client-go, which logs what it makes of broken answers
	goleak.VerifyTestMain(m)
}

// Bubble runs a test in a synctest bubble, in which time passes only when every
// goroutine waits, and then at once.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// Elapse lets d pass, and waits until the operators in the bubble have done what
// falls due until then. No time passes if d isn't positive.
//
// A test doesn't receive from a timer that has expired before. Goroutines of one
// bubble that do so at once break the race detector of Go 1.26: they share the state
// that it keeps of the bubble's timers.
func Elapse(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	synctest.Wait()
}

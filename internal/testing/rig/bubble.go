package rig

import (
	"testing"
	"testing/synctest"
	"time"
)

// Bubble runs a test in a synctest bubble, in which time passes only when every
// goroutine waits, and then at once.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// Elapse lets d pass, and waits until the operators in the bubble have done what
// falls due until then.
func Elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

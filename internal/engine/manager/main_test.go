package manager_test

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// client-go slows down who meets errors, by the time of the last one that
	// anybody in the program has met, which bubbles can't share.
	utilruntime.ErrorHandlers = nil //nolint:reassign // there is no other way
	goleak.VerifyTestMain(m)
}

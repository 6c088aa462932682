package apierror

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotTriedError is the error of a dry run, or of a write, that isn't sent since only reading is
// allowed. It stands for the answer of an API server that takes no dry runs: see
// RefusesDryRun.
type NotTriedError struct{}

// Error says why.
func (NotTriedError) Error() string { return "not sent: only reading is allowed" }

// Status returns what such an API server would answer.
func (e NotTriedError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: e.Error()}
}

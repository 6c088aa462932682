package apierror

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsRefusal says whether an API error names something wrong with the object
// that was sent, so that sending the same object again can't help.
func IsRefusal(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	}
	// etcd's limit comes as a bare 500; the API server's own has a code.
	return strings.Contains(err.Error(), "request is too large")
}

// IsNamespaceTerminating says whether an object couldn't be created because its
// namespace is being deleted.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// RefusesDryRun says whether an admission webhook doesn't take part in dry runs.
// If the webhook declares side effects, the API server itself answers so (400).
// Other webhooks refuse with words and codes of their own.
func RefusesDryRun(err error) bool {
	if status := apierrors.APIStatus(nil); err == nil || !errors.As(err, &status) {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "admission webhook") &&
		(strings.Contains(text, "dry run") || strings.Contains(text, "dry-run") || strings.Contains(text, "dryrun"))
}

// IsNoApply says whether the API server can't take an object by server-side
// apply: two items of a list have the same key, or a field isn't in the schema.
// By an update it takes such a list as it is, and prunes such a field.
func IsNoApply(err error) bool {
	return err != nil && strings.Contains(err.Error(), "failed to create typed patch object")
}

// ImmutableFields returns the fields that can't be changed, according to a 422.
// It returns none for any other error.
func ImmutableFields(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		immutable := cause.Type == metav1.CauseTypeForbidden ||
			strings.Contains(cause.Message, "immutable") || strings.Contains(cause.Message, "may not change") ||
			strings.Contains(cause.Message, "can not be changed") || strings.Contains(cause.Message, "cannot be changed") ||
			strings.Contains(cause.Message, "cannot change")
		if immutable && cause.Field != "" && !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

// A RefusedError is an answer of the API server that would be the same again
// until the object, or what is wanted of it, changes.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the API server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// OnlyRefusals says whether every part of a joined error is a refusedError.
func OnlyRefusals(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !OnlyRefusals(e) {
				return false
			}
		}
		return true
	}
	var refused *RefusedError
	return errors.As(err, &refused)
}

// errNoLease is the error of a write that would start without the lease.
var ErrNoLease = errors.New("the lease wasn't renewed in time, so nothing is written any more")

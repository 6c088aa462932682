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

// IsRefusal says whether an API error says that the object in the request is wrong.
// The same object would be refused again. err must not be nil.
func IsRefusal(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	}
	// If etcd refuses an object for its size, the API server answers 500. Its own limit
	// has a code, which is checked above.
	return strings.Contains(statusMessage(err), "request is too large")
}

// IsNo says whether an API error is the API server's no to what a request asks for: by
// validation, by an admission webhook or a policy, for a quota, or for want of a
// right. The same request may be accepted once something else has changed. A
// conflict (409) is none, nor is an answer that asks for patience or says nothing of
// the request. IsNo returns false for nil.
func IsNo(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500 || IsRefusal(err)
	}
}

// IsRejection reports whether an API error is the API server's no (IsNo) to the object in the request: by validation, by an
// admission webhook or a policy, or for a quota. A missing right is none, nor is a missing object.
func IsRejection(err error) bool {
	if _, lacks := errors.AsType[*ForbiddenError](err); lacks || !IsNo(err) {
		return false
	}
	return !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) && !apierrors.IsUnsupportedMediaType(err) && !IsNamespaceTerminating(err)
}

// IsMissing says whether an API error is the API server's answer that there is no object
// of this name. A 404 that doesn't name the object is none: it may come from a proxy, or
// mean that the type isn't served at the moment. IsMissing returns false for nil.
func IsMissing(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonNotFound {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// IsNamespaceTerminating says whether an object couldn't be created since its
// namespace is being deleted. It returns false for nil.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// RefusesDryRun says whether a request failed since an admission webhook doesn't take
// part in dry runs. For a webhook that declares side effects, the API server answers
// so itself (400). Other webhooks refuse with codes and words of their own.
// RefusesDryRun says so, too, of NotTriedError. It returns false for nil.
func RefusesDryRun(err error) bool {
	if _, untried := errors.AsType[NotTriedError](err); untried {
		return true
	}
	if status := apierrors.APIStatus(nil); err == nil || !errors.As(err, &status) {
		return false
	}
	text := strings.ToLower(statusMessage(err))
	return strings.Contains(text, "admission webhook") &&
		(strings.Contains(text, "dry run") || strings.Contains(text, "dry-run") || strings.Contains(text, "dryrun"))
}

// IsNoApply says whether the API server can't take an object by server-side apply:
// two items of a list have the same key, a field isn't in the schema, the type
// knows no applies, or somebody has written the object in another version of the type, into which it
// can't be converted with all its fields. The same object can be sent as an update, which keeps such a list
// and drops such a field, and for which the API server needs no conversion. IsNoApply returns false for nil.
func IsNoApply(err error) bool {
	if err == nil {
		return false
	}
	text := statusMessage(err)
	return apierrors.IsUnsupportedMediaType(err) || slices.ContainsFunc(noApply(), func(words string) bool { return strings.Contains(text, words) })
}

// noApply returns the words of Kubernetes' fieldmanager, and of structured-merge-diff, for an apply that can't be.
func noApply() []string {
	return []string{
		"failed to create typed patch object", "failed to create typed live object",
		"field not declared in schema", "failed to merge config: ", "failed to prune fields: ", "failed to compare objects: ", "failed to convert old object: ", "failed to convert new object",
	}
}

// ImmutableFields returns the paths of the fields that can't be changed, as a 422
// names them, each once. It returns none for any other error, and for nil.
func ImmutableFields(err error) []string {
	var fields []string
	for _, cause := range causes(err) {
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

// Fields returns the paths of the fields that a 422 names, each once. It returns none for any other error, and for nil.
func Fields(err error) []string {
	var fields []string
	for _, cause := range causes(err) {
		if cause.Field != "" && !slices.Contains(fields, cause.Field) {
			fields = append(fields, cause.Field)
		}
	}
	return fields
}

// ShareCause says whether two requests are refused (422) for the same field in the same
// words, whatever else is wrong with either. So what the requests differ in isn't the
// reason. The object's name is no such field. ShareCause returns false for any other
// error, and for nil.
func ShareCause(a, b error) bool {
	others := causes(b)
	return slices.ContainsFunc(causes(a), func(c metav1.StatusCause) bool {
		return c.Field != "" && !strings.HasPrefix(c.Field, "metadata.name") && slices.Contains(others, c)
	})
}

// causes returns the causes that a 422 tells, none for any other error, and for nil.
func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
		return nil
	}
	return statusCauses(err)
}

// A RefusedError is an answer of the API server that stays the same until something
// changes. To repeat the request at once is of no use.
type RefusedError struct {
	Err error // the API server's answer; not nil
}

// Error returns the text of the API server's answer.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the API server's answer.
func (e *RefusedError) Unwrap() error { return e.Err }

// OnlyRefusals says whether an error is or wraps a *RefusedError. If err joins several
// errors, every one of them must. OnlyRefusals returns false for nil.
func OnlyRefusals(err error) bool {
	only := err != nil
	Each(err, func(err error) {
		_, refused := errors.AsType[*RefusedError](err)
		only = only && refused
	})
	return only
}

// Each calls do with each error that err joins, or with err itself if it joins none.
func Each(err error, do func(error)) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		do(err)
		return
	}
	for _, e := range joined.Unwrap() {
		Each(e, do)
	}
}

// ErrNoLease is the error of a write that wasn't sent since the process no longer
// holds the lease.
var ErrNoLease = errors.New("the lease wasn't renewed in time, so nothing is written any more")

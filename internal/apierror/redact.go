package apierror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A redactedError is an error of a request about a Secret of which only a fixed
// vocabulary is shown: by its text, and to errors.As. The answer itself, any part of
// which may quote a value, is for the functions of this package alone, which decide by
// it.
type redactedError struct {
	shown   error                // an APIStatus if there was an answer
	message string               // of the answer
	causes  []metav1.StatusCause // of the answer, but the fields are ours: see redactedCauses
}

// Error returns the text of what is shown.
func (e *redactedError) Error() string { return e.shown.Error() }

// Unwrap returns what is shown.
func (e *redactedError) Unwrap() error { return e.shown }

// hiddenField takes the place of a field that an answer names and the request doesn't
// have.
const hiddenField = "(hidden)"

// Redacted returns the error of a request without anything that the answer could tell of
// the values in the request or in the object. It keeps the status code, the reason and
// the types of the causes if Kubernetes defines them, and the fields that the request
// itself has. An admission webhook sees the object, and writes what it likes, also where
// no text is expected. Of an error without an answer of the API server, Redacted keeps
// what kind of error it is: it may be about the address of a redirection, or about what
// another server has sent.
//
// The functions of this package see through the result, those of apierrors see what is
// kept. Redacted returns nil for nil.
func Redacted(err error, r Request) error {
	if err == nil {
		return nil
	}
	if done, ok := errors.AsType[*redactedError](err); ok {
		return done
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return &redactedError{shown: withoutAnswer(err), message: err.Error()}
	}
	s := status.Status()
	out := &redactedError{message: s.Message}
	details := &metav1.StatusDetails{}
	if s.Details != nil {
		if s.Details.Name == r.Name {
			details.Name = r.Name
		}
		out.causes, details.Causes = redactedCauses(s.Details.Causes, r)
	}
	shown := metav1.Status{Status: metav1.StatusFailure, Code: knownCode(s.Code), Reason: knownReason(s.Reason), Details: details}
	shown.Message = strings.TrimSpace(fmt.Sprintf("%d %s %s", shown.Code, http.StatusText(int(shown.Code)), shown.Reason))
	if named := names(details.Causes); len(named) > 0 {
		shown.Message += ": " + strings.Join(named, ", ")
	}
	shown.Message += " (the rest of the answer may quote the Secret)"
	out.shown = &apierrors.StatusError{ErrStatus: shown}
	return out
}

// RedactedWarning returns of the text of a warning, with which a request about a Secret was
// answered, what may be shown: that a field is unknown, or there twice, if the request
// itself has the field.
func RedactedWarning(text string, r Request) string {
	for _, what := range []string{"unknown field ", "duplicate field "} {
		quoted, ok := strings.CutPrefix(text, what)
		if !ok {
			continue
		}
		if field, err := strconv.Unquote(quoted); err == nil && field != "" && hasField(r.object(), field) {
			return text
		}
	}
	return "(hidden, since it may quote a Secret)"
}

// withoutAnswer returns what may be shown of an error about a request that the API
// server hasn't answered.
func withoutAnswer(err error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, ErrNoLease, io.ErrUnexpectedEOF, io.EOF} {
		if errors.Is(err, known) {
			return fmt.Errorf("the request failed: %w", known)
		}
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return fmt.Errorf("the request failed: %w", number)
	}
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		return errors.New("the request failed: timeout")
	}
	return errors.New("the request failed, or its answer isn't an API server's (what the error says may quote the Secret)")
}

// redactedCauses returns the causes of an answer twice: for decisions, with the messages
// and with the fields that r has; and to be shown, without the messages, each once, in
// an order that says nothing.
func redactedCauses(causes []metav1.StatusCause, r Request) (inner, shown []metav1.StatusCause) {
	object := r.object()
	for _, c := range causes {
		c.Type = knownCause(c.Type)
		field := c.Field
		if field != "" && !hasField(object, field) {
			c.Field, field = hiddenField, ""
		}
		inner = append(inner, c)
		if seen := (metav1.StatusCause{Type: c.Type, Field: field}); seen != (metav1.StatusCause{}) {
			shown = append(shown, seen)
		}
	}
	slices.SortFunc(shown, func(a, b metav1.StatusCause) int {
		return strings.Compare(a.Field+" "+string(a.Type), b.Field+" "+string(b.Type))
	})
	shown = slices.Compact(shown)
	return inner, shown[:min(len(shown), MaxListed)]
}

// names returns the fields of causes, and the type of a cause that names none, each
// once.
func names(causes []metav1.StatusCause) []string {
	var out []string
	for _, c := range causes {
		name := c.Field
		if name == "" {
			name = string(c.Type)
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// knownCode returns a status code that HTTP defines: code itself, or the one that stands
// for all of its class.
func knownCode(code int32) int32 {
	switch {
	case http.StatusText(int(code)) != "":
		return code
	case code >= 400 && code < 500:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// knownReason returns a reason that Kubernetes defines, "" for any other.
func knownReason(reason metav1.StatusReason) metav1.StatusReason {
	switch reason {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonConflict, metav1.StatusReasonGone, metav1.StatusReasonInvalid, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonStoreReadError, metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonBadRequest,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable, metav1.StatusReasonRequestEntityTooLarge,
		metav1.StatusReasonUnsupportedMediaType, metav1.StatusReasonInternalError, metav1.StatusReasonExpired,
		metav1.StatusReasonServiceUnavailable:
		return reason
	}
	return metav1.StatusReasonUnknown
}

// knownCause returns a type of cause that Kubernetes defines, "" for any other.
func knownCause(cause metav1.CauseType) metav1.CauseType {
	switch cause {
	case metav1.CauseTypeFieldValueNotFound, metav1.CauseTypeFieldValueRequired, metav1.CauseTypeFieldValueDuplicate,
		metav1.CauseTypeFieldValueInvalid, metav1.CauseTypeFieldValueNotSupported, metav1.CauseTypeForbidden, metav1.CauseTypeTooLong,
		metav1.CauseTypeTooMany, metav1.CauseTypeInternal, metav1.CauseTypeTypeInvalid, metav1.CauseTypeUnexpectedServerResponse,
		metav1.CauseTypeFieldManagerConflict, metav1.CauseTypeResourceVersionTooLarge, corev1.NamespaceTerminatingCause:
		return cause
	}
	return ""
}

// statusMessage returns the words of an answer, even of one that was redacted. They are
// to decide by, and never to be shown. The text of any other error is its own.
func statusMessage(err error) string {
	if redacted, ok := errors.AsType[*redactedError](err); ok {
		return redacted.message
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// statusCauses returns the causes of an answer, even of one that was redacted. Of the
// latter, the fields may be shown, but not the messages.
func statusCauses(err error) []metav1.StatusCause {
	if redacted, ok := errors.AsType[*redactedError](err); ok {
		return redacted.causes
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		return status.Status().Details.Causes
	}
	return nil
}

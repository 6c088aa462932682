package runner

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/roperator/roperator/config"
)

// isPermanent says that a handler wrapped err with handler.Permanent.
func isPermanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// A refusedError is an answer of the API server that would be the same again
// until the object or what is wanted of it changes.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// A nameTakenError says that a child's name is held by a foreign object.
type nameTakenError struct {
	what     string // kind and name
	operator string
	holder   string // who has it, if anyone is known to
}

func (e *nameTakenError) Error() string {
	text := fmt.Sprintf("%s: already exists and is not managed by %s", e.what, e.operator)
	if e.holder != "" {
		text += " (" + e.holder + ")"
	}
	return text
}

// An invalidResponseError joins what is wrong with a handler's response.
type invalidResponseError struct{ err error }

func (e *invalidResponseError) Error() string { return "invalid response: " + e.err.Error() }
func (e *invalidResponseError) Unwrap() error { return e.err }

// joined is errors.Join, but its text lists a bounded number of errors: a
// parent may have thousands of children that all fail the same way.
func joined(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	if len(errs) <= maxListed {
		return errors.Join(errs...)
	}
	return &longListError{errs}
}

type longListError struct{ errs []error }

func (e *longListError) Error() string {
	return fmt.Sprintf("%v\nand %d more", errors.Join(e.errs[:maxListed]...), len(e.errs)-maxListed)
}

func (e *longListError) Unwrap() []error { return e.errs }

// reasonOf is the reason of the Event that tells of an error.
func reasonOf(err error, deleting bool) string {
	if _, ok := errors.AsType[*invalidResponseError](err); ok {
		return reasonInvalidResponse
	}
	if _, ok := errors.AsType[*nameTakenError](err); ok {
		return reasonNameConflict
	}
	if deleting {
		return reasonFinalizeFailed
	}
	return reasonSyncFailed
}

// isRefusal says that an API error names something wrong with the object
// itself, so that sending it again can't help.
func isRefusal(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return true
	}
	// etcd's limit comes as a bare 500; the API server's own has a code.
	return strings.Contains(err.Error(), "request is too large")
}

func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// refusesDryRun says that an admission webhook can't take part in a dry run.
// The API server says so itself (400) of a webhook that declares side effects;
// others refuse in words and with codes of their own.
func refusesDryRun(err error) bool {
	if status := apierrors.APIStatus(nil); err == nil || !errors.As(err, &status) {
		return false
	}
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "admission webhook") &&
		(strings.Contains(text, "dry run") || strings.Contains(text, "dry-run") || strings.Contains(text, "dryrun"))
}

// isNoApply says that a desired state can't be put into a server-side apply:
// two items of a list have the same key, or a field isn't in the schema. Other
// writes take the one as it is, and prune the other.
func isNoApply(err error) bool {
	return err != nil && strings.Contains(err.Error(), "failed to create typed patch object")
}

// immutableFields returns the fields that a 422 says can't be changed.
func immutableFields(err error) []string {
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

// describe makes the error of a write fit to be shown: it starts with its
// subject, says what would work, and holds no value of a Secret.
func describe(a *action, err error) error {
	subject := fmt.Sprintf("%s: %s", a.ref, a.verb)
	fields := immutableFields(err)
	if a.kind.secret() {
		err = redacted(err)
	}
	if len(fields) > 0 && a.live != nil && a.kind.child.Strategy != config.Recreate {
		return fmt.Errorf("%s: strategy %s can't change the immutable field %s: %w; strategy Recreate would, and OnDelete would wait until the object is deleted",
			subject, a.kind.child.Strategy, strings.Join(fields, ", "), err)
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// redacted strips an API error of everything that may quote a value, keeping
// its reason and the fields it names.
func redacted(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	if lacks, ok := errors.AsType[*forbiddenError](err); ok {
		return &forbiddenError{redacted(lacks.err), lacks.rule}
	}
	s := status.Status()
	var fields []string
	clean := &apierrors.StatusError{ErrStatus: metav1.Status{Status: s.Status, Code: s.Code, Reason: s.Reason}}
	if s.Details != nil {
		details := *s.Details
		details.Causes = nil
		for _, cause := range s.Details.Causes {
			fields = append(fields, cause.Field)
			details.Causes = append(details.Causes, metav1.StatusCause{Type: cause.Type, Field: cause.Field})
		}
		clean.ErrStatus.Details = &details
	}
	clean.ErrStatus.Message = strings.TrimSpace(fmt.Sprintf("%d %s %s", s.Code, http.StatusText(int(s.Code)), s.Reason))
	if len(fields) > 0 {
		clean.ErrStatus.Message += ": " + strings.Join(fields, ", ")
	}
	clean.ErrStatus.Message += " (the rest of the answer may quote the Secret)"
	return clean
}

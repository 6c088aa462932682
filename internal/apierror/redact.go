package apierror

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Redacted returns an API error without the parts that may quote a value of the
// object. It keeps the code, the reason, the names of the fields, and the rule of a
// *ForbiddenError. An error without an answer of the API server is returned as it is.
func Redacted(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	if lacks, ok := errors.AsType[*ForbiddenError](err); ok {
		return &ForbiddenError{Redacted(lacks.Err), lacks.Rule}
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

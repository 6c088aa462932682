package apierror

import (
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ordered returns the error of a request with its causes sorted by field, in Details and in the text. An API server
// finds what is wrong with a custom resource in another order each time, and the same refusal would be news each time.
// An error of another form is returned as it is.
func Ordered(err error) error {
	status, ok := err.(*apierrors.StatusError) //nolint:errorlint // client-go doesn't wrap it, and what wraps it has a text of its own
	if !ok || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) < 2 {
		return err
	}
	given := status.ErrStatus.Details.Causes
	sorted := slices.Clone(given)
	slices.SortStableFunc(sorted, func(a, b metav1.StatusCause) int {
		return strings.Compare(a.Field+": "+a.Message, b.Field+": "+b.Message)
	})
	if slices.Equal(given, sorted) {
		return err
	}
	out := &apierrors.StatusError{ErrStatus: *status.ErrStatus.DeepCopy()}
	out.ErrStatus.Details.Causes = sorted
	if before, ok := strings.CutSuffix(out.ErrStatus.Message, listOf(given)); ok {
		out.ErrStatus.Message = before + listOf(sorted)
	}
	return out
}

// listOf returns the causes as the message of an answer lists them: each text once.
func listOf(causes []metav1.StatusCause) string {
	var texts []string
	for _, c := range causes {
		if text := c.Field + ": " + c.Message; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

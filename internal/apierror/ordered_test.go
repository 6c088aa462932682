package apierror

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Whatever the order in which an API server finds what is wrong, the error is the same one.
func TestOrdered(t *testing.T) {
	wrong := field.ErrorList{
		field.Required(field.NewPath("spec", "a"), ""),
		field.Invalid(field.NewPath("spec", "b"), "x", "it is [odd], and more:\n- than that"),
		field.Invalid(field.NewPath("spec", "b"), "x", "it is short"),
		field.Required(field.NewPath("spec", "a"), ""), // twice
		field.Forbidden(nil, "no"),
	}
	refusal := func(errs field.ErrorList) *apierrors.StatusError {
		return apierrors.NewInvalid(schema.GroupKind{Group: "example.com", Kind: "Site"}, "one", errs)
	}
	random := rand.New(rand.NewPCG(1, 2))
	texts, causes := map[string]bool{}, map[string]bool{}
	given := map[string]bool{}
	for range 50 {
		random.Shuffle(len(wrong), func(i, j int) { wrong[i], wrong[j] = wrong[j], wrong[i] })
		err := refusal(wrong)
		before := err.Error()
		given[before] = true
		ordered := Ordered(err)
		require.Equal(t, before, err.Error(), "the error that was given stays as it is")
		require.True(t, apierrors.IsInvalid(ordered))
		texts[ordered.Error()] = true
		causes[fmt.Sprint(statusCauses(ordered))] = true
	}
	require.Greater(t, len(given), 10)
	require.Len(t, texts, 1, texts)
	require.Len(t, causes, 1, causes)
	for text := range texts {
		require.Len(t, text, len(refusal(wrong).Error()), "nothing is lost: %s", text)
	}
}

// What has another form is left alone.
func TestOrdered_Others(t *testing.T) {
	two := []metav1.StatusCause{{Field: "b", Message: "x"}, {Field: "a", Message: "y"}}
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Message: "b, then a", Details: &metav1.StatusDetails{Causes: two}}}
	require.Equal(t, "b, then a", Ordered(webhook).Error(), "a text of somebody's own")
	require.Equal(t, "b", two[0].Field, "the answer isn't written to")
	for _, err := range []error{nil, errors.New("x"), fmt.Errorf("x: %w", webhook), apierrors.NewNotFound(schema.GroupResource{}, "a")} {
		require.Equal(t, err, Ordered(err))
	}
}

package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
)

const (
	reviewTimeout = 5 * time.Second // bounds all reviews together
	reviewsAtOnce = 8
)

// A Denial is a right that this process doesn't have.
type Denial struct {
	catalog.Right
	Reason string // as the API server's authorizer says it; usually empty
}

// Review asks the API server which of these rights this process has, by one
// SelfSubjectAccessReview for each, and returns those that it doesn't have, in the given
// order. A right that couldn't be looked at counts as one that the process has: the error
// says why, and comes beside the denials of others. Review returns within 5 seconds, after
// its goroutines have ended. Reviews store nothing: httpClient should be one whose requests
// need no lease.
func Review(ctx context.Context, l *Link, httpClient *http.Client, rights []catalog.Right) ([]Denial, error) {
	rc := rest.CopyConfig(l.Config)
	rc.ContentType = "application/json"
	rc.WarningHandler = rest.NoWarnings{}
	api, err := authorizationclient.NewForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, reviewTimeout)
	defer stop()
	found, errs := make([]*Denial, len(rights)), make([]error, len(rights))
	slots := make(chan struct{}, reviewsAtOnce)
	var wg sync.WaitGroup
	for _, i := range requiredFirst(rights) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if found[i], errs[i] = review(ctx, api, rights[i]); apierror.IsNo(errs[i]) {
				stop() // the API server doesn't take reviews: it wouldn't take the next one
			}
		})
	}
	wg.Wait()
	return denials(found), firstError(errs)
}

// requiredFirst returns the indexes of the rights, in the order in which they are asked
// for: there may be no time for all.
func requiredFirst(rights []catalog.Right) []int {
	var required, others []int
	for i := range rights {
		if rights[i].Required {
			required = append(required, i)
		} else {
			others = append(others, i)
		}
	}
	return append(required, others...)
}

// review asks for one right. It returns nil if this process has the right.
func review(ctx context.Context, api authorizationclient.AuthorizationV1Interface, right catalog.Right) (*Denial, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer, err := api.SelfSubjectAccessReviews().Create(ctx, reviewOf(right), metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, err
	case answer.Status.Allowed:
		return nil, nil
	case answer.Spec.ResourceAttributes == nil:
		return nil, errors.New("the answer isn't that of a Kubernetes API server")
	case answer.Status.EvaluationError != "" && !answer.Status.Denied:
		return nil, errors.New(answer.Status.EvaluationError)
	}
	return &Denial{right, answer.Status.Reason}, nil
}

// reviewOf returns the question for one right.
func reviewOf(right catalog.Right) *authorizationv1.SelfSubjectAccessReview {
	resource, subresource, _ := strings.Cut(right.Resource, "/")
	asked := &authorizationv1.ResourceAttributes{
		Verb: right.Verb, Group: right.Group, Resource: resource, Subresource: subresource, Namespace: right.Namespace, Name: right.Name,
	}
	if right.Selector != "" {
		asked.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: right.Selector}
	}
	return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: asked}}
}

// denials returns the denials that were found. There is nil for each right that wasn't
// denied.
func denials(found []*Denial) []Denial {
	var out []Denial
	for _, d := range found {
		if d != nil {
			out = append(out, *d)
		}
	}
	return out
}

// firstError returns the first error, but one with which the API server has answered
// comes before others: those may only say that they come after it.
func firstError(errs []error) error {
	if i := slices.IndexFunc(errs, isAnswer); i >= 0 {
		return errs[i]
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// isAnswer says whether the API server has answered with this error.
func isAnswer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/client"
)

const (
	reviewTimeout = 10 * time.Second // bounds one question, with the wait for its turn
	reviewsAtOnce = 8                // so many tokens may be asked about at a time
)

// An asker asks the API server who somebody is and what they may do. It remembers the
// answers for a while. Its methods may be called concurrently.
type asker struct {
	tokens    authenticationclient.TokenReviewInterface
	rights    authorizationclient.SubjectAccessReviewInterface
	audiences []string
	slots     chan struct{} // has a value for each question that is being asked

	users   *answers // by token: *authenticationv1.UserInfo, nil for a token that isn't valid
	allowed *answers // by question: bool
}

// newAsker returns an asker that hasn't asked yet.
func newAsker(rc *rest.Config, httpClient *http.Client, audiences []string) (*asker, error) {
	rc = rest.CopyConfig(rc)
	rc.ContentType = "application/json"
	rc.WarningHandler = rest.NoWarnings{}
	rc.RateLimiter, rc.QPS = nil, -1 // slots bound the questions: they don't wait behind writes, nor writes behind them
	tokens, err := authenticationclient.NewForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, err
	}
	rights, err := authorizationclient.NewForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, err
	}
	return &asker{
		tokens: tokens.TokenReviews(), rights: rights.SubjectAccessReviews(), audiences: audiences, slots: make(chan struct{}, reviewsAtOnce),
		users: newAnswers(), allowed: newAnswers(),
	}, nil
}

// authenticate returns the user of a token, nil if the token isn't valid. An error says
// why that isn't known; it doesn't quote the token.
func (a *asker) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	key := hashOf([]byte(token))
	if known, ok := a.users.get(key); ok {
		user, _ := known.(*authenticationv1.UserInfo)
		return user, nil
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: a.audiences}}
	err := a.ask(ctx, func(ctx context.Context) (err error) {
		review, err = a.tokens.Create(ctx, review, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return nil, withoutToken(failed("tokenreviews", authenticationv1.GroupName, err), token)
	}
	if !review.Status.Authenticated || review.Status.User.Username == "" || !a.meant(review.Status.Audiences) {
		a.users.no(key, (*authenticationv1.UserInfo)(nil))
		return nil, nil
	}
	a.users.yes(key, &review.Status.User, endOf(token))
	return &review.Status.User, nil
}

// meant says whether a token for these audiences is meant for this server. A cluster whose
// tokens have no audiences says none.
func (a *asker) meant(audiences []string) bool {
	return len(a.audiences) == 0 || slices.ContainsFunc(audiences, func(one string) bool { return slices.Contains(a.audiences, one) })
}

// authorize says whether a user may do verb at a path. An error says why that isn't
// known.
func (a *asker) authorize(ctx context.Context, user *authenticationv1.UserInfo, verb, path string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
	}}
	asked, err := json.Marshal(review.Spec)
	if err != nil {
		return false, err
	}
	key := hashOf(asked)
	if known, ok := a.allowed.get(key); ok {
		return known == true, nil
	}
	err = a.ask(ctx, func(ctx context.Context) (err error) {
		review, err = a.rights.Create(ctx, review, metav1.CreateOptions{})
		return err
	})
	switch {
	case err != nil:
		return false, failed("subjectaccessreviews", authorizationv1.GroupName, err)
	case review.Status.Allowed && !review.Status.Denied:
		a.allowed.yes(key, true, time.Time{})
		return true, nil
	case review.Status.EvaluationError != "" && !review.Status.Denied:
		return false, fmt.Errorf("subjectaccessreviews: %s", review.Status.EvaluationError)
	}
	a.allowed.no(key, false)
	return false, nil
}

// ask calls do when it is its turn.
func (a *asker) ask(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(client.WithoutBodies(ctx), reviewTimeout)
	defer cancel()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
		return do(ctx)
	case <-ctx.Done():
		return fmt.Errorf("waiting for %d other questions: %w", reviewsAtOnce, ctx.Err())
	}
}

// failed returns the error of a review, with the rule to add if the operator may not make
// it.
func failed(resource, group string, err error) error {
	if why := apierror.WhyForbidden(err, group, resource); why != "" {
		return &apierror.ForbiddenError{Err: err, Rule: apierror.RuleText(group, resource, "create")}
	}
	return fmt.Errorf("%s: %w", resource, err)
}

// withoutToken returns an error that doesn't quote a token.
func withoutToken(err error, token string) error {
	if strings.Contains(err.Error(), token) {
		return errors.New(strings.ReplaceAll(err.Error(), token, "(the token)"))
	}
	return err
}

package fakeapi

import (
	"encoding/json"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reviewPath is that of SelfSubjectAccessReviews, which the server always takes.
const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// isReview says whether a request asks for the client's own rights.
func isReview(req *http.Request) bool {
	return req.Method == http.MethodPost && req.URL.Path == reviewPath
}

// review answers a SelfSubjectAccessReview, which is not among Requests: everything is
// allowed, unless Hooks.Review says otherwise.
func (s *Server) review(req *http.Request, body []byte) (*http.Response, error) {
	var review authorizationv1.SelfSubjectAccessReview
	if err := json.Unmarshal(body, &review); err != nil || review.Spec.ResourceAttributes == nil {
		return failure(req, apierrors.NewBadRequest("fakeapi: not a review of a right on a resource"))
	}
	s.mu.Lock()
	hook := s.mu.hooks.Review
	s.mu.Unlock()
	review.Status.Allowed = true
	if hook != nil {
		var err error
		if review.Status, err = hook(*review.Spec.ResourceAttributes); err != nil {
			return failure(req, err)
		}
	}
	review.TypeMeta = metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"}
	return answer(req, http.StatusCreated, review)
}

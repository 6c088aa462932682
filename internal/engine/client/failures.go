package client

import (
	"errors"
	"fmt"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
)

// asked returns what a request asks for. name, subresource and body are empty where the
// request has none.
func asked(k *catalog.Kind, verb, name, subresource string, body []byte) apierror.Request {
	return apierror.Request{
		Verb: verb, Group: k.GVR.Group, Resource: k.GVR.Resource, Subresource: subresource, Name: name, Body: body,
	}
}

// failed makes the error of a request fit to be shown. Of a request about a Secret it
// keeps nothing that the answer could tell of a value. If RBAC forbids the request, the
// error names the missing rule. What is wrong is told in the same order each time. failed returns nil for nil.
func failed(k *catalog.Kind, r apierror.Request, err error) error {
	return apierror.WithRule(redacted(k, r, apierror.Ordered(err)), r)
}

// redacted is failed for an error that names no rule.
func redacted(k *catalog.Kind, r apierror.Request, err error) error {
	if k.Secret() {
		return apierror.Redacted(err, r)
	}
	return err
}

// malformed returns the error about an answer that can't be decoded. The words of err
// may quote the answer.
func malformed(k *catalog.Kind, err error) error {
	if k.Secret() {
		return errors.New("decode: the answer is malformed")
	}
	return fmt.Errorf("decode: %w", err)
}

package apierror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// marker is what an answer tells and nobody may see.
const marker = "s3cret-marker"

// marked returns an answer that has the marker, or a number, wherever there is room.
func marked(code int32) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: marker, Code: code, Reason: marker, Message: marker, ListMeta: metav1.ListMeta{ResourceVersion: marker, Continue: marker},
		Details: &metav1.StatusDetails{
			Name: marker, Group: marker, Kind: marker, UID: marker, RetryAfterSeconds: 4711,
			Causes: []metav1.StatusCause{{Type: marker, Message: marker, Field: marker}, {Field: "data[" + marker + "]"}, {Type: metav1.CauseTypeFieldValueInvalid, Field: "data." + marker}},
		},
	}}
}

// secretRequest is a request that says what a Secret is to hold.
func secretRequest() Request {
	return Request{Verb: "update", Resource: "secrets", Name: "one", Body: []byte(
		`{"kind":"Secret","metadata":{"name":"one","ownerReferences":[{"uid":"u"}],"annotations":{"example.com/a":"x"}},"data":{"tls.key":"` + marker + `","a]b":"x"}}`)}
}

// everyText returns all that an error tells: the text of each error that it wraps, and
// what the answer says as far as errors.As finds one.
func everyText(t *testing.T, err error) string {
	t.Helper()
	out := ""
	for ; err != nil; err = errors.Unwrap(err) {
		out += fmt.Sprintf("%v %+v\n", err, err)
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			raw, jsonErr := json.Marshal(status.Status())
			require.NoError(t, jsonErr)
			out += string(raw)
		}
	}
	return out
}

// TestRedacted: nothing of an answer about a Secret is shown but what the operator knew
// before.
func TestRedacted(t *testing.T) {
	type cause = metav1.StatusCause
	status := func(code int32, reason metav1.StatusReason, causes ...cause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: marker, Details: &metav1.StatusDetails{Name: "one", Causes: causes},
		}}
	}
	const rest = " (the rest of the answer may quote the Secret)"
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   string
	}{
		"Everywhere":     {"every string of a Status is somebody's", marked(422), "422 Unprocessable Entity: FieldValueInvalid" + rest},
		"Code":           {"a number may be a PIN", marked(471), "400 Bad Request: FieldValueInvalid" + rest},
		"Code of none":   {"whatever the number", marked(4711), "500 Internal Server Error: FieldValueInvalid" + rest},
		"Reason":         {"a reason that Kubernetes defines", status(403, metav1.StatusReasonInvalid), "403 Forbidden Invalid" + rest},
		"Own fields":     {"what the request has may be named", status(422, metav1.StatusReasonInvalid, cause{Field: "metadata.annotations"}, cause{Field: "data[tls.key]"}), "422 Unprocessable Entity Invalid: data[tls.key], metadata.annotations" + rest},
		"Odd keys":       {"whatever the key", status(422, metav1.StatusReasonInvalid, cause{Field: "data[a]b]"}, cause{Field: "metadata.ownerReferences[0].uid"}), "422 Unprocessable Entity Invalid: data[a]b], metadata.ownerReferences[0].uid" + rest},
		"Other fields":   {"what the request hasn't may be anything", status(422, metav1.StatusReasonInvalid, cause{Field: "data[" + marker}, cause{Field: "metadata.ownerReferences[1]"}, cause{Field: "data.tls.key.x"}, cause{Field: "datatls.key"}), "422 Unprocessable Entity Invalid" + rest},
		"Values":         {"a value is no name", status(422, metav1.StatusReasonInvalid, cause{Field: marker}, cause{Field: "x"}), "422 Unprocessable Entity Invalid" + rest},
		"Order":          {"how often, and in what order, could say something too", status(422, metav1.StatusReasonInvalid, cause{Field: "metadata"}, cause{Field: "data"}, cause{Field: "metadata"}, cause{Field: "data"}), "422 Unprocessable Entity Invalid: data, metadata" + rest},
		"Redirection":    {"the address may be another server's words", &url.Error{Op: "Get", URL: "https://elsewhere/" + marker, Err: errors.New(marker)}, "the request failed, or its answer isn't an API server's (what the error says may quote the Secret)"},
		"Refused":        {"what the system says is known", &url.Error{Op: "Get", URL: "https://elsewhere/" + marker, Err: syscall.ECONNREFUSED}, "the request failed: connection refused"},
		"Timeout":        {"so is that nobody has answered", &url.Error{Op: "Get", URL: marker, Err: context.DeadlineExceeded}, "the request failed: context deadline exceeded"},
		"Cut off":        {"or not to the end", fmt.Errorf("%s: %w", marker, io.ErrUnexpectedEOF), "the request failed: unexpected EOF"},
		"Lease":          {"it wasn't sent", &url.Error{Op: "Put", URL: marker, Err: ErrNoLease}, "the request failed: " + ErrNoLease.Error()},
		"Twice":          {"it is redacted already", Redacted(marked(422), secretRequest()), "422 Unprocessable Entity: FieldValueInvalid" + rest},
		"Another's name": {"the object may be called what it likes", apierrors.NewNotFound(schema.GroupResource{Resource: marker}, marker), "404 Not Found NotFound" + rest},
	} {
		t.Run(name, func(t *testing.T) {
			err := Redacted(tc.err, secretRequest())
			require.EqualError(t, err, tc.want, tc.reason)
			require.NotContains(t, everyText(t, err), marker, tc.reason)
			require.NotContains(t, everyText(t, err), "471", tc.reason)
			if answer := apierrors.APIStatus(nil); name == "Order" && errors.As(err, &answer) {
				require.Equal(t, []cause{{Field: "data"}, {Field: "metadata"}}, answer.Status().Details.Causes, tc.reason)
			}
		})
	}
	require.NoError(t, Redacted(nil, Request{}))
	require.ErrorIs(t, Redacted(&url.Error{Err: ErrNoLease}, Request{}), ErrNoLease)
	require.ErrorIs(t, Redacted(&url.Error{Err: context.Canceled}, Request{}), context.Canceled)
}

// TestRedacted_Decisions: what an answer means doesn't depend on whether it is shown.
func TestRedacted_Decisions(t *testing.T) {
	secrets, kind := schema.GroupResource{Resource: "secrets"}, schema.GroupKind{Kind: "Secret"}
	said := func(text string) error { return apierrors.NewForbidden(secrets, "one", errors.New(text)) }
	invalid := func(field, message string) error {
		err := apierrors.NewInvalid(kind, "one", nil)
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message}}
		return err
	}
	terminating := apierrors.NewForbidden(secrets, "one", errors.New("it ends"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
	unexpected := apierrors.NewGenericServerResponse(404, "get", secrets, "one", marker, 0, true)
	for name, err := range map[string]error{
		"denial": said(`admission webhook "a" denied the request: no`), "quota": said("exceeded quota: q, requested: secrets=1, used: secrets=3, limited: secrets=3"),
		"dry run": apierrors.NewBadRequest(`admission webhook "a" does not support dry run`), "allocated": said("already allocated"),
		"immutable": invalid("data", "field is immutable when `immutable` is set"), "immutable elsewhere": invalid("data[new]", "field is immutable"),
		"missing": apierrors.NewNotFound(secrets, "one"), "another is missing": apierrors.NewNotFound(secrets, "two"), "a proxy": unexpected,
		"conflict": apierrors.NewConflict(secrets, "one", errors.New("changed")), "exists": apierrors.NewAlreadyExists(secrets, "one"),
		"too large": errors.New("etcdserver: request is too large"), "terminating": terminating, "no apply": errors.New("failed to create typed patch object"),
		"collides": said("name already taken: one."), "lost": syscall.ECONNRESET, "taken": invalid("metadata.name", "already in use: one"),
	} {
		t.Run(name, func(t *testing.T) {
			redacted := Redacted(err, secretRequest())
			for what, is := range map[string]func(error) bool{
				"IsDenial": IsDenial, "IsAllocated": IsAllocated, "IsRefusal": IsRefusal, "IsNo": IsNo, "IsNamespaceTerminating": IsNamespaceTerminating,
				"RefusesDryRun": RefusesDryRun, "IsNoApply": IsNoApply, "IsQuotaUsedUp": IsQuotaUsedUp, "IsConflict": apierrors.IsConflict,
				"IsNotFound": apierrors.IsNotFound, "IsAlreadyExists": apierrors.IsAlreadyExists, "IsForbidden": apierrors.IsForbidden, "IsInvalid": apierrors.IsInvalid,
				"IsMissing":  func(err error) bool { return IsMissing(err, "one") },
				"Collides":   func(err error) bool { return Collides(err, "one") },
				"Immutable":  func(err error) bool { return len(ImmutableFields(err)) > 0 },
				"Taken":      func(err error) bool { return len(TakenFields(err)) > 0 && TakenFields(err)[0].Mentions("one") },
				"ShareCause": func(err error) bool { return ShareCause(err, err) },
			} {
				require.Equal(t, is(err), is(redacted), what)
			}
		})
	}
	require.Equal(t, []string{"data", hiddenField}, ImmutableFields(Redacted(&apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 422, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "data", Message: "immutable"}, {Field: marker, Message: "immutable"}, {Field: "data." + marker, Message: "immutable"}}},
	}}, secretRequest())), "the fields are shown")
}

// TestRedacted_ListsAreShort: an answer may name each of very many fields.
func TestRedacted_ListsAreShort(t *testing.T) {
	body := map[string]any{}
	var causes []metav1.StatusCause
	for i := range 3 * MaxListed {
		name := fmt.Sprintf("field%02d", i)
		body[name] = "x"
		causes = append(causes, metav1.StatusCause{Field: name})
	}
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	text := Redacted(&apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Details: &metav1.StatusDetails{Causes: causes}}}, Request{Body: raw}).Error()
	require.Contains(t, text, "field19")
	require.NotContains(t, text, "field20")
}

// What a webhook writes into a warning about a Secret is hidden, unless it is a name that the
// request itself has.
func TestRedactedWarning(t *testing.T) {
	request := Request{Body: []byte(`{"kind":"Secret","stringDta":{"password":"hunter2"},"data":{"a.b":"eA=="}}`)}
	const hidden = "(hidden, since it may quote a Secret)"
	for text, want := range map[string]string{
		`unknown field "stringDta"`:          `unknown field "stringDta"`,
		`unknown field "stringDta.password"`: `unknown field "stringDta.password"`,
		`duplicate field "data[a.b]"`:        `duplicate field "data[a.b]"`,
		`unknown field "hunter2"`:            hidden,
		`unknown field "stringDta.hunter2"`:  hidden,
		`unknown field ""`:                   hidden,
		`unknown field "stringDta" hunter2`:  hidden,
		`unknown field stringDta`:            hidden,
		`the password is hunter2`:            hidden,
	} {
		require.Equal(t, want, RedactedWarning(text, request), text)
	}
	require.Equal(t, hidden, RedactedWarning(`unknown field "a"`, Request{}), "no body, no names")
}

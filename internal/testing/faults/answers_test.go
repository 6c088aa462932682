package faults

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestRefusal(t *testing.T) {
	for code, tc := range map[string]struct {
		why    string
		status int
		reason metav1.StatusReason
		is     func(error) bool
		after  string
	}{
		"404": {"it isn't there", http.StatusNotFound, metav1.StatusReasonNotFound, apierrors.IsNotFound, ""},
		"409": {"somebody else was faster", http.StatusConflict, metav1.StatusReasonConflict, apierrors.IsConflict, ""},
		"429": {"the client has to wait", http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, apierrors.IsTooManyRequests, "1"},
		"500": {"something went wrong", http.StatusInternalServerError, metav1.StatusReasonInternalError, apierrors.IsInternalError, ""},
		"503": {"the server isn't there", http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, apierrors.IsServiceUnavailable, ""},
		"504": {"it took too long", http.StatusGatewayTimeout, metav1.StatusReasonTimeout, apierrors.IsTimeout, ""},
	} {
		t.Run(code, func(t *testing.T) {
			x := exchangeOf(t, http.MethodPost, "/api/v1/namespaces/ns/configmaps", `{"metadata":{"name":"a"}}`)
			resp := x.Refusal(code)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, int64(len(body)), resp.ContentLength)
			require.Equal(t, tc.after, resp.Header.Get("Retry-After"), tc.why)
			require.Same(t, x.Request, resp.Request)

			decoded, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
			require.NoError(t, err, "a client has to understand it")
			status, ok := decoded.(*metav1.Status)
			require.True(t, ok, "it is a Status, not a %T", decoded)
			require.EqualValues(t, tc.status, status.Code)
			require.Equal(t, tc.reason, status.Reason, tc.why)
			require.Equal(t, "a", status.Details.Name, "it names the object, as a server does")
			require.Equal(t, "configmaps", status.Details.Kind)
			require.True(t, tc.is(apierrors.FromObject(status)), tc.why)
		})
	}
}

func TestBrokenConnections(t *testing.T) {
	err := Broken("connection refused")
	require.EqualError(t, err, "connection refused")
	var failure interface {
		Timeout() bool
		Temporary() bool
	}
	require.ErrorAs(t, err, &failure, "it is an error as net has them")
	require.True(t, failure.Temporary(), "it passes")
	require.False(t, failure.Timeout())
}

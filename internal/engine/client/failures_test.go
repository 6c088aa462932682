package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// marker is what an answer about a Secret tells and nobody may see.
const marker = "s3cret-marker"

// requests are all that a client can ask for, by the verb and the subresource.
func requests(object map[string]any) map[string]func(ctx context.Context, c *Client, k *catalog.Kind) error {
	key := types.NamespacedName{Namespace: "ns", Name: "c"}
	patch := func(pt types.PatchType, dry bool) func(ctx context.Context, c *Client, k *catalog.Kind) error {
		return func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.patchOrTry(ctx, k, key, pt, []byte(`{"data":{"k":"`+marker+`"}}`), dry)
			return err
		}
	}
	return map[string]func(ctx context.Context, c *Client, k *catalog.Kind) error{
		"get": func(ctx context.Context, c *Client, k *catalog.Kind) error { _, err := c.Get(ctx, k, key); return err },
		"get metadata": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.ManagedFields(ctx, k, key)
			return err
		},
		"create": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.Create(ctx, k, types.NamespacedName{Namespace: "ns", Name: "one"}, object)
			return err
		},
		"create dry": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.DryCreate(ctx, k, "ns", object)
			return err
		},
		"update": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.Update(ctx, k, key, "", object, false)
			return err
		},
		"update dry": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.Update(ctx, k, key, "", object, true)
			return err
		},
		"update status": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.Update(ctx, k, key, "status", object, false)
			return err
		},
		"patch":       patch(types.MergePatchType, false),
		"patch dry":   patch(types.JSONPatchType, true),
		"patch apply": patch(types.ApplyYAMLPatchType, false),
		"delete": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.Delete(ctx, k, key, "u", "")
			return err
		},
		"list": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.List(ctx, k, "ns", metav1.ListOptions{})
			return err
		},
		"list pages": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, _, err := c.ListPages(ctx, k, "ns", metav1.ListOptions{})
			return err
		},
		"list newest": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			return c.Compare(ctx, k, "ns", "")
		},
		"list metadata": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			return c.EachMetadata(ctx, k, "ns", "", func(*resource.Resource) {})
		},
		"watch": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			events, err := c.Watch(ctx, k, "ns", metav1.ListOptions{})
			if err == nil {
				events.Stop()
			}
			return err
		},
	}
}

// hostile are answers that tell the marker wherever there is room for it.
func hostile(t *testing.T) map[string]answering {
	t.Helper()
	as := func(code int, contentType, body string, header ...string) answering {
		return func(*http.Request) *http.Response {
			a := answer(code, body, append(header, "Content-Type", contentType, "Warning", `299 - "`+marker+`"`)...)
			a.Status = fmt.Sprint(code, " ", marker)
			return a
		}
	}
	status := func(code int, reason metav1.StatusReason) answering {
		raw, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: marker,
			Details: &metav1.StatusDetails{
				Name: marker, Group: marker, Kind: marker, UID: marker,
				Causes: []metav1.StatusCause{{Type: marker, Message: marker + " is immutable", Field: marker}, {Type: metav1.CauseTypeFieldValueInvalid, Field: "data[" + marker + "]"}},
			},
		})
		require.NoError(t, err)
		return as(code, "application/json", string(raw))
	}
	out := map[string]answering{
		"page":        as(502, "text/html", "<html>"+marker+"</html>"),
		"text":        as(403, "text/plain", marker),
		"JSON":        as(500, "application/json", `{"error":"`+marker+`"}`),
		"garbage":     as(409, "application/json", `{"kind":"Status","message":`+marker),
		"success":     as(200, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success","message":"`+marker+`"}`),
		"time":        as(200, "application/json", `{"kind":"Secret","apiVersion":"v1","metadata":{"creationTimestamp":"`+marker+`"},"items":"`+marker+`"}`),
		"no object":   as(200, "application/json", `"`+marker+`"`),
		"redirection": as(307, "text/plain", "", "Location", "https://elsewhere/"+marker),
		"no address":  as(302, "text/plain", "", "Location", "://"+marker),
		"lost":        nil,
	}
	for code, reason := range map[int]metav1.StatusReason{400: marker, 403: metav1.StatusReasonForbidden, 404: marker, 409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid, 471: marker, 500: marker} {
		out[fmt.Sprint(code)] = status(code, reason)
	}
	return out
}

// hostileTransport answers with an answer, and not at all for nil or at another host.
type hostileTransport struct{ answers answering }

func (h hostileTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	if h.answers == nil || req.URL.Host == "elsewhere" {
		return nil, errors.New("malformed HTTP response " + marker)
	}
	return h.answers(req), nil
}

// TestErrorsAboutSecrets: whatever is answered to a request about a Secret, its error
// tells nothing of it, in no way in which an error can be asked.
func TestErrorsAboutSecrets(t *testing.T) {
	object := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "c"}, "data": map[string]any{"k": marker}}
	for name, ask := range requests(object) {
		for as, answers := range hostile(t) {
			t.Run(name+"/"+as, func(t *testing.T) {
				var out strings.Builder
				logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))
				c, _, secrets := over(t, logger, hostileTransport{answers})
				err := ask(klog.NewContext(t.Context(), logr.FromSlogHandler(logger.Handler())), c, secrets)
				if _, ok := map[string]bool{"success": true, "time": true, "no object": true}[as]; !ok {
					require.Error(t, err)
				}
				require.NotContains(t, out.String(), marker)
				for ; err != nil; err = errors.Unwrap(err) {
					require.NotContains(t, fmt.Sprintf("%v %+v %#v", err.Error(), err, apierrors.ReasonForError(err)), marker)
					if status := apierrors.APIStatus(nil); errors.As(err, &status) {
						raw, jsonErr := json.Marshal(status.Status())
						require.NoError(t, jsonErr)
						require.NotContains(t, string(raw), marker)
					}
					require.NotContains(t, strings.Join(apierror.ImmutableFields(err), ", "), marker)
				}
			})
		}
	}
}

// TestRules: the rule that an error names is that of the request.
func TestRules(t *testing.T) {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}}
	for name, ask := range requests(object) {
		verb, what, _ := strings.Cut(name, " ")
		if verb == "list" || verb == "watch" {
			continue // the watcher names the rule
		}
		path := "configmaps"
		if what == "status" {
			path += "/status"
		}
		says := func(words string) string {
			_, configMaps, err := asking(t, ask, `configmaps "c" is forbidden: User "op" `+words+` in the namespace "ns"`)
			require.NotNil(t, configMaps)
			if lacks, ok := errors.AsType[*apierror.ForbiddenError](err); ok {
				return lacks.Rule
			}
			return ""
		}
		t.Run(name, func(t *testing.T) {
			require.Equal(t, `{apiGroups: [""], resources: ["`+path+`"], verbs: ["`+verb+`"]}`, says(`cannot `+verb+` resource "`+path+`" in API group ""`))
			require.Empty(t, says(`cannot `+verb+` resource "secrets" in API group ""`), "another resource")
			require.Empty(t, says(`cannot `+verb+` resource "configmaps/scale" in API group ""`), "another subresource")
			require.Empty(t, says(`cannot impersonate resource "`+path+`" in API group ""`), "another verb")
			require.Equal(t, what == "apply" || verb == "create", says(`cannot create resource "`+path+`" in API group ""`) != "", "an apply may create")
		})
	}
}

// asking asks with a client that is answered 403 in these words.
func asking(t *testing.T, ask func(context.Context, *Client, *catalog.Kind) error, words string) (c *Client, configMaps *catalog.Kind, err error) {
	t.Helper()
	raw, jsonErr := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: words,
	})
	require.NoError(t, jsonErr)
	c, configMaps, _ = answered(t, sample.DiscardLog(), func(*http.Request) *http.Response { return answer(http.StatusForbidden, string(raw)) })
	return c, configMaps, ask(t.Context(), c, configMaps)
}

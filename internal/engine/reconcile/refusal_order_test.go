package reconcile_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An API server names what is wrong with an object in another order each time. That is no news: there is one Event, and the
// status is written once.
func TestRefusal_Order(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		refused resource.Type
		verb    string
		ready   bool // the conditions tell of the refusal
	}{
		"child":  {"its creation fails for the same causes", k8s.ConfigMap, "create", true},
		"status": {"the parent's status fails for the same causes", sample.ParentType(), "update", false},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.ReadyCondition = tc.ready
				random, tries, statuses := rand.New(rand.NewPCG(1, 1)), 0, 0
				server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
					if q.Subresource == "status" {
						statuses++
					}
					if q.Type != tc.refused || q.Verb != tc.verb || tc.verb == "update" && q.Subresource != "status" {
						return nil
					}
					tries++
					wrong := field.ErrorList{}
					for _, i := range random.Perm(5) {
						wrong = append(wrong, field.Required(field.NewPath("status", string(rune('a'+i))), ""))
					}
					return apierrors.NewInvalid(schema.GroupKind{Kind: q.Type.Kind}, q.Key.Name, wrong)
				}})
				r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Children: []any{rig.Copied(req.Parent.Name(), "x")}, Status: map[string]any{"phase": "x"}}, nil
				}))
				r.Create("a", "1")
				rig.Elapse(time.Hour)
				require.Greater(t, tries, 5, "it is tried again and again")
				failures := 0
				for _, text := range recorded(r) {
					if strings.Contains(text, "status.a: Required value, status.b: Required value, ") {
						failures++
					}
				}
				require.Equal(t, 1, failures, "%s: %q", tc.reason, recorded(r))
				if tc.ready {
					require.Equal(t, 1, statuses, "%s: the condition is written once", tc.reason)
				}
				r.Stop()
			})
		})
	}
}

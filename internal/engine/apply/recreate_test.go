package apply_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// denied is a webhook's no, with a code of the webhook's choice.
func denied(code int, text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReason(http.StatusText(code)),
		Message: `admission webhook "a.example.com" denied the request: ` + text,
	}}
}

// TestRecreate: a child that says data.k: old, of which the desired state says
// data.k: new, is deleted only if the API server would take the new state.
func TestRecreate(t *testing.T) {
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "c", errors.New(text))
	}
	on := func(verb string, err error) func(fakeapi.Request, map[string]any) error {
		return func(r fakeapi.Request, _ map[string]any) error {
			if r.Verb == verb && r.DryRun {
				return err
			}
			return nil
		}
	}
	unlessOwn := func(err error) func(fakeapi.Request, map[string]any) error {
		return func(r fakeapi.Request, object map[string]any) error {
			if meta, _ := object["metadata"].(map[string]any); r.Verb == "create" && meta["name"] != "c" {
				return err
			}
			return nil
		}
	}
	const tryAll = "dry update, dry create of a trial, dry create"
	for name, tc := range map[string]struct {
		reason  string
		admit   func(r fakeapi.Request, object map[string]any) error
		asked   string // the requests, in short
		err     string // "": the child is deleted
		untried string // why the new state couldn't be tried; "": it could
	}{
		"accepted": {
			"the one thing in the way is the name", func(fakeapi.Request, map[string]any) error { return nil }, tryAll + ", delete", "", "",
		},
		"updates are denied": {
			"that is what the strategy is for, with whatever code", on("update", denied(http.StatusConflict, "no updates")), tryAll + ", delete", "", "",
		},
		"the update fails": {
			"nobody knows what the update would change", on("update", apierrors.NewInternalError(errors.New("etcd"))), "dry update", "etcd", "",
		},
		"the trial fails": {
			"nobody knows what a new child would be", on("create", apierrors.NewInternalError(errors.New("etcd"))), "dry update, dry create of a trial", "etcd", "",
		},
		"denied like a conflict": {
			"it isn't one: no newer state is to come", on("create", denied(http.StatusConflict, "no")), tryAll, "not deleted, since its new state is refused: ", "",
		},
		"denied as if it existed": {
			"it isn't the name that is taken", on("create", denied(http.StatusConflict, "AlreadyExists")), tryAll, "not deleted, since its new state is refused: ", "",
		},
		"forbidden": {
			"no right to create: the child would be gone for good", on("create", forbidden("no right")), tryAll, "no right", "",
		},
		"a rule about names": {
			"only the other name is refused", unlessOwn(denied(http.StatusForbidden, "no such names")), tryAll + ", delete", "", "",
		},
		"a webhook names the old child": {
			"it is in its own way", on("create", denied(http.StatusBadRequest, `host "a" is already defined in thing ns/c`)), tryAll + ", delete", "", "already defined",
		},
		"a webhook names another object": {
			"that stays when the old child has gone", on("create", denied(http.StatusBadRequest, `host "a" is already defined in thing ns/d`)), tryAll, "already defined", "",
		},
		"no dry runs": {
			"the child is recreated, and that is said", on("create", denied(http.StatusBadRequest, "no dry run here")), tryAll + ", delete", "", "no dry run here",
		},
		"full quota": {
			"the child has its share of it", on("create", forbidden("exceeded quota: q, requested: count/things=1, used: count/things=3, limited: count/things=3")),
			tryAll + ", dry create of a trial, delete", "", "",
		},
		"lowered quota": {
			"there is no room even without the child", on("create", forbidden("exceeded quota: q, requested: count/things=1, used: count/things=3, limited: count/things=2")),
			tryAll + ", dry create of a trial", "exceeded quota", "",
		},
		"ignored updates": {
			"the update changes nothing, though a new child would be another", func(r fakeapi.Request, object map[string]any) error {
				if r.Verb == "update" {
					object["data"] = map[string]any{"k": "old"}
				}
				return nil
			}, tryAll + ", delete", "", "",
		},
		"chosen by the server": {
			"the update changes nothing, and a new child would have some other value", func(r fakeapi.Request, object map[string]any) error {
				object["data"] = map[string]any{"k": map[string]any{"update": "old", "create": "any"}[r.Verb]}
				return nil
			}, "dry update, dry create of a trial, patch", "", "",
		},
		"created so": {
			"a new child would be as the old one is, though an update would change it", func(r fakeapi.Request, object map[string]any) error {
				if r.Verb == "create" {
					object["data"] = map[string]any{"k": "old"}
				}
				return nil
			}, "dry update, dry create of a trial, patch", "", "",
		},
	} {
		for _, dryRun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/dry run %t", name, dryRun), func(t *testing.T) {
				f := newFixture(t, "ns", dryRun, config.Child{Type: thing(), Strategy: config.Recreate})
				live := f.given(child(thing(), "c", map[string]any{"k": "old"}), nil)
				f.server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
					if r.Type != thing() {
						return nil
					}
					return tc.admit(r, object)
				}})

				report := f.run(t.Context(), f.plan([]*resource.Resource{live}, child(thing(), "c", map[string]any{"k": "new"})))

				asked := strings.NewReplacer(" Thing ns/roperator-dry-run", " of a trial", " Thing ns/c", "").Replace(strings.Join(f.asked(), ", "))
				wanted := tc.asked
				if dryRun {
					wanted = strings.TrimSuffix(strings.TrimSuffix(wanted, ", delete"), ", patch")
				}
				require.Equal(t, wanted, asked, tc.reason)
				r := report.Results[0]
				require.False(t, r.Await, tc.reason)
				if tc.err != "" {
					require.ErrorContains(t, r.Err, "Thing ns/c: recreate: ")
					require.ErrorContains(t, r.Err, tc.err)
					require.NotNil(t, f.server.Get(thing(), key("c")))
					return
				}
				require.NoError(t, r.Err)
				require.Equal(t, tc.untried != "", r.Untried != nil, tc.reason)
				if tc.untried != "" {
					require.ErrorContains(t, r.Untried, tc.untried)
				}
				if dryRun && strings.HasSuffix(tc.asked, "delete") {
					require.Equal(t, plan.VerbRecreate, r.Would)
					require.Len(t, r.Fields, 1)
				}
			})
		}
	}
}

func TestRecreateSecret(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: k8s.Secret, Strategy: config.Recreate})
	live := f.given(child(k8s.Secret, "c", map[string]any{"k": "b2xk"}), nil)
	for text, untried := range map[string]bool{"c3dvcmRmaXNo": false, "c3dvcmRmaXNo: no dry run here": true} {
		f.server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, _ map[string]any) error {
			if r.Type == k8s.Secret {
				return denied(http.StatusForbidden, text)
			}
			return nil
		}})
		r := f.run(t.Context(), f.plan([]*resource.Resource{live}, child(k8s.Secret, "c", map[string]any{"k": "bmV3"}))).Results[0]
		told := r.Err
		if untried {
			told = r.Untried
		} else {
			require.ErrorContains(t, r.Err, "not deleted, since its new state is refused: 403")
		}
		require.Error(t, told)
		require.NotContains(t, told.Error(), "c3dvcmRmaXNo", "the values of Secrets are never shown")
	}
}

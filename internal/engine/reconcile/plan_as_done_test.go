package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func wanting(children ...any) handler.Handler {
	return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: children}, nil
	})
}

func denying(verb, name string) fakeapi.Hooks {
	return fakeapi.Hooks{Admit: func(r fakeapi.Request, _ map[string]any) error {
		if r.Verb == verb && r.Key.Name == name && r.Type == k8s.ConfigMap {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, name, errors.New(`admission webhook "w" denied the request: no`))
		}
		return nil
	}}
}

func spoil(t *testing.T, server *fakeapi.Server, of resource.Type, name string, change func(o map[string]any)) {
	t.Helper()
	_, err := server.Change(of, rig.Key(name), change)
	require.NoError(t, err)
}

func textOf(changes []plan.Change) string {
	var lines []string
	for _, c := range changes {
		line := fmt.Sprintf("%s %s %s", c.Verb, c.Type.Kind, c.Object.Name)
		if c.Waits != "" {
			line += " (" + c.Waits + ")"
		}
		for _, f := range c.Fields {
			if f.Path != "" {
				line += " " + f.Path
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestPlan_StatusOfAFailedPass: the conditions that a failed pass writes.
func TestPlan_StatusOfAFailedPass(t *testing.T) {
	for name, h := range map[string]handler.Handler{
		"Handler": handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return nil, errors.New("no idea")
		}),
		"Invalid": wanting(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "x-"}}),
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.ReadyCondition = true
				rig.CreateParent(t, server, "p", "1")
				changes, err := changesOf(t, server, cfg, h, rig.PlanOptions{})
				require.Error(t, err)
				r := rig.Start(t, server, cfg, h)
				require.Equal(t, []string{"update status Parent ns/p"}, server.Writes())
				r.Stop()
				require.Contains(t, textOf(changes), "update Parent p status", "the live operator writes it first of all")
			})
		})
	}
}

// TestPlan_RetainRefused: the retaining of a child is refused.
func TestPlan_RetainRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Children[0].Retain = true
		rig.CreateParent(t, server, "p", "1")
		converge(t, server, cfg, handler.SyncFunc(rig.Copier))
		server.SetHooks(denying("patch", "p"))
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
		changes, err := changesOf(t, server, cfg, handler.SyncFunc(rig.Copier), rig.PlanOptions{})
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		errs := r.Errors("p")
		r.Stop()
		require.NotEmpty(t, errs)
		require.EqualError(t, err, "Parent ns/p: "+errs[0].Error())
		require.Empty(t, textOf(changes), "nothing is done")
	})
}

// TestPlan_RollOfMendedChildren: a rollout over children whose owner references are mended, or that are taken over.
func TestPlan_RollOfMendedChildren(t *testing.T) {
	for name, tc := range map[string]struct {
		adopt bool
		spoil func(o map[string]any)
	}{
		"OwnerReference": {false, func(o map[string]any) {
			metaOf(o)["ownerReferences"].([]any)[0].(map[string]any)["apiVersion"] = "example.com/v0"
		}},
		"Labels": {true, func(o map[string]any) { delete(metaOf(o), "labels") }},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				widget := resource.Type{APIVersion: "example.com/v1", Kind: "Widget"}
				kind := fakeapi.Custom(widget, "widgets")
				server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), kind)
				cfg := rig.Config()
				cfg.Children = []config.Child{{Type: widget, Strategy: config.Replace, Adopt: tc.adopt, Roll: &config.Roll{}}}
				build := func(size string) handler.Handler {
					var children []any
					for _, name := range []string{"a", "b", "c"} {
						children = append(children, map[string]any{"apiVersion": widget.APIVersion, "kind": widget.Kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size}})
					}
					return wanting(children...)
				}
				rig.CreateParent(t, server, "p", "1")
				converge(t, server, cfg, build("1"))
				for _, name := range []string{"a", "b", "c"} {
					spoil(t, server, widget, name, tc.spoil)
				}
				changes, err := changesOf(t, server, cfg, build("2"), rig.PlanOptions{})
				require.NoError(t, err)
				at := 0
				for _, c := range changes {
					for _, f := range c.Fields {
						if f.Path == "spec.size" && c.Waits == "" {
							at++
						}
					}
				}
				require.Equal(t, 1, at, "at most one at a time is updated:\n%s", textOf(changes))
			})
		})
	}
}

// TestPlan_FieldsOfATakeOver: the fields of a child that is taken over.
func TestPlan_FieldsOfATakeOver(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Children[0].Adopt = true
		rig.CreateParent(t, server, "p", "1")
		object := rig.Copied("a", "theirs")
		metaOf(object)["namespace"], metaOf(object)["labels"] = "ns", map[string]any{"color": "blue"}
		create(t, server, object)
		changes, err := changesOf(t, server, cfg, wanting(rig.Copied("a", "ours")), rig.PlanOptions{})
		require.NoError(t, err)
		require.Equal(t, `update ConfigMap a data.value metadata.labels["roperator.com/operator"] metadata.labels["roperator.com/parent-uid"] metadata.ownerReferences`, textOf(changes))
	})
}

// TestPlan_DeleteIsHeldBack: an unlabelled object that isn't wanted, beside a write that is refused.
func TestPlan_DeleteIsHeldBack(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Children[0].Adopt = true
		parent := rig.CreateParent(t, server, "p", "1")
		unwanted := rig.Copied("unwanted", "1")
		metaOf(unwanted)["namespace"] = "ns"
		metaOf(unwanted)["ownerReferences"] = []any{map[string]any{
			"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "name": "p", "uid": string(parent.UID()), "controller": true, "blockOwnerDeletion": true,
		}}
		create(t, server, unwanted)
		foreign := rig.Copied("foreign", "1")
		metaOf(foreign)["namespace"] = "ns"
		metaOf(foreign)["labels"] = map[string]any{"roperator.com/operator": "other"}
		create(t, server, foreign)
		h := wanting(rig.Copied("foreign", "1"))
		changes, err := changesOf(t, server, cfg, h, rig.PlanOptions{})
		require.Error(t, err)
		converge(t, server, cfg, h)
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("unwanted")), "it is held back by what is refused")
		require.NotContains(t, textOf(changes), "delete", "%s", textOf(changes))
	})
}

// TestPlan_RetainedUnseen: a child to be retained whose labels somebody has taken off, beside one that is deleted first.
func TestPlan_RetainedUnseen(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Teardown = config.TeardownOrdered
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace, Retain: true})
		rig.CreateParent(t, server, "p", "1")
		h := wanting(rig.Copied("a", "1"), map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "kept"}})
		converge(t, server, cfg, h)
		spoil(t, server, k8s.Secret, "kept", func(o map[string]any) { delete(metaOf(o), "labels") })
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
		changes, err := changesOf(t, server, cfg, h, rig.PlanOptions{})
		require.NoError(t, err)
		converge(t, server, cfg, h)
		require.Contains(t, textOf(changes), "update Secret kept (waits for the end of ConfigMap ns/a)", "it loses its owner reference then")
	})
}

// TestPlan_RecreatedForAnImmutableField: what the API server only writes differently, in a child that is recreated for an immutable field.
func TestPlan_RecreatedForAnImmutableField(t *testing.T) {
	for name, tc := range map[string]struct {
		strategy  config.UpdateStrategy
		immutable bool
		applies   bool
	}{
		"Recreate": {config.Recreate, false, false}, "RecreateApplies": {config.Recreate, false, true},
		"Replace": {config.Replace, true, false}, "Apply": {config.Apply, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				kind := fakeapi.KindOf(k8s.Deployment)
				kind.Plural, kind.Applies = "deployments", tc.applies
				server, cfg := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), kind), rig.Config()
				cfg.Children = []config.Child{{Type: k8s.Deployment, Strategy: tc.strategy, RecreateImmutable: tc.immutable}}
				deployment := func(app string) map[string]any {
					return map[string]any{
						"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "a"},
						"spec": map[string]any{
							"selector": map[string]any{"matchLabels": map[string]any{"app": app}},
							"template": map[string]any{
								"metadata": map[string]any{"labels": map[string]any{"app": app}},
								"spec": map[string]any{"containers": []any{map[string]any{
									"name": "c", "image": "i", "resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}},
								}}},
							},
						},
					}
				}
				rig.CreateParent(t, server, "p", "1")
				converge(t, server, cfg, wanting(deployment("x")))
				changes, err := changesOf(t, server, cfg, wanting(deployment("y")), rig.PlanOptions{})
				require.NoError(t, err)
				require.Equal(t, `recreate Deployment a spec.selector.matchLabels.app spec.template.metadata.labels.app`, textOf(changes))
			})
		})
	}
}

// TestPlan_FinalizerRefused: the finalizer is refused. A live operator does nothing then.
func TestPlan_FinalizerRefused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		rig.CreateParent(t, server, "p", "1")
		server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, _ map[string]any) error {
			if r.Verb == "patch" && r.Type == sample.ParentType() {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "parents"}, "p", errors.New(`admission webhook "w" denied the request: no`))
			}
			return nil
		}})
		h := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}}
		changes, err := changesOf(t, server, cfg, h, rig.PlanOptions{})
		r := rig.Start(t, server, cfg, h)
		errs := r.Errors("p")
		r.Stop()
		require.NotEmpty(t, errs)
		require.Empty(t, server.List(k8s.ConfigMap), "nothing is created")
		require.EqualError(t, err, errs[0].Error(), "planned: %s", textOf(changes))
		require.Empty(t, changes)
	})
}

// TestPlan_DeletesBesideATakeOver: the first pass only takes an object over, or mends its owner reference, and the update after
// that is refused. What is deleted meanwhile is planned.
func TestPlan_DeletesBesideATakeOver(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		adopt   bool
		spoil   func(o map[string]any)
		deletes bool
	}{
		"Found":   {"the handler is shown the object by the next pass, whose update is refused", false, func(o map[string]any) { delete(metaOf(o), "labels") }, false},
		"Adopted": {"the handler is shown the object, and the update isn't tried yet", true, func(o map[string]any) { delete(metaOf(o), "labels") }, true},
		"Mended": {"so is this", false, func(o map[string]any) {
			metaOf(o)["ownerReferences"].([]any)[0].(map[string]any)["apiVersion"] = "example.com/v0"
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Children[0].Adopt = tc.adopt
				rig.CreateParent(t, server, "p", "1")
				converge(t, server, cfg, wanting(rig.Copied("a", "1"), rig.Copied("old", "1")))
				spoil(t, server, k8s.ConfigMap, "a", tc.spoil)
				server.SetHooks(denying("update", "a"))
				changes, err := changesOf(t, server, cfg, wanting(rig.Copied("a", "2")), rig.PlanOptions{})
				require.Error(t, err)
				converge(t, server, cfg, wanting(rig.Copied("a", "2")))
				require.Equal(t, tc.deletes, server.Get(k8s.ConfigMap, rig.Key("old")) == nil, tc.reason)
				require.Equal(t, tc.deletes, strings.Contains(textOf(changes), "delete ConfigMap old"), "%s:\n%s", tc.reason, textOf(changes))
			})
		})
	}
}

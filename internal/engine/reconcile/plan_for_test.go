package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// editedParent returns a parent as a file has it.
func editedParent(name, value string, change ...func(object map[string]any)) plan.Edited {
	object := map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns"},
		"spec":     map[string]any{"value": value},
		"status":   map[string]any{"lie": true},
	}
	for _, c := range change {
		c(object)
	}
	return plan.Edited{Object: object, Source: "file: document 1"}
}

// annotated gives an object an annotation.
func annotated(name, value string) func(map[string]any) {
	return func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{name: value} }
}

// A parent is planned as it would be, and the others aren't.
func TestPlanFor(t *testing.T) {
	finalizing := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return nil, errors.New("must not be called")
	}}
	labels := func(value string) func(map[string]any) {
		return func(o map[string]any) { metaOf(o)["labels"] = map[string]any{"tier": value} }
	}
	for name, tc := range map[string]struct {
		reason  string
		build   handler.Handler
		config  func(*config.Operator)
		deleted bool // the parent is being deleted
		edited  plan.Edited
		want    []string
	}{
		"Same":   {reason: "nothing is to do", edited: editedParent("p", "1")},
		"Edited": {reason: "its child follows", edited: editedParent("p", "2"), want: planned("p: update ConfigMap p", `  data.value: "1" -> "2"`)},
		"New": {reason: "created, with what the operator would write of the parent itself", build: finalizing, edited: editedParent("new", "2"), want: planned(
			"new: update Parent new", `  metadata.finalizers: null -> ["roperator.com/op"]`,
			"new: create ConfigMap new", `  : null -> {"apiVersion":"v1","data":{"value":"2"},"kind":"ConfigMap","metadata":{"name":"new","namespace":"ns"}}`)},
		"Paused":   {reason: "as the annotation in the file asks", edited: editedParent("p", "2", annotated("roperator.com/paused", "true"))},
		"Leaves":   {reason: "the selector: it is released", build: finalizing, config: bySelector, edited: editedParent("p", "2", labels("b")), want: planned("p: update Parent p", `  metadata.finalizers: ["roperator.com/op"] -> null`)},
		"Enters":   {reason: "the selector", config: bySelector, edited: editedParent("new", "2", labels("a")), want: planned("new: create ConfigMap new", `  : null -> {"apiVersion":"v1","data":{"value":"2"},"kind":"ConfigMap","metadata":{"name":"new","namespace":"ns"}}`)},
		"Deleting": {reason: "Finalize isn't called", build: finalizing, deleted: true, edited: editedParent("p", "2"), want: planned("p: finalize Parent p")},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				if tc.config != nil {
					tc.config(&cfg)
				}
				build := tc.build
				if build == nil {
					build = handler.SyncFunc(rig.Copier)
				}
				for _, parent := range []string{"p", "q"} {
					rig.CreateParent(t, server, parent, "1")
					_, err := server.Change(sample.ParentType(), rig.Key(parent), labels("a"))
					require.NoError(t, err)
				}
				converge(t, server, cfg, build)
				_, err := server.Change(k8s.ConfigMap, rig.Key("q"), func(o map[string]any) { o["data"] = map[string]any{} })
				require.NoError(t, err, "q has something to do, which isn't planned")
				if tc.deleted {
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
				}
				lines, err := planWith(t, server, cfg, build, rig.PlanOptions{Edited: []plan.Edited{tc.edited}})
				require.NoError(t, err)
				require.Equal(t, tc.want, lines, tc.reason)
			})
		})
	}
}

func bySelector(cfg *config.Operator) { cfg.ParentSelector = "tier=a" }

// What the API server makes of a parent is what is planned for.
func TestPlanForAdmission(t *testing.T) {
	admit := func(_ fakeapi.Request, o map[string]any) error {
		if o["kind"] != "Parent" {
			return nil
		}
		spec, _ := o["spec"].(map[string]any)
		if spec["value"] == "bad" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "parents"}, "p", errors.New("no bad values"))
		}
		spec["value"] = "admitted " + spec["value"].(string)
		return nil
	}
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "p", "1")
		converge(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		server.SetHooks(fakeapi.Hooks{Admit: admit})
		lines, err := planWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), rig.PlanOptions{Edited: []plan.Edited{editedParent("p", "2")}})
		require.NoError(t, err)
		require.Equal(t, planned("p: update ConfigMap p", `  data.value: "1" -> "admitted 2"`), lines)
		lines, err = planWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), rig.PlanOptions{Edited: []plan.Edited{editedParent("p", "bad"), editedParent("q", "2")}})
		require.EqualError(t, err, `file: document 1: Parent ns/p: parents.example.com "p" is forbidden: no bad values`)
		require.Equal(t, "q: create ConfigMap q", lines[0], "the others are planned")
	})
}

// What the API server warns of names the parent, a new one as well.
func TestPlanForWarnings(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "p", "1")
		server.SetHooks(fakeapi.Hooks{Warn: func(r fakeapi.Request) []string {
			if r.Type != sample.ParentType() || !r.DryRun {
				return nil
			}
			return []string{`unknown field "spec.typo"`}
		}})
		var log strings.Builder
		_, err := planWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), rig.PlanOptions{
			Edited: []plan.Edited{editedParent("p", "2"), editedParent("new", "2")}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		require.Contains(t, log.String(), `object=ns/p warning="unknown field`)
		require.Contains(t, log.String(), `object=ns/new warning="unknown field`)
	})
}

// With a resourceVersion, a file is the whole object; else it is applied as kubectl does.
func TestPlanForApplies(t *testing.T) {
	version := func(server *fakeapi.Server) func(map[string]any) {
		return func(o map[string]any) {
			metaOf(o)["resourceVersion"] = server.Get(sample.ParentType(), rig.Key("p")).ResourceVersion()
			delete(o, "spec")
		}
	}
	bare := func(o map[string]any) { delete(o, "spec") }
	for name, tc := range map[string]struct {
		reason  string
		applied string // kubectl's note at the live parent
		edit    func(server *fakeapi.Server) func(map[string]any)
		want    []string
	}{
		"Whole":   {"what it lacks goes", "", version, planned("p: update ConfigMap p", `  data: {"value":"1"} -> null`)},
		"Partial": {"what it lacks stays", "", func(*fakeapi.Server) func(map[string]any) { return bare }, nil},
		"Applied": {"what kubectl has set goes", `{"spec":{"value":"1"}}`, func(*fakeapi.Server) func(map[string]any) { return bare }, planned("p: update ConfigMap p", `  data: {"value":"1"} -> null`)},
	} {
		for _, readOnly := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					server := rig.Server()
					rig.CreateParent(t, server, "p", "1")
					if tc.applied != "" {
						_, err := server.Change(sample.ParentType(), rig.Key("p"), annotated(plan.LastApplied, tc.applied))
						require.NoError(t, err)
					}
					copies := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
						child := rig.Copied(req.Parent.Name(), "")
						delete(child, "data")
						if value, ok := req.Parent.Field("spec", "value"); ok {
							child["data"] = map[string]any{"value": value}
						}
						return &handler.SyncResponse{Children: []any{child}}, nil
					})
					converge(t, server, rig.Config(), copies)
					want := slices.Clone(tc.want)
					if readOnly && len(want) > 0 {
						want[0] += " unsure"
					}
					lines, err := planWith(t, server, rig.Config(), copies, rig.PlanOptions{ReadOnly: readOnly, Edited: []plan.Edited{editedParent("p", "", tc.edit(server))}})
					require.NoError(t, err)
					require.Equal(t, want, lines, tc.reason)
				})
			})
		}
	}
}

// A number that an edit leaves as it is has all its digits, though the edit isn't tried.
func TestPlanForUntried_Numbers(t *testing.T) {
	const wide = int64(1)<<53 + 1 // no float64 is equal to it
	numbered := func(o map[string]any) { o["spec"].(map[string]any)["number"] = wide }
	copies := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		number, _ := req.Parent.Field("spec", "number")
		return &handler.SyncResponse{Children: []any{rig.Copied(req.Parent.Name(), fmt.Sprint(number))}}, nil
	})
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "p", "1")
		_, err := server.Change(sample.ParentType(), rig.Key("p"), numbered)
		require.NoError(t, err)
		lines, err := planWith(t, server, rig.Config(), copies, rig.PlanOptions{ReadOnly: true, Edited: []plan.Edited{editedParent("p", "2", numbered)}})
		require.NoError(t, err)
		require.Contains(t, strings.Join(lines, "\n"), `"value":"9007199254740993"`)
	})
}

func TestPlanForRefuses(t *testing.T) {
	meta := func(field string, value any) func(map[string]any) {
		return func(o map[string]any) { metaOf(o)[field] = value }
	}
	set := func(field string, value any) func(map[string]any) {
		return func(o map[string]any) { o[field] = value }
	}
	for name, tc := range map[string]struct {
		reason     string
		edited     []plan.Edited
		namespaces []string
		want       string
	}{
		"Kind":      {"nobody's", []plan.Edited{editedParent("p", "1", set("kind", "Other"))}, nil, "file: document 1: Other ns/p: the parents of the operator op are of the type example.com/v1/Parent, not example.com/v1/Other"},
		"Child":     {"the operator's own to write", []plan.Edited{editedParent("p", "1", set("kind", "ConfigMap"), set("apiVersion", "v1"))}, nil, "file: document 1: ConfigMap ns/p is of a type of children, which the operator op writes itself; give its parent (example.com/v1/Parent) instead"},
		"Version":   {"a conversion isn't guessed", []plan.Edited{editedParent("p", "1", set("apiVersion", "example.com/v2"))}, nil, "file: document 1: Parent ns/p is of version example.com/v2, and the operator op works with example.com/v1; write it in that version"},
		"NoType":    {"any YAML", []plan.Edited{{Object: map[string]any{"a": "b"}, Source: "x"}}, nil, "x: apiVersion or kind is missing"},
		"NoName":    {"generateName has no plan", []plan.Edited{editedParent("", "1")}, nil, "file: document 1: Parent: metadata.name is missing"},
		"Namespace": {"missing, and there is no one that could be meant", []plan.Edited{editedParent("p", "1", meta("namespace", ""))}, nil, "file: document 1: Parent p: metadata.namespace is missing; set it, or name one by --namespace or config.Operator.Namespaces"},
		"Elsewhere": {"the operator wouldn't see it", []plan.Edited{editedParent("p", "1")}, []string{"a", "b"}, "file: document 1: Parent ns/p: the operator op works in the namespaces a, b only, and wouldn't see it"},
		"Twice":     {"which one?", []plan.Edited{editedParent("p", "1"), editedParent("p", "2")}, nil, "file: document 1: Parent ns/p is there already in file: document 1; a plan supposes one state of a parent"},
		"Stale":     {"somebody's change would be lost", []plan.Edited{editedParent("p", "1", meta("resourceVersion", "1"))}, nil, "file: document 1: Parent ns/p: metadata.resourceVersion is 1, and the live object has changed since, to "},
		"Another":   {"deleted and created since", []plan.Edited{editedParent("p", "1", meta("uid", "x"))}, nil, "file: document 1: Parent ns/p: metadata.uid is x, and the live object is another one, "},
		"Gone":      {"a file that was read", []plan.Edited{editedParent("gone", "1", meta("resourceVersion", "1"))}, nil, "file: document 1: Parent ns/gone: there is no such object, though metadata.resourceVersion says that it was read"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Namespaces = tc.namespaces
				rig.CreateParent(t, server, "p", "1")
				lines, err := planWith(t, server, cfg, handler.SyncFunc(rig.Copier), rig.PlanOptions{Edited: tc.edited})
				require.ErrorContains(t, err, tc.want, tc.reason)
				require.Empty(t, lines)
			})
		})
	}
}

// The parent changes while it is planned: the plan is of what becomes of its newest state.
func TestPlanForOvertaken(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "p", "1")
		reports := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			extra, _ := req.Parent.Field("spec", "extra")
			return &handler.SyncResponse{Status: map[string]any{"extra": extra}}, nil
		})
		converge(t, server, rig.Config(), reports)
		once := false
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.DryRun && r.Subresource == "status" && !once {
				once = true
				_, err := server.Change(sample.ParentType(), rig.Key("p"), func(o map[string]any) { o["spec"] = map[string]any{"extra": "late"} })
				return err
			}
			return nil
		}})
		lines, err := planWith(t, server, rig.Config(), reports, rig.PlanOptions{Edited: []plan.Edited{editedParent("p", "2")}})
		require.NoError(t, err)
		require.True(t, once)
		require.Contains(t, lines, `  status.extra: null -> "late"`)
	})
}

// Nobody but a reader is needed for a plan that only reads.
func TestPlanReadOnly(t *testing.T) {
	drift := func(o map[string]any) { o["data"] = map[string]any{"value": "drifted"} }
	for name, tc := range map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		change   func(object map[string]any) // of the child
		edited   []plan.Edited
		want     []string
	}{
		"Nothing":  {reason: "the mark tells", strategy: config.Replace},
		"Drift":    {reason: "or what the API server has made of it: without managedFields nobody knows", strategy: config.Replace, change: drift, want: planned("p: update ConfigMap p unsure", `  data.value: "drifted" -> "1"`)},
		"Recreate": {reason: "the API server might find it the same", strategy: config.Recreate, change: drift, want: planned("p: update ConfigMap p unsure", `  data.value: "drifted" -> "1"`)},
		"Edited":   {reason: "by a file", strategy: config.Replace, edited: []plan.Edited{editedParent("p", "2")}, want: planned("p: update ConfigMap p unsure", `  data.value: "1" -> "2"`)},
		"New": {reason: "nor is the parent admitted", strategy: config.Replace, edited: []plan.Edited{editedParent("new", "2")}, want: planned("new: create ConfigMap new unsure",
			`  : null -> {"apiVersion":"v1","data":{"value":"2"},"kind":"ConfigMap","metadata":{"name":"new","namespace":"ns"}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Children[0].Strategy = tc.strategy
				rig.CreateParent(t, server, "p", "1")
				converge(t, server, cfg, handler.SyncFunc(rig.Copier))
				if tc.change != nil {
					_, err := server.Change(k8s.ConfigMap, rig.Key("p"), tc.change)
					require.NoError(t, err)
				}
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if !slices.Contains([]string{"get", "list"}, r.Verb) {
						return apierrors.NewForbidden(schema.GroupResource{}, r.Verb, errors.New("a reader"))
					}
					return nil
				}})
				lines, err := planWith(t, server, cfg, handler.SyncFunc(rig.Copier), rig.PlanOptions{ReadOnly: true, Edited: tc.edited})
				require.NoError(t, err)
				require.Equal(t, tc.want, lines, tc.reason)
			})
		})
	}
	t.Run("Taken", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server := rig.Server()
			rig.CreateParent(t, server, "p", "1")
			object := rig.Copied("p", "theirs")
			metaOf(object)["namespace"] = "ns"
			_, err := server.Create(object)
			require.NoError(t, err)
			_, err = planWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), rig.PlanOptions{ReadOnly: true})
			require.ErrorContains(t, err, "already exists and is not managed by op", "a read tells")
		})
	})
}

// The handler is told, and Finalize isn't called, also for parents as they would be.
func TestIsPlanFor(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "goes", "1")
		converge(t, server, rig.Config(), new(registry))
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("goes")))
		h := new(registry)
		_, err := planWith(t, server, rig.Config(), h, rig.PlanOptions{Edited: []plan.Edited{editedParent("goes", "2"), editedParent("new", "1")}})
		require.NoError(t, err)
		require.Equal(t, []string{"sync new plan=true"}, h.calls)
		rig.Elapse(time.Second)
	})
}

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A parent that fails doesn't keep the others from being planned.
func TestPlanErrors(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		for _, name := range []string{"c", "a", "b"} {
			rig.CreateParent(t, server, name, "1")
		}
		lines, err := planOf(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if req.Parent.Name() == "b" {
				return nil, errors.New("no idea")
			}
			return rig.Copier(ctx, req)
		}))
		require.EqualError(t, err, "Parent ns/b: handler: Sync: no idea")
		require.Len(t, lines, 4)
		require.Equal(t, "a: create ConfigMap a", lines[0])
		require.Equal(t, "c: create ConfigMap c", lines[2])
	})
}

// What the server would refuse is an error of the plan, with what would help.
func TestPlanRefusals(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	refusing := func(verb string, refusal error) fakeapi.Hooks {
		return fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == verb && r.Type == k8s.ConfigMap {
				return refusal
			}
			return nil
		}}
	}
	for name, tc := range map[string]struct {
		reason  string
		foreign bool // a ConfigMap of the name is there
		hooks   fakeapi.Hooks
		want    string
	}{
		"Taken": {reason: "by somebody else", foreign: true, want: "Parent ns/p: ConfigMap ns/p: already exists and is not managed by op (nobody manages it; Adopt or AdoptOffered in its config.Child would let the operator take it)"},
		"Forbidden": {
			reason: "by RBAC: the rule that would allow it",
			hooks:  refusing("create", apierrors.NewForbidden(configMaps, "", errors.New(`User "me" cannot create resource "configmaps" in API group "" in the namespace "ns"`))),
			want: `Parent ns/p: ConfigMap ns/p: create: configmaps is forbidden: User "me" cannot create resource "configmaps" in API group "" in the namespace "ns"; ` +
				`add the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["create"]}`,
		},
		"Admission": {
			reason: "forbids in other words, and no rule would help",
			hooks:  refusing("create", apierrors.NewForbidden(configMaps, "p", errors.New("exceeded quota"))),
			want:   `Parent ns/p: ConfigMap ns/p: create: configmaps "p" is forbidden: exceeded quota`,
		},
		"BlockOwnerDeletion": {
			reason: "OwnerReferencesPermissionEnforcement asks for a right on the parent",
			hooks: refusing("create", apierrors.NewForbidden(configMaps, "p",
				errors.New("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>"))),
			want: `Parent ns/p: ConfigMap ns/p: create: configmaps "p" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource ` +
				`you can't set finalizers on: , <nil>; add the rule {apiGroups: ["example.com"], resources: ["parents/finalizers"], verbs: ["update"]}`,
		},
		"List": {
			reason: "nothing can be planned",
			hooks:  refusing("list", apierrors.NewForbidden(configMaps, "", errors.New(`no`))),
			want:   `v1/ConfigMap: list: configmaps is forbidden: no; add the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["list"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				rig.CreateParent(t, server, "p", "1")
				if tc.foreign {
					object := rig.Copied("p", "theirs")
					metaOf(object)["namespace"] = "ns"
					_, err := server.Create(object)
					require.NoError(t, err)
				}
				server.SetHooks(tc.hooks)
				lines, err := planOf(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
				require.EqualError(t, err, tc.want, tc.reason)
				require.NotContains(t, strings.Join(lines, "\n"), "ConfigMap", tc.reason)
			})
		})
	}
}

// An object that would be adopted, and then be made as desired.
func TestPlanAdopts(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		value    string
		want     string // what is said of data.value
		verb     string
	}{
		"AsDesired": {"only the labels and the owner are set", config.Replace, "1", "", "update"},
		"Replace":   {"both at once, as it is one object", config.Replace, "theirs", `  data.value: "theirs" -> "1"`, "update"},
		"Recreate":  {"it will be deleted", config.Recreate, "theirs", `  data.value: "theirs" -> "1"`, "recreate"},
		"OnDelete":  {"it stays as it is, but ours", config.OnDelete, "theirs", "", "update"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Children[0].Strategy, cfg.Children[0].Adopt = tc.strategy, true
				rig.CreateParent(t, server, "p", "1")
				object := rig.Copied("p", tc.value)
				metaOf(object)["namespace"] = "ns"
				_, err := server.Create(object)
				require.NoError(t, err)
				lines, err := planOf(t, server, cfg, handler.SyncFunc(rig.Copier))
				require.NoError(t, err)
				require.Equal(t, "p: "+tc.verb+" ConfigMap p", lines[0], tc.reason)
				all := strings.Join(lines[1:], "\n")
				require.Contains(t, all, "metadata.labels", tc.reason)
				require.Contains(t, all, "metadata.ownerReferences", tc.reason)
				if tc.want == "" {
					require.NotContains(t, all, "data.value", tc.reason)
				} else {
					require.Equal(t, tc.want, lines[1], tc.reason)
				}
			})
		})
	}
}

// What the server only writes differently is no change, whatever the strategy,
// also beside one that is.
func TestPlanNormalized(t *testing.T) {
	normalize := func(_ fakeapi.Request, o map[string]any) error {
		if o["kind"] != "ConfigMap" {
			return nil
		}
		data, _ := o["data"].(map[string]any)
		for key, value := range data {
			if text, ok := value.(string); ok {
				data[key] = strings.TrimSuffix(text, "000m")
			}
		}
		return nil
	}
	want := func(cpu, other string) handler.Handler {
		return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			object := rig.Copied("p", cpu)
			object["data"] = map[string]any{"cpu": cpu, "other": other}
			return &handler.SyncResponse{Children: []any{object}}, nil
		})
	}
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Children[0].Strategy = strategy
				server.SetHooks(fakeapi.Hooks{Admit: normalize})
				rig.CreateParent(t, server, "p", "1")
				converge(t, server, cfg, want("2000m", "a"))
				live := server.Get(k8s.ConfigMap, rig.Key("p"))
				cpu, _ := live.Field("data", "cpu")
				require.Equal(t, "2", cpu)
				lines, err := planOf(t, server, cfg, want("2000m", "a"))
				require.NoError(t, err)
				require.Empty(t, lines)
				lines, err = planOf(t, server, cfg, want("2000m", "b"))
				require.NoError(t, err)
				verb := map[config.UpdateStrategy]string{config.Replace: "update", config.Recreate: "recreate"}[strategy]
				require.Equal(t, planned("p: "+verb+" ConfigMap p", `  data.other: "a" -> "b"`), lines)
			})
		})
	}
}

// What changes between the lists and the dry run is looked at again.
func TestPlanChangesMeanwhile(t *testing.T) {
	change := func(server *fakeapi.Server, of resource.Type, field, value string) error {
		_, err := server.Change(of, rig.Key("p"), func(o map[string]any) { o[field] = map[string]any{"value": value} })
		return err
	}
	for name, tc := range map[string]struct {
		reason string
		before func(server *fakeapi.Server, r fakeapi.Request, n int) error // the nth update of its type
		want   []string
	}{
		"Child": {"the newer state differs otherwise", func(server *fakeapi.Server, r fakeapi.Request, n int) error {
			if r.Type != k8s.ConfigMap || n > 1 {
				return nil
			}
			return change(server, k8s.ConfigMap, "data", "newer")
		}, planned("p: update ConfigMap p", `  data.value: "newer" -> "2"`)},
		"ChildTwice": {"the second state is as new to the plan", func(server *fakeapi.Server, r fakeapi.Request, n int) error {
			if r.Type != k8s.ConfigMap || n > 2 {
				return nil
			}
			return change(server, k8s.ConfigMap, "data", fmt.Sprint("newer ", n))
		}, planned("p: update ConfigMap p", `  data.value: "newer 2" -> "2"`)},
		"NotTheChild": {"a conflict for a moment is no answer about the child", func(_ *fakeapi.Server, r fakeapi.Request, n int) error {
			if r.Type != k8s.ConfigMap || n > 1 {
				return nil
			}
			return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "p", errors.New("for a moment"))
		}, planned("p: update ConfigMap p", `  data.value: "1" -> "2"`)},
		"Parent": {"the plan is for what it is now", func(server *fakeapi.Server, r fakeapi.Request, n int) error {
			if r.Type != sample.ParentType() || n > 1 {
				return nil
			}
			return change(server, sample.ParentType(), "spec", "3")
		}, planned("p: update Parent p", `  status.observedGeneration: 1 -> 3`, `  status.value: "1" -> "3"`)},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if name == "Parent" {
						value, _ := req.Parent.Field("spec", "value")
						return &handler.SyncResponse{Status: map[string]any{"value": value}}, nil
					}
					resp, err := rig.Copier(ctx, req)
					resp.Status = nil
					return resp, err
				})
				rig.CreateParent(t, server, "p", "1")
				converge(t, server, cfg, h)
				require.NoError(t, change(server, sample.ParentType(), "spec", "2"))
				var mu sync.Mutex
				updates := map[resource.Type]int{}
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb != "update" {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					updates[r.Type]++
					return tc.before(server, r, updates[r.Type])
				}})
				lines, err := planOf(t, server, cfg, h)
				require.NoError(t, err)
				require.Equal(t, tc.want, lines, tc.reason)
			})
		})
	}
}

func TestPlanHidesSecrets(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}
		secrets := func(value string, names ...string) handler.Handler {
			return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				var children []any
				for _, name := range names {
					children = append(children, map[string]any{
						"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
						"metadata": map[string]any{"name": name, "annotations": map[string]any{"copy": value}},
						"data":     map[string]any{"password": value},
					})
				}
				return &handler.SyncResponse{Children: children}, nil
			})
		}
		rig.CreateParent(t, server, "p", "1")
		converge(t, server, cfg, secrets("b2xk", "s"))
		lines, err := planOf(t, server, cfg, secrets("bmV3", "s", "t"))
		require.NoError(t, err)
		require.Equal(t, planned(
			"p: update Secret s",
			`  data.password: "(hidden)" -> "(hidden)"`,
			`  metadata.annotations.copy: "(hidden)" -> "(hidden)"`,
			"p: create Secret t",
			`  : null -> {"apiVersion":"v1","data":{"password":"(hidden)"},"kind":"Secret","metadata":{"annotations":{"copy":"(hidden)"},"name":"t","namespace":"ns"},"type":"Opaque"}`,
		), lines)
	})
}

// An operator that runs with DryRun logs what it would do, each thing once.
func TestDryRunLogsOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		rig.CreateParent(t, server, "p", "1")
		converge(t, server, cfg, handler.SyncFunc(rig.Copier))
		_, err := server.Change(k8s.ConfigMap, rig.Key("p"), func(o map[string]any) { o["data"] = map[string]any{"value": "drifted"} })
		require.NoError(t, err)
		before, events := server.Writes(), server.List(k8s.Event)
		cfg.DryRun, cfg.ParentSelector, cfg.FormerFinalizers = true, "!gone", []string{"old"}
		rig.CreateParent(t, server, "q", "1", "old")
		r := rig.Start(t, server, cfg, handler.Funcs{SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp, err := rig.Copier(ctx, req)
			resp.Resync = time.Second
			resp.Events = []handler.Event{{Type: "Normal", Reason: "R", Message: "m"}}
			return resp, err
		}})
		rig.Elapse(time.Minute)
		info := func() []string {
			var lines []string
			for line := range strings.Lines(r.Logs.String()) {
				if _, said, ok := strings.Cut(line, `msg="dry run" `); ok && strings.Contains(line, "level=INFO") {
					lines = append(lines, regexp.MustCompile(`syncID=\w+ `).ReplaceAllString(strings.TrimSpace(said), ""))
				}
			}
			return lines
		}
		require.ElementsMatch(t, planned(
			`controller=op namespace=ns name=p would=update child="ConfigMap ns/p" fields="[data.value: \"drifted\" -> \"1\"]"`,
			`controller=op namespace=ns name=q would=update child="Parent ns/q" fields="[metadata.finalizers: [\"old\"] -> null]"`,
			`controller=op namespace=ns name=q would=create child="ConfigMap ns/q" fields=[]`,
		), info())
		require.Greater(t, r.Passes(), 50)
		r.SetSpec("p", "2")
		rig.Elapse(time.Minute)
		require.Len(t, info(), 4, "another thing to do")
		// One that leaves the selector isn't released.
		r.Change(sample.ParentType(), "q", func(o map[string]any) { metaOf(o)["labels"] = map[string]any{"gone": "true"} })
		rig.Elapse(time.Minute)
		r.Stop()
		require.Equal(t, before, server.Writes())
		require.Equal(t, events, server.List(k8s.Event), "those from before")
	})
}

func TestPlanIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m, err := rig.NewOne(rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: rig.Server().RESTConfig(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = m.Plan(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

package explain

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

type object = map[string]any

// named returns a child.
func named(apiVersion, kind, name string, rest object) object {
	out := object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name}}
	maps.Copy(out, rest)
	return out
}

func configMap(name, text string) object {
	return named("v1", "ConfigMap", name, object{"data": object{"text": text}})
}

func part(name, text string) object {
	return named(partType.APIVersion, "Part", name, object{"spec": object{"text": text}})
}

// text returns what the parent says.
func text(req *handler.SyncRequest) string {
	value, _ := req.Parent.Field("spec", "text")
	said, _ := value.(string)
	return said
}

// always returns a handler that wants these children, and has no status.
func always(children func(req *handler.SyncRequest) []any) handler.Handler {
	return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: children(req)}, nil
	})
}

// web returns a handler whose children have fields of many kinds.
func web() handler.Handler {
	return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		labels := object{"app": "blog"}
		pod := object{"metadata": object{"labels": labels}, "spec": object{"containers": []any{object{
			"name": "main", "image": "example.com/blog:1", "resources": object{"requests": object{"cpu": "1000m"}}, "env": []any{object{"name": "LOG", "value": "info"}},
		}}}}
		return &handler.SyncResponse{
			Status: object{"text": text(req)},
			Children: []any{
				configMap("blog", text(req)),
				named("v1", "Secret", "blog", object{"stringData": object{"password": "secret-" + text(req)}}),
				named("apps/v1", "Deployment", "blog", object{"spec": object{"replicas": 2, "selector": object{"matchLabels": labels}, "template": pod}}),
			},
		}, nil
	})
}

func webConfig() config.Operator {
	return config.Operator{Children: []config.Child{
		{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.Secret, Strategy: config.Replace}, {Type: k8s.Deployment, Strategy: config.Replace},
	}}
}

// TestSituations has a golden file for each situation in which somebody asks why.
func TestSituations(t *testing.T) {
	for name, play := range map[string]func(t *testing.T){
		"Settled": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "hello"})
			s.golden("settled.txt", "Site NAMESPACE/blog: settled")
		},
		"NotReady": func(t *testing.T) { // also: what the API server normalizes is no difference
			cfg := webConfig()
			cfg.ReadyCondition = true
			s := newStage(t, cfg, web())
			s.begin(object{"text": "hello"})
			s.golden("not-ready.txt", "Site NAMESPACE/blog: not ready")
		},
		"Edited": func(t *testing.T) {
			s := newStage(t, webConfig(), web())
			s.begin(object{"text": "hello"})
			s.stop()
			s.patch("kubectl-edit", "configmaps", "blog", `{"data":{"text":"mine","more":"x"}}`)
			s.patch("kubectl-edit", "secrets", "blog", `{"data":{"password":"bWluZQ=="}}`)
			s.patch("autoscaler", "deployments", "blog", `{"spec":{"replicas":5}}`, "scale")
			s.patch("kubectl-set", "deployments", "blog", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.com/blog:mine","resources":{"requests":{"cpu":"1"}},"env":[]}]}}}}`)
			s.golden("edited.txt", `"kubectl-edit", Update`)
		},
		"EditedJSON": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "hello"})
			s.stop()
			s.patch("kubectl-edit", "configmaps", "blog", `{"data":{"text":"mine"}}`)
			s.golden("edited.json", `"manager": "kubectl-edit"`, "-o", "json")
		},
		"Removed": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "hello"})
			s.stop()
			s.patch("kubectl-edit", "configmaps", "blog", `{"data":{"text":null,"other":"y"}}`)
			s.golden("removed.txt", "nobody owns it")
		},
		"Quota": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.create(k8s.ResourceQuota, "few", object{"spec": object{"hard": object{"count/configmaps": "0"}}})
			s.patch("quota", "resourcequotas", "few", `{"status":{"hard":{"count/configmaps":"0"},"used":{"count/configmaps":"0"}}}`, "status")
			s.create(siteType, "blog", object{"spec": object{"text": "hello"}})
			s.golden("quota.txt", "exceeded quota")
		},
		"Foreign": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.create(k8s.ConfigMap, "blog", object{"data": object{"text": "not yours"}})
			s.begin(object{"text": "hello"})
			s.golden("foreign.txt", "foreign")
		},
		"Order": func(t *testing.T) {
			cfg := config.Operator{ReadyCondition: true, Children: []config.Child{{Type: partType, Strategy: config.Replace}, {Type: k8s.ConfigMap, Strategy: config.Replace}}}
			s := newStage(t, cfg, always(func(req *handler.SyncRequest) []any {
				db := part("db", text(req))
				return []any{db, handler.After(configMap("blog", text(req)), db), handler.When(configMap("later", "x"), false)}
			}))
			s.begin(object{"text": "hello"})
			s.patch("controller", "parts", "db", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Starting","message":"it starts","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
			s.settle() // the operator knows that db isn't ready before the other goes
			s.remove(k8s.ConfigMap, "blog")
			s.golden("order.txt", "waits for Part NAMESPACE/db")
		},
		"Rollout": func(t *testing.T) {
			cfg := config.Operator{Children: []config.Child{{Type: partType, Strategy: config.Replace, Roll: &config.Roll{}}}}
			s := newStage(t, cfg, always(func(req *handler.SyncRequest) []any {
				return []any{part("a", text(req)), part("b", text(req)), part("c", text(req))}
			}))
			s.begin(object{"text": "one"})
			s.patch("controller", "parts", "a", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Starting","message":"it starts","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
			s.patch("user", "sites", "blog", `{"spec":{"text":"two"}}`)
			s.settle()
			s.golden("rollout.txt", "the rollout updates it once")
		},
		"Paused": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "hello"})
			s.patch("kubectl-annotate", "sites", "blog", `{"metadata":{"annotations":{"roperator.com/paused":"true"}},"spec":{"text":"changed"}}`)
			s.settle()
			s.golden("paused.txt", "Site NAMESPACE/blog: paused")
		},
		"FailingHandler": func(t *testing.T) {
			s := newStage(t, config.Operator{}, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				if text(req) == "bad" {
					return nil, errors.New("the text is bad")
				}
				return &handler.SyncResponse{Children: []any{configMap("blog", text(req))}}, nil
			}))
			s.begin(object{"text": "hello"})
			s.patch("user", "sites", "blog", `{"spec":{"text":"bad"}}`)
			s.golden("failing-handler.txt", "passes have failed")
		},
		"Loop": func(t *testing.T) {
			var calls atomic.Int64
			flapping := always(func(*handler.SyncRequest) []any {
				return []any{configMap("blog", []string{"a", "b"}[calls.Add(1)%2])}
			})
			s := newStage(t, config.Operator{}, flapping)
			s.handler = always(func(*handler.SyncRequest) []any { return []any{handler.When(configMap("other", "c"), false)} })
			s.create(siteType, "blog", object{"spec": object{}})
			s.golden("loop.txt", "throttled")
		},
		"Finalizing": func(t *testing.T) {
			s := newStage(t, config.Operator{}, handler.Funcs{
				SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Children: []any{configMap("blog", text(req))}}, nil
				},
				FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
					return nil, errors.New("the bucket isn't empty")
				},
			})
			s.begin(object{"text": "hello"})
			s.forget("sites", "blog")
			s.remove(siteType, "blog")
			s.golden("finalizing.txt", "the bucket isn't empty")
		},
		"Undesired": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any {
				out := []any{configMap("blog", "x")}
				if text(req) == "more" {
					out = append(out, configMap("more", "y"))
				}
				return out
			}))
			s.begin(object{"text": "more"})
			s.stop()
			s.patch("user", "sites", "blog", `{"spec":{"text":"less"}}`)
			s.golden("undesired.txt", "undesired")
		},
		"Related": func(t *testing.T) {
			cfg := config.Operator{Related: []config.Related{{Type: k8s.Secret, Fields: []string{"spec.secrets[*].name"}}, {Type: k8s.ConfigMap}}}
			s := newStage(t, cfg, handler.Funcs{
				SyncFunc: func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Children: []any{configMap("blog", "x")}}, nil
				},
				RelateFunc: func(*resource.Resource) ([]handler.Ref, error) {
					return []handler.Ref{{Type: k8s.ConfigMap, Selector: "tier=gold"}, {Type: k8s.ConfigMap, Selector: "tier=none"}}, nil
				},
			})
			s.create(k8s.Secret, "key", object{"stringData": object{"password": "hidden"}})
			s.Create(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "gold", "namespace": s.Namespace, "labels": object{"tier": "gold"}}})
			s.begin(object{"secrets": []any{object{"name": "key"}, object{"name": "lost"}}})
			s.golden("related.txt", "missing (from spec.secrets[*].name)")
		},
		"OnDelete": func(t *testing.T) {
			cfg := config.Operator{Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.OnDelete}}}
			s := newStage(t, cfg, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "one"})
			s.patch("user", "sites", "blog", `{"spec":{"text":"two"}}`)
			s.settle()
			s.golden("on-delete.txt", "its strategy is OnDelete")
		},
		"NamespaceEnds": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "hello"})
			s.stop()
			s.Delete(object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": s.Namespace}})
			s.remove(k8s.ConfigMap, "blog")
			s.golden("namespace-ends.txt", "its namespace is being deleted")
		},
		"Immutable": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any {
				return []any{named("v1", "ConfigMap", "blog", object{"immutable": true, "data": object{"text": text(req)}})}
			}))
			s.begin(object{"text": "one"})
			s.patch("user", "sites", "blog", `{"spec":{"text":"two"}}`)
			s.golden("immutable.txt", "can't change the immutable field")
		},
		"ImmutableSecret": func(t *testing.T) { // neither the explanation nor the process tells a value
			cfg := config.Operator{Children: []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}}
			s := newStage(t, cfg, always(func(req *handler.SyncRequest) []any {
				return []any{named("v1", "Secret", "blog", object{"immutable": true, "stringData": object{"password": "secret-" + text(req)}})}
			}))
			s.begin(object{"text": "one"})
			s.patch("user", "sites", "blog", `{"spec":{"text":"two"}}`)
			s.golden("immutable-secret.txt", "can't change the immutable field")
			require.NotContains(t, s.answer("name=blog&namespace="+s.Namespace), "secret-")
		},
		"LoopOfSecrets": func(t *testing.T) {
			var calls atomic.Int64
			cfg := config.Operator{Children: []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}}
			s := newStage(t, cfg, always(func(*handler.SyncRequest) []any {
				return []any{named("v1", "Secret", "blog", object{"stringData": object{"password": []string{"secret-a", "secret-b"}[calls.Add(1)%2]}})}
			}))
			s.handler = always(func(*handler.SyncRequest) []any { return nil })
			s.create(siteType, "blog", object{"spec": object{}})
			s.golden("loop-of-secrets.txt", "throttled")
		},
		"ImmutableCondition": func(t *testing.T) { // told by the conditions alone
			cfg := config.Operator{ReadyCondition: true}
			s := newStage(t, cfg, always(func(req *handler.SyncRequest) []any {
				return []any{named("v1", "ConfigMap", "blog", object{"immutable": true, "data": object{"text": text(req)}})}
			}))
			s.begin(object{"text": "one"})
			s.patch("user", "sites", "blog", `{"spec":{"text":"two"}}`)
			s.settle()
			s.stop()
			s.golden("immutable-condition.txt", "Site NAMESPACE/blog: failing")
		},
		"NotSelected": func(t *testing.T) {
			cfg := config.Operator{ParentSelector: "shard=one"}
			s := newStage(t, cfg, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "hello"})
			s.golden("not-selected.txt", "Site NAMESPACE/blog: not selected")
		},
		"Teardown": func(t *testing.T) {
			cfg := config.Operator{Teardown: config.TeardownOrdered, Children: []config.Child{
				{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.Secret, Strategy: config.Replace, Retain: true}, {Type: partType, Strategy: config.Replace},
			}}
			s := newStage(t, cfg, always(func(*handler.SyncRequest) []any {
				return []any{configMap("blog", "x"), named("v1", "Secret", "kept", nil), part("db", "y")}
			}))
			s.begin(object{})
			s.forget("sites", "blog")
			s.stop()
			s.remove(siteType, "blog")
			s.golden("teardown.txt", "it is deleted once these are gone")
		},
		"NotFound": func(t *testing.T) {
			s := newStage(t, config.Operator{}, always(func(*handler.SyncRequest) []any { return nil }))
			s.begin(object{})
			s.name = "blgo"
			s.golden("not-found.txt", "did you mean NAMESPACE/blog?")
		},
		"Narrow": func(t *testing.T) {
			t.Setenv("COLUMNS", "60")
			s := newStage(t, config.Operator{}, always(func(req *handler.SyncRequest) []any { return []any{configMap("blog", text(req))} }))
			s.begin(object{"text": "hello"})
			s.stop()
			s.patch("kubectl-edit", "configmaps", "blog", `{"data":{"text":"mine"}}`)
			s.golden("narrow.txt", "kubectl-edit")
		},
	} {
		t.Run(name, play)
	}
}

package testkit

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// builders is an operator with children of many types.
func builders(strategy config.UpdateStrategy) config.Operator {
	return config.Operator{Name: "builders", Parent: siteType, Children: []config.Child{
		{Type: k8s.Deployment, Strategy: strategy}, {Type: k8s.Service, Strategy: strategy}, {Type: k8s.Secret, Strategy: strategy},
		{Type: k8s.ConfigMap, Strategy: strategy}, {Type: gadgetType, Strategy: strategy},
	}}
}

var gadgetType = resource.Type{APIVersion: "example.com/v1", Kind: "Gadget"}

// returning is a handler that always wants the same.
func returning(children ...any) handler.Handler {
	return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: children}, nil
	})
}

func deployment(spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}, "spec": spec}
}

// whole is a spec that an API server accepts.
func whole(more map[string]any) map[string]any {
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": "nginx"}}}},
	}
	maps.Copy(spec, more)
	return spec
}

func TestSyncChecksSchemas(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		live     []any
		children []any
		want     []string // in the error; none: no error
	}{
		"typo":  {"the object and the field are named", nil, []any{deployment(whole(map[string]any{"replica": 1}))}, []string{"Deployment default/web: spec.replica: unknown field (spec.replicas?)"}},
		"type":  {"a string is no int", nil, []any{deployment(whole(map[string]any{"replicas": "3"}))}, []string{`Deployment default/web: spec.replicas: wants an integer (int32), not the string "3"`}},
		"valid": {"nothing is wrong", nil, []any{deployment(whole(map[string]any{"replicas": 3}))}, nil},
		"missing": {
			"a Deployment without a template can't be created", nil, []any{deployment(map[string]any{"replicas": 3})},
			[]string{"Deployment default/web: spec.selector: must be set", "Deployment default/web: spec.template: must be set"},
		},
		"missing in what is there": {
			"an update sends what differs, merged into the live object", []any{deployment(whole(nil))}, []any{deployment(map[string]any{"replicas": 3})}, nil,
		},
		"a typo in what is up to date": {
			"the child can't be live like this", []any{deployment(whole(map[string]any{"replica": 1}))}, []any{deployment(whole(map[string]any{"replica": 1}))},
			[]string{"spec.replica: unknown field"},
		},
		"typed": {
			"zeros and nulls of typed objects are nothing", nil, []any{
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
					Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}},
				}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			}, nil,
		},
		"typed, missing": {
			"a typed object has null where nothing is set", nil,
			[]any{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}},
			[]string{"spec.selector: must be set", "spec.template: must be set"},
		},
		"apply configuration": {
			"what isn't set isn't there", nil, []any{applyv1.Service("web", "default").WithSpec(applyv1.ServiceSpec().WithPorts(applyv1.ServicePort().WithName("http")))},
			[]string{"Service default/web: spec.ports[0].port: must be set"},
		},
		"waiting":     {"what waits is created some time", nil, []any{handler.When(deployment(whole(map[string]any{"replica": 1})), false)}, []string{"spec.replica"}},
		"fields left": {"they are set at creation", nil, []any{handler.Leave(deployment(whole(map[string]any{"replicas": "3"})), "spec.replicas")}, []string{"spec.replicas"}},
		"null":        {"null is no opinion", nil, []any{deployment(whole(map[string]any{"replicas": nil}))}, nil},
		"status":      {"the status of a child isn't sent", nil, []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "status": map[string]any{"x": 1}}}, nil},
		"metadata":    {"it has a schema too", nil, []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "label": map[string]any{}}}}, []string{"ConfigMap default/c: metadata.label: unknown field (metadata.labels?)"}},
		"custom":      {"nothing is known of it", nil, []any{map[string]any{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "w"}, "sepc": 1}}, nil},
		"secret": {
			"values of Secrets are in no text", nil,
			[]any{map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "stringData": map[string]any{"a": 1234567}}},
			[]string{"Secret default/s: stringData[a]: wants a string, not this number"},
		},
	} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
			t.Run(name+" "+string(strategy), func(t *testing.T) {
				if name == "missing in what is there" && strategy == config.Recreate {
					t.Skip("it is created anew")
				}
				var plan *Plan
				failed := fake(t, func(tb testing.TB) {
					plan = Sync(tb, builders(strategy), returning(tc.children...), site(nil), tc.live...)
				})
				if len(tc.want) == 0 {
					require.NoError(t, plan.err, tc.reason)
					return
				}
				for _, want := range tc.want {
					require.ErrorContains(t, plan.err, want, tc.reason)
					require.Contains(t, failed.failure(), want, "the test fails")
					require.Contains(t, plan.String(), want)
				}
			})
		}
	}
}

// TestSyncRecreatesWithAllThatIsRequired: what is deleted and created anew has to be whole.
func TestSyncRecreatesWithAllThatIsRequired(t *testing.T) {
	Sync(t, builders(config.Recreate), returning(deployment(map[string]any{"replicas": 3})), site(nil), deployment(whole(nil))).
		WantUpdate(deployment(map[string]any{"replicas": 3})).
		WantError("spec.template: must be set")
}

// TestSyncWantsAnInvalidChild: a test may want what an API server would refuse.
func TestSyncWantsAnInvalidChild(t *testing.T) {
	wrong := deployment(whole(map[string]any{"replica": 1}))
	Sync(t, builders(config.Replace), returning(wrong), site(nil)).
		WantCreate(wrong).
		WantError("Deployment default/web: spec.replica: unknown field")
	failed := fake(t, func(tb testing.TB) {
		Sync(tb, builders(config.Replace), returning(wrong), site(nil)).WantCreate(wrong).WantNothing()
	})
	require.Contains(t, failed.failure(), "spec.replica")
}

// TestSyncWantsEachError: an error that was expected doesn't hide another one.
func TestSyncWantsEachError(t *testing.T) {
	web, db := deployment(whole(map[string]any{"replica": 1, "image": "x"})), deployment(whole(map[string]any{"pod": "y"}))
	db["metadata"] = map[string]any{"name": "db"}
	expecting := func(texts ...string) string {
		return fake(t, func(tb testing.TB) {
			plan := Sync(tb, builders(config.Replace), returning(web, db), site(nil)).WantCreate(web).WantCreate(db)
			for _, text := range texts {
				plan.WantError(text)
			}
		}).failure()
	}
	require.Empty(t, expecting("spec.replica: unknown field", "spec.pod: unknown field"))
	require.Empty(t, expecting("unknown field"), "each has the text")
	require.Empty(t, expecting("(spec.replicas?)\nDeployment default/db"), "a text that spans both")
	one := expecting("spec.replica: unknown field")
	require.Contains(t, one, "not expected:\n  fail: Deployment default/db: spec.pod: unknown field")
	require.NotContains(t, one, "spec.image", "what is wrong with one child is one reason")
	require.Contains(t, expecting("spec.pods"), `want an error with "spec.pods", not "Deployment default/web`)
}

// TestSyncOfAnInvalidStatus: nothing of an invalid response is carried out, whatever is wrong with it.
func TestSyncOfAnInvalidStatus(t *testing.T) {
	web := deployment(whole(map[string]any{"replicas": 1}))
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{
			Children: []any{web}, Status: map[string]any{"conditions": []any{map[string]any{"type": "Live", "status": "True"}}},
		}, nil
	})
	require.Empty(t, fake(t, func(tb testing.TB) {
		Sync(tb, builders(config.Replace), h, site(nil)).WantError("invalid response: ").WantError("reason: missing")
	}).failure())
	require.Contains(t, fake(t, func(tb testing.TB) {
		Sync(tb, builders(config.Replace), h, site(nil)).WantError("reason: missing").WantCreate(web)
	}).failure(), "create")
}

// TestSyncTellsWhatIsNotChecked: who wonders reads it in the log, once for each type.
func TestSyncTellsWhatIsNotChecked(t *testing.T) {
	widget := func(name string) map[string]any {
		return map[string]any{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": name}}
	}
	told := fake(t, func(tb testing.TB) {
		Sync(tb, builders(config.Replace), returning(widget("a"), widget("b")), site(nil)).WantCreate(widget("a")).WantCreate(widget("b"))
	})
	require.Empty(t, told.failure())
	require.Regexp(t, `(?s)no example.com/v1/Gadget is checked by its schema.*built into Kubernetes v1\.\d+`, told.logged())
	require.NotRegexp(t, `(?s)is checked by its schema.*is checked by its schema`, told.logged())
}

// TestSyncChecksWhatIsReturned: what is kept, and what belongs to a pass that failed, isn't.
func TestSyncChecksWhatIsReturned(t *testing.T) {
	wrong := deployment(whole(map[string]any{"replica": 1}))
	keep := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		child, _ := req.Children.OfType(k8s.Deployment).First()
		return &handler.SyncResponse{Children: []any{handler.Keep(child)}}, nil
	})
	Sync(t, builders(config.Replace), keep, site(nil), wrong).WantNothing()
	fails := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{wrong}}, errors.New("not now")
	})
	plan := Sync(t, builders(config.Replace), fails, site(nil)).WantError("not now")
	require.NotContains(t, plan.err.Error(), "replica")
}

// TestSyncChecksTheStatusOfABuiltInParent: it is sent, but what the engine adds is not for the test to mend.
func TestSyncChecksTheStatusOfABuiltInParent(t *testing.T) {
	cfg := config.Operator{Name: "nodes", Parent: k8s.Namespace, Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}}}
	parent := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	for name, tc := range map[string]struct {
		reason string
		status any
		want   string
	}{
		"unknown": {"a Namespace has a phase", map[string]any{"phas": "Active"}, "Namespace one: status.phas: unknown field (status.phase?)"},
		"known":   {"what the engine adds isn't the handler's", map[string]any{"phase": "Active"}, ""},
		"typed":   {"a typed status fits", corev1.NamespaceStatus{Phase: corev1.NamespaceActive, Conditions: []corev1.NamespaceCondition{{Type: "A", Status: "True", Reason: "B"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Status: tc.status}, nil
			})
			plan := Sync(t, cfg, h, parent).WantStatus(tc.status)
			if tc.want == "" {
				require.NoError(t, plan.err, tc.reason)
				return
			}
			plan.WantError(tc.want)
		})
	}
}

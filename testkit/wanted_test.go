package testkit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

func TestWantedObject(t *testing.T) {
	t.Parallel()
	type part struct {
		Name string         `json:"name"`
		Port int            `json:"port"`
		More map[string]int `json:"more"`
	}
	type own struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		part
		Spec struct {
			Size   *int            `json:"size"`
			On     bool            `json:"on"`
			Parts  []part          `json:"parts"`
			ByName map[string]part `json:"byName"`
			Hidden string          `json:"-"`
			Plain  string
			Empty  struct {
				List []string `json:"list,omitempty"`
			} `json:"empty"`
		} `json:"spec"`
	}
	typed := &own{ObjectMeta: metav1.ObjectMeta{Name: "x"}, part: part{Port: 7}}
	typed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Own"}
	typed.Spec.Size, typed.Spec.Hidden = new(0), "h"
	typed.Spec.Parts = []part{{Name: "a"}, {}}
	typed.Spec.ByName = map[string]part{"b": {Port: 1, More: map[string]int{}}}
	typed.Spec.Empty.List = []string{}
	for name, tc := range map[string]struct {
		reason string
		obj    any
		want   map[string]any
	}{
		"OwnType": {"what is zero isn't set, a pointer to zero is", typed, map[string]any{
			"apiVersion": "v1", "kind": "Own", "metadata": map[string]any{"name": "x"}, "port": int64(7),
			"spec": map[string]any{
				"size": int64(0), "parts": []any{map[string]any{"name": "a"}, map[string]any{}},
				"byName": map[string]any{"b": map[string]any{"port": int64(1), "more": map[string]any{}}},
			},
		}},
		"BuiltIn": {
			"types that encode themselves are left alone; the type is filled in",
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(0)}, {Port: 81, TargetPort: intstr.FromString("web")}}}},
			map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{
				"ports": []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(81), "targetPort": "web"}},
			}},
		},
		"Quantity": {
			"as it is encoded",
			corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": kresource.MustParse("0")}}},
			map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "spec": map[string]any{"hard": map[string]any{"pods": "0"}}},
		},
		"Map": {
			"all of it is set",
			map[string]any{"kind": "Own", "zero": 0, "none": map[string]any{}, "nil": nil},
			map[string]any{"kind": "Own", "zero": int64(0), "none": map[string]any{}, "nil": nil},
		},
		"Wrapped": {"as what is in it", handler.When(&corev1.Namespace{}, true), map[string]any{"apiVersion": "v1", "kind": "Namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := wantedObject(tc.obj)
			require.NoError(t, err)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// bare is a Deployment as a test names it, sized as a handler makes it, in a map.
func bare(size int) (wanted *appsv1.Deployment, made map[string]any) {
	wanted = &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(size)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}},
	}
	return wanted, map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": size, "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "example.com/web", "ports": []any{map[string]any{"containerPort": 80}}}}},
			},
		},
	}
}

func TestWantOfATypedObject(t *testing.T) {
	t.Parallel()
	wanted, made := bare(0)
	cfg := config.Operator{Name: "bare", Parent: siteType, Children: []config.Child{{Type: k8s.Deployment, Strategy: config.Replace}}}
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{made}}, nil
	})
	_, other := bare(3)
	Sync(t, cfg, h, site(nil)).WantCreate(wanted)
	Sync(t, cfg, h, site(nil), other).WantUpdate(wanted)

	three, _ := bare(3)
	f := fake(t, func(tb testing.TB) { Sync(tb, cfg, h, site(nil)).WantCreate(three) })
	require.Contains(t, f.failure(), "isn't as wanted:\n  spec.replicas: planned 0, want 3\nthe plan", "nothing else differs")
}

func TestEventuallyOfATypedObject(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit-bare"), handler.SyncFunc(nil))
	wanted, made := bare(0)
	kit.Create(made)
	kit.Eventually(wanted, patience)
}

package reconcile

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

// changingChildren are what a handler returns for a spec: two ConfigMaps, which
// depend on it, and a Service, which doesn't.
func changingChildren(spec string) []any {
	app := map[string]string{"app": "one"}
	children := []any{&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", Labels: app},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: app,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}}
	for _, suffix := range []string{"-a", "-b"} {
		children = append(children, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one" + suffix, Labels: app},
			Data:       map[string]string{"value": spec, "which": suffix, "comment": strings.Repeat("configuration ", 10)},
		})
	}
	return children
}

// BenchmarkChangedSteps are the steps between a parent's event and the requests
// that it leads to: two of three children change.
func BenchmarkChangedSteps(b *testing.B) {
	children := changingChildren("first")
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: children}, nil
	})
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Service, Strategy: config.Replace})
	e := testEngine(b, s, h)
	parent := sample.Object(b, sample.ParentType(), "one", "uid-1", 1, "")
	e.store.Observe(store.Stream{Type: sample.ParentType()}, parent)
	first, err := plan.Desire(e.Settings, parent, children, &plan.ParentMemory{})
	require.NoError(b, err)
	observeWritten(b, e, parent, first, nil)
	ctx := context.Background()
	e.sync(ctx, "", schedule.Due{UID: parent.UID(), Trigger: "first"})
	require.Equal(b, schedule.Outcome{}, e.sync(ctx, "", schedule.Due{UID: parent.UID(), Trigger: "second"}), "the parent is settled")
	children = changingChildren("second")
	req, _ := e.snapshot(parent.UID())
	p := e.newPass(req)
	b.Run("desire", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := plan.Desire(e.Settings, parent, children, p.memory); err != nil {
				b.Fatal(err)
			}
		}
	})
	desired, err := plan.Desire(e.Settings, parent, children, p.memory)
	require.NoError(b, err)
	planned := func() plan.Plan {
		return plan.Build(p.Settings, plan.Input{Parent: parent, Desired: desired, Children: p.children, Memory: p.memory})
	}
	b.Run("plan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if len(planned().Writes) != 2 {
				b.Fatal("two children have changed")
			}
		}
	})
	writes := planned().Writes
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range writes {
				if _, err := client.BodyOf(plan.UpdateBody(p.Settings, &writes[i], parent)); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, d := range desired[1:] {
				if _, err := client.BodyOf(plan.CreateBody(p.Settings, d, parent)); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

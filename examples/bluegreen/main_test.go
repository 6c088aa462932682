package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/roperator/roperator/internal/testing/kubelet"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine some seconds.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil where Pods can't run

func TestMain(m *testing.M) {
	opts := testkit.ClusterOptions{CRDPaths: []string{"crd.yaml"}}
	os.Exit(kubelet.RunTests(m.Run, opts, func(c *testkit.Cluster) { cluster = c }))
}

// available is a condition that kube-controller-manager gives a Deployment that has enough Pods.
var available = appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}

func shop(image string) map[string]any {
	return map[string]any{
		"apiVersion": parent.APIVersion, "kind": parent.Kind, "metadata": map[string]any{"name": "shop"},
		"spec": map[string]any{"image": "example.com/shop:" + image, "replicas": 2, "port": 8080},
	}
}

// desired returns a BlueGreen for its functions.
func desired(image string) *BlueGreen {
	b := &BlueGreen{}
	b.Name = "shop"
	b.Spec.Image, b.Spec.Replicas, b.Spec.Port = "example.com/shop:"+image, 2, 8080
	return b
}

// rolledOut returns a live Deployment whose newest generation is rolled out, or isn't.
func rolledOut(colour, image string, replicas int32, ready bool) any {
	d := desired(image).deployment(colour, "example.com/shop:"+image, replicas)
	d.Generation, d.Status.ObservedGeneration = 1, 1
	d.Status.Replicas, d.Status.UpdatedReplicas = replicas, replicas
	if ready {
		d.Status.ReadyReplicas, d.Status.AvailableReplicas = replicas, replicas
	}
	d.Status.Conditions = append(d.Status.Conditions, available)
	return d
}

// What becomes of the colours, by what there is. Without a cluster.
func TestSync(t *testing.T) {
	first := desired("1")
	deployment := func(colour, image string, replicas int32) any {
		return first.deployment(colour, "example.com/shop:"+image, replicas)
	}
	says := func(colour, image string) map[string]any {
		return map[string]any{"active": colour, "image": "example.com/shop:" + image}
	}
	cases := map[string]struct {
		reason string
		image  string
		live   []any
		active map[string]any // the status says so
		want   func(*testkit.Plan)
	}{
		"First": {
			reason: "There is nothing to take over from. The Service comes when somebody can answer.",
			image:  "1",
			active: map[string]any{},
			want: func(p *testkit.Plan) {
				p.WantCreate(deployment(blue, "1", 2)).WantWait(first.service(blue), deployment(blue, "1", 2))
			},
		},
		"Ready": {
			reason: "The Service follows.",
			image:  "1", live: []any{rolledOut(blue, "1", 2, true)},
			active: map[string]any{},
			want:   func(p *testkit.Plan) { p.WantCreate(first.service(blue)) },
		},
		"New": {
			reason: "The other colour gets the new version.",
			image:  "2", live: []any{rolledOut(blue, "1", 2, true), first.service(blue)},
			active: says(blue, "1"),
			want:   func(p *testkit.Plan) { p.WantCreate(deployment(green, "2", 2)) },
		},
		"NotYet": {
			reason: "It isn't ready.",
			image:  "2", live: []any{rolledOut(blue, "1", 2, true), rolledOut(green, "2", 2, false), first.service(blue)},
			active: says(blue, "1"),
			want:   func(*testkit.Plan) {},
		},
		"TakesOver": {
			reason: "It is ready.",
			image:  "2", live: []any{rolledOut(blue, "1", 2, true), rolledOut(green, "2", 2, true), first.service(blue)},
			active: says(blue, "1"),
			want:   func(p *testkit.Plan) { p.WantUpdate(first.service(green)) },
		},
		"Rests": {
			reason: "The old version has no traffic any more.",
			image:  "2", live: []any{rolledOut(blue, "1", 2, true), rolledOut(green, "2", 2, true), first.service(green)},
			active: says(green, "2"),
			want:   func(p *testkit.Plan) { p.WantUpdate(deployment(blue, "1", 0)) },
		},
		"Reverted": {
			reason: "The old version is still the one with the traffic.",
			image:  "1", live: []any{rolledOut(blue, "1", 2, true), rolledOut(green, "2", 2, false), first.service(blue)},
			active: says(blue, "1"),
			want:   func(p *testkit.Plan) { p.WantUpdate(deployment(green, "2", 0)) },
		},
		"Another": {
			reason: "A new goal in the middle is the other colour's.",
			image:  "3", live: []any{rolledOut(blue, "1", 2, true), rolledOut(green, "2", 2, false), first.service(blue)},
			active: says(blue, "1"),
			want:   func(p *testkit.Plan) { p.WantUpdate(deployment(green, "3", 2)) },
		},
		"Back": {
			reason: "A colour that rests runs the version already, but in no Pod.",
			image:  "1", live: []any{rolledOut(blue, "1", 0, true), rolledOut(green, "2", 2, true), first.service(green)},
			active: says(green, "2"),
			want:   func(p *testkit.Plan) { p.WantUpdate(deployment(blue, "1", 2)) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			plan := testkit.Sync(t, operator, blueGreens, shop(tc.image), tc.live...)
			tc.want(plan)
			plan.WantStatus(tc.active)
		})
	}
}

// becomes waits until a version has the traffic, and everything has come to rest.
func becomes(t *testing.T, k *testkit.Kit, colour, image string) {
	t.Helper()
	k.Eventually(map[string]any{
		"apiVersion": parent.APIVersion, "kind": parent.Kind, "metadata": map[string]any{"name": "shop"},
		"status": map[string]any{"active": colour, "image": "example.com/shop:" + image},
	}, timeout)
	require.Eventually(t, func() bool {
		rests := k.Get(desired(image).deployment(other(colour), "", 0))
		if rests == nil {
			return true
		}
		replicas, _ := rests.Field("spec", "replicas")
		return replicas == int64(0)
	}, timeout, 20*time.Millisecond)
	require.NoError(t, k.Settle(timeout))
	require.Equal(t, colour, colourOf(k))
	require.Empty(t, k.HandlerErrors(shop(image)))
}

// colourOf returns who has the traffic.
func colourOf(k *testkit.Kit) any {
	colour, _ := k.Get(&corev1.Service{ObjectMeta: desired("1").service(blue).ObjectMeta}).Field("spec", "selector", "colour")
	return colour
}

// Versions take over from one another, with Kubernetes' own controllers and a node. One that
// doesn't come up never has the traffic, and neither has one that is withdrawn before it is ready.
func TestBlueGreen(t *testing.T) {
	if cluster == nil {
		t.Skip("needs a node: kube-controller-manager, kube-scheduler and kwok beside kube-apiserver")
	}
	k := testkit.New(t, cluster, operator, blueGreens)
	k.Create(shop("1"))
	becomes(t, k, blue, "1")
	k.Update(shop("2"))
	becomes(t, k, green, "2")

	k.Update(shop("broken"))
	k.Eventually(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "shop-blue"},
		"status": map[string]any{"updatedReplicas": 2, "unavailableReplicas": 2},
	}, timeout)
	require.NoError(t, k.Settle(timeout))
	require.Equal(t, green, colourOf(k), "it isn't ready")
	k.Update(shop("2"))
	becomes(t, k, green, "2")
	k.Update(shop("1"))
	becomes(t, k, blue, "1")
}

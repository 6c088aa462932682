package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

func shop(image string) map[string]any {
	return map[string]any{
		"apiVersion": parent.APIVersion, "kind": parent.Kind, "metadata": map[string]any{"name": "shop"},
		"spec": map[string]any{"image": "example.com/shop:" + image, "replicas": 1, "database": map[string]any{"image": "example.com/database:16"}},
	}
}

// desired returns an AppStack for its functions.
func desired(image string) *AppStack {
	s := &AppStack{}
	s.Name = "shop"
	s.Spec.Image, s.Spec.Replicas, s.Spec.Database.Image = "example.com/shop:"+image, 1, "example.com/database:16"
	return s
}

// ready returns the database as it is when it runs.
func ready() *appsv1.StatefulSet {
	d := desired("1").database()
	d.Generation = 1
	d.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: 1, ReadyReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1, CurrentRevision: "a", UpdateRevision: "a"}
	return d
}

// reachable returns the Service as it is when it has an address.
func reachable() *corev1.Service {
	s := desired("1").service()
	s.Spec.ClusterIP = "10.0.0.1"
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	return s
}

// complete returns the migration for an image as it is in the end.
func complete(image string) *batchv1.Job {
	job := desired(image).migration()
	job.Status.Succeeded, job.Status.StartTime = 1, new(metav1.Now())
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	return job
}

// What the operator does, by what there is. Without a cluster.
func TestSync(t *testing.T) {
	first := desired("1")
	app := func(image, address string) *appsv1.Deployment { return first.app("example.com/shop:"+image, address) }
	says := map[string]any{"database": "192.0.2.1", "image": "example.com/shop:1"}
	cases := map[string]struct {
		reason string
		image  string
		live   []any
		status map[string]any
		want   func(*testkit.Plan)
	}{
		"First": {
			reason: "The database comes first.",
			image:  "1", status: map[string]any{},
			want: func(p *testkit.Plan) {
				p.WantCreate(first.database()).WantCreate(first.service())
				p.WantWait(first.migration(), first.database()).WantWait(app("1", ""), first.migration(), first.service())
			},
		},
		"Migrates": {
			reason: "The database runs.",
			image:  "1", status: map[string]any{}, live: []any{ready(), first.service()},
			want: func(p *testkit.Plan) {
				p.WantCreate(first.migration()).WantWait(app("1", ""), first.migration(), first.service())
			},
		},
		"Runs": {
			reason: "The database is migrated, and has an address.",
			image:  "1", status: map[string]any{"database": "192.0.2.1"}, live: []any{ready(), reachable(), complete("1")},
			want: func(p *testkit.Plan) { p.WantCreate(app("1", "192.0.2.1")) },
		},
		"NoAddress": {
			reason: "An address that is missing for a moment is no reason to change the app.",
			image:  "1", status: says, live: []any{ready(), first.service(), complete("1"), app("1", "192.0.2.1")},
			want: func(*testkit.Plan) {},
		},
		"Moved": {
			reason: "Another address is.",
			image:  "1", status: says, live: []any{ready(), reachable(), complete("1"), app("1", "192.0.2.9")},
			want: func(p *testkit.Plan) { p.WantUpdate(app("1", "192.0.2.1")) },
		},
		"Update": {
			reason: "Another image migrates first. The app stays what it is.",
			image:  "2", status: says, live: []any{ready(), reachable(), complete("1"), app("1", "192.0.2.1")},
			want: func(p *testkit.Plan) { p.WantCreate(desired("2").migration()).WantDelete(first.migration()) },
		},
		"Migrating": {
			reason: "A migration that runs isn't complete.",
			image:  "2", status: says, live: []any{ready(), reachable(), desired("2").migration(), app("1", "192.0.2.1")},
			want: func(*testkit.Plan) {},
		},
		"Updated": {
			reason: "The migration is complete.",
			image:  "2", status: says, live: []any{ready(), reachable(), complete("2"), app("1", "192.0.2.1")},
			want: func(p *testkit.Plan) { p.WantUpdate(app("2", "192.0.2.1")) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			plan := testkit.Sync(t, operator, appStacks, shop(tc.image), tc.live...)
			tc.want(plan)
			plan.WantStatus(tc.status)
		})
	}
}

// An AppStack comes up in order, by the work of Kubernetes' own controllers and a node; another
// image migrates first; a migration that fails leaves the app alone; in the end all goes in the
// reverse order.
func TestAppStack(t *testing.T) {
	if cluster == nil {
		t.Skip("needs a node: kube-controller-manager, kube-scheduler and kwok beside kube-apiserver")
	}
	k := testkit.New(t, cluster, operator, appStacks)
	k.Create(shop("1"))
	k.EventuallyExists(desired("1").migration(), timeout)
	require.NoError(t, k.Settle(timeout))
	require.Nil(t, k.Get(desired("1").app("", "")), "there is no address")
	address := desired("1").service()
	address.Status = reachable().Status
	k.UpdateStatus(address)
	runs(t, k, "1")

	k.Update(shop("2"))
	runs(t, k, "2")
	require.Nil(t, k.Get(desired("1").migration()))

	k.Update(shop("fails"))
	says(t, k, "False", "ChildFailed")
	image, _ := k.Get(shop("2")).Field("status", "image")
	require.Equal(t, "example.com/shop:2", image)
	k.Update(shop("2"))
	runs(t, k, "2")

	before := len(k.Writes())
	k.Delete(shop("2"))
	k.EventuallyGone(shop("2"), timeout)
	require.NoError(t, k.Settle(timeout))
	require.Equal(t, []string{"Deployment", "Job", "StatefulSet", "Service"}, deleted(k.Writes()[before:]))
}

// runs waits until an image runs, and everything has come to rest.
func runs(t *testing.T, k *testkit.Kit, image string) {
	t.Helper()
	k.Eventually(desired(image).app("example.com/shop:"+image, "192.0.2.1"), timeout)
	says(t, k, "True", "Ready")
	require.NoError(t, k.Settle(timeout))
	require.Empty(t, k.HandlerErrors(shop(image)))
}

// says waits for what the condition Ready says of the newest generation.
func says(t *testing.T, k *testkit.Kit, status, reason string) {
	t.Helper()
	require.Eventually(t, func() bool {
		live := k.Get(shop(""))
		list, _ := live.Field("status", "conditions")
		conditions, _ := list.([]any)
		ready, _ := conditions[0].(map[string]any)
		return ready["status"] == status && ready["reason"] == reason && ready["observedGeneration"] == live.Generation()
	}, timeout, 20*time.Millisecond)
}

// deleted returns the kinds of what was deleted, in order.
func deleted(writes []testkit.Write) (kinds []string) {
	for _, w := range writes {
		if w.Verb == "delete" {
			kinds = append(kinds, w.Type.Kind)
		}
	}
	return slices.Compact(kinds)
}

package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

// shop returns the AppStack of sample.yaml at a version.
func shop(version string) *AppStack {
	var stack AppStack
	stack.Name = "shop"
	stack.Spec.Image, stack.Spec.Version = "registry.example.com/shop", version
	stack.Spec.Replicas, stack.Spec.DBImage = 2, "registry.example.com/database:18"
	return &stack
}

// object returns an AppStack as it is sent.
func object(a *AppStack) map[string]any {
	return map[string]any{
		"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind,
		"metadata": map[string]any{"name": a.Name},
		"spec": map[string]any{
			"image": a.Spec.Image, "version": a.Spec.Version, "replicas": int64(a.Spec.Replicas), "dbImage": a.Spec.DBImage,
		},
	}
}

const address = "192.0.2.7"

// addressed returns the database's Service as it is once it has an address.
func addressed(service *corev1.Service) *corev1.Service {
	service.Spec.ClusterIP = "10.0.0.7"
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	return service
}

// addressless returns it as it is before.
func addressless(service *corev1.Service) *corev1.Service {
	service.Spec.ClusterIP = "10.0.0.7"
	return service
}

// ready returns the database as it is once its Pod is ready.
func ready(database *appsv1.StatefulSet) *appsv1.StatefulSet {
	database.Status = appsv1.StatefulSetStatus{Replicas: 1, ReadyReplicas: 1, CurrentReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	return database
}

// ended returns a migration that has come to its end. Without a condition it runs.
func ended(migration *batchv1.Job, condition batchv1.JobConditionType) *batchv1.Job {
	migration.Status.StartTime = new(metav1.Now())
	if condition != "" {
		migration.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
	}
	return migration
}

// rolledOut returns the app as it is once all its Pods are ready.
func rolledOut(deployment *appsv1.Deployment) *appsv1.Deployment {
	n := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
	}
	return deployment
}

func scaled(deployment *appsv1.Deployment, replicas int32) *appsv1.Deployment {
	deployment.Spec.Replicas = &replicas
	return deployment
}

// What the operator does about an AppStack, by what there is. Without a cluster.
func TestSync(t *testing.T) {
	old, now := shop("1.0"), shop("2.0")
	running := func(a *AppStack) *batchv1.Job { return ended(a.migration(), "") }
	complete := func(a *AppStack) *batchv1.Job { return ended(a.migration(), batchv1.JobComplete) }
	failed := func(a *AppStack) *batchv1.Job { return ended(a.migration(), batchv1.JobFailed) }
	service, database := addressed(now.service()), ready(now.database())
	corrected := shop("2.0")
	corrected.Spec.Image = "registry.example.com/corrected"

	cases := map[string]struct {
		reason string
		stack  *AppStack
		live   []any
		want   func(*testkit.Plan)
		steps  []string // the reasons of the conditions
	}{
		"First": {
			reason: "The database comes first. Everything else waits for it.",
			want: func(p *testkit.Plan) {
				p.WantCreate(now.service()).WantCreate(now.database()).
					WantWait(now.migration(), now.service(), now.database()).
					WantWait(now.deployment(now.image(), ""), now.service(), now.migration())
			},
			steps: []string{"NotCreated", "NotCreated", "NotCreated"},
		},
		"DatabaseStarts": {
			reason: "A StatefulSet that isn't ready is waited for.",
			live:   []any{service, now.database()},
			want: func(p *testkit.Plan) {
				p.WantWait(now.migration(), now.database()).WantWait(now.deployment(now.image(), address), now.migration())
			},
			steps: []string{"InProgress", "NotCreated", "NotCreated"},
		},
		"DatabaseIsReady": {
			reason: "Now the schema can be migrated.",
			live:   []any{service, database},
			want: func(p *testkit.Plan) {
				p.WantCreate(now.migration()).WantWait(now.deployment(now.image(), address), now.migration())
			},
			steps: []string{"Current", "NotCreated", "NotCreated"},
		},
		"MigrationRuns": {
			reason: "A Job that has started isn't done.",
			live:   []any{service, database, running(now)},
			want:   func(p *testkit.Plan) { p.WantWait(now.deployment(now.image(), address), now.migration()) },
			steps:  []string{"Current", "InProgress", "NotCreated"},
		},
		"MigrationFails": {
			reason: "No app runs on a schema that it doesn't know.",
			live:   []any{service, database, failed(now)},
			want:   func(p *testkit.Plan) { p.WantWait(now.deployment(now.image(), address), now.migration()) },
			steps:  []string{"Current", "Failed", "NotCreated"},
		},
		"Migrated": {
			reason: "Now the app can run, with the address that the Service has got.",
			live:   []any{service, database, complete(now)},
			want:   func(p *testkit.Plan) { p.WantCreate(now.deployment(now.image(), address)) },
			steps:  []string{"Current", "Current", "NotCreated"},
		},
		"NoAddress": {
			reason: "The app isn't created without an address, whatever else is there.",
			live:   []any{addressless(now.service()), database, complete(now)},
			want:   func(p *testkit.Plan) { p.WantWait(now.deployment(now.image(), "")) },
			steps:  []string{"Current", "Current", "NotCreated"},
		},
		"Settled": {
			reason: "Nothing is left to do.",
			live:   []any{service, database, complete(now), rolledOut(now.deployment(now.image(), address))},
			want:   func(*testkit.Plan) {},
			steps:  []string{"Current", "Current", "Current"},
		},
		"AddressIsGone": {
			reason: "An app that is there keeps the address that it knows.",
			live:   []any{addressless(now.service()), database, complete(now), rolledOut(now.deployment(now.image(), address))},
			want:   func(*testkit.Plan) {},
			steps:  []string{"Current", "Current", "Current"},
		},
		"AddressIsGoneAndScaled": {
			reason: "Everything else of it is kept as it shall be.",
			live:   []any{addressless(now.service()), database, complete(now), rolledOut(scaled(now.deployment(now.image(), address), 1))},
			want:   func(p *testkit.Plan) { p.WantUpdate(now.deployment(now.image(), address)) },
			steps:  []string{"Current", "Current", "Current"},
		},
		"AddressChanges": {
			reason: "The app is told of another address.",
			live:   []any{service, database, complete(now), rolledOut(now.deployment(now.image(), "192.0.2.6"))},
			want:   func(p *testkit.Plan) { p.WantUpdate(now.deployment(now.image(), address)) },
			steps:  []string{"Current", "Current", "Current"},
		},
		"DatabaseIsDown": {
			reason: "A database that fails later takes nothing down with it.",
			live:   []any{service, now.database(), complete(now), rolledOut(now.deployment(now.image(), address))},
			want:   func(*testkit.Plan) {},
			steps:  []string{"InProgress", "Current", "Current"},
		},
		"NextVersion": {
			reason: "It has a migration of its own. Meanwhile the app stays as it is. The former Job isn't needed any more.",
			live:   []any{service, database, complete(old), rolledOut(old.deployment(old.image(), address))},
			want:   func(p *testkit.Plan) { p.WantCreate(now.migration()).WantDelete(old.migration()) },
			steps:  []string{"Current", "NotCreated", "InProgress"},
		},
		"NextVersionAndScaled": {
			reason: "The app can be scaled while it waits for its new image.",
			live:   []any{service, database, running(now), rolledOut(scaled(old.deployment(old.image(), address), 1))},
			want:   func(p *testkit.Plan) { p.WantUpdate(old.deployment(old.image(), address)) },
			steps:  []string{"Current", "InProgress", "InProgress"},
		},
		"NextVersionFails": {
			reason: "The app stays at the version whose schema it has.",
			live:   []any{service, database, failed(now), rolledOut(old.deployment(old.image(), address))},
			want:   func(*testkit.Plan) {},
			steps:  []string{"Current", "Failed", "InProgress"},
		},
		"NextVersionIsMigrated": {
			reason: "Now the app can follow.",
			live:   []any{service, database, complete(now), rolledOut(old.deployment(old.image(), address))},
			want:   func(p *testkit.Plan) { p.WantUpdate(now.deployment(now.image(), address)) },
			steps:  []string{"Current", "Current", "InProgress"},
		},
		"NextVersionComesEarly": {
			reason: "A migration that runs isn't stopped, and no other begins beside it.",
			live:   []any{service, database, running(old)},
			want: func(p *testkit.Plan) {
				p.WantWait(now.migration()).WantWait(now.deployment(now.image(), address), now.migration())
			},
			steps: []string{"Current", "NotCreated", "NotCreated"},
		},
		"NextVersionAfterAFailure": {
			reason: "A migration that has failed is none to wait for.",
			live:   []any{service, database, failed(old)},
			want: func(p *testkit.Plan) {
				p.WantCreate(now.migration()).WantWait(now.deployment(now.image(), address), now.migration()).WantDelete(old.migration())
			},
			steps: []string{"Current", "NotCreated", "NotCreated"},
		},
		"ImageIsCorrected": {
			reason: "That another image of this version has migrated the schema says nothing.",
			stack:  corrected,
			live:   []any{service, database, complete(now), rolledOut(now.deployment(now.image(), address))},
			want:   func(p *testkit.Plan) { p.WantUpdate(corrected.migration()) },
			steps:  []string{"Current", "InProgress", "InProgress"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			stack := tc.stack
			if stack == nil {
				stack = now
			}
			var status AppStackStatus
			plan := testkit.Sync(t, operator, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				response, err := appStacks(ctx, req)
				status = response.Status.(AppStackStatus)
				return response, err
			}), object(stack), tc.live...)
			tc.want(plan)
			plan.WantStatus(map[string]any{}) // what isn't expected fails the test
			require.Equal(t, steps(tc.steps), withoutMessages(status.Conditions[:3]))
		})
	}
}

// steps returns the conditions with these reasons. A step is done if it is Current.
func steps(reasons []string) (out []metav1.Condition) {
	for i, name := range []string{"DatabaseReady", "Migrated", "AppReady"} {
		status := metav1.ConditionFalse
		if reasons[i] == "Current" {
			status = metav1.ConditionTrue
		}
		out = append(out, metav1.Condition{Type: name, Status: status, Reason: reasons[i]})
	}
	return out
}

// withoutMessages returns conditions without what is said to people.
func withoutMessages(conditions []metav1.Condition) []metav1.Condition {
	for i := range conditions {
		conditions[i].Message = ""
	}
	return conditions
}

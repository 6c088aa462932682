package main

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/testkit"
)

// image returns which image a version is.
func image(version string) string { return "registry.example.com/web:" + version }

// web returns the BlueGreen of sample.yaml at a version.
func web(version string) *BlueGreen {
	var app BlueGreen
	app.Name, app.Namespace = "web", "default"
	app.Spec.Image, app.Spec.Replicas = image(version), 2
	return &app
}

// object returns a BlueGreen as it is sent.
func object(b *BlueGreen) map[string]any {
	return map[string]any{
		"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind,
		"metadata": map[string]any{"name": b.Name},
		"spec":     map[string]any{"image": b.Spec.Image, "replicas": int64(b.Spec.Replicas)},
	}
}

// starting returns a colour's Deployment whose Pods aren't ready.
func starting(c colour, version string) *appsv1.Deployment {
	return web("").deployment(c, image(version))
}

// ready returns one with so many Pods, which are.
func ready(c colour, version string, replicas int32) *appsv1.Deployment {
	deployment := starting(c, version)
	deployment.Spec.Replicas = &replicas
	deployment.Status = appsv1.DeploymentStatus{
		Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
	}
	return deployment
}

// stuck returns one that Kubernetes has given up.
func stuck(c colour, version string) *appsv1.Deployment {
	deployment := starting(c, version)
	deployment.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"},
	}
	return deployment
}

// pointing returns the Service that points to a colour.
func pointing(c colour) *corev1.Service { return web("").service(c) }

// What the operator does about a BlueGreen that wants version 2 and two
// replicas, by what there is. Without a cluster.
func TestSync(t *testing.T) {
	want := func(c colour) *appsv1.Deployment { return starting(c, "2") }
	cases := map[string]struct {
		reason   string
		live     []any
		want     func(*testkit.Plan)
		switched metav1.ConditionStatus
	}{
		"First": {
			reason:   "Blue comes first. The Service waits for it.",
			want:     func(p *testkit.Plan) { p.WantCreate(want(blue)).WantWait(pointing(blue), want(blue)) },
			switched: metav1.ConditionFalse,
		},
		"FirstIsReady": {
			reason:   "Now there can be a Service.",
			live:     []any{ready(blue, "2", 2)},
			want:     func(p *testkit.Plan) { p.WantCreate(pointing(blue)) },
			switched: metav1.ConditionFalse,
		},
		"FirstIsBroken": {
			reason:   "A version that has never served is followed by another colour, as any other.",
			live:     []any{stuck(blue, "1")},
			want:     func(p *testkit.Plan) { p.WantCreate(want(green)).WantWait(pointing(blue), want(blue)) },
			switched: metav1.ConditionFalse,
		},
		"FirstWasBroken": {
			reason:   "The Service begins with the colour that can answer.",
			live:     []any{stuck(blue, "1"), ready(green, "2", 2)},
			want:     func(p *testkit.Plan) { p.WantCreate(pointing(green)).WantDelete(want(blue)) },
			switched: metav1.ConditionFalse,
		},
		"Settled": {
			reason:   "Nothing is left to do.",
			live:     []any{ready(blue, "2", 2), pointing(blue)},
			want:     func(*testkit.Plan) {},
			switched: metav1.ConditionTrue,
		},
		"SettledOnGreen": {
			reason:   "Green is as good as blue.",
			live:     []any{ready(green, "2", 2), pointing(green)},
			want:     func(*testkit.Plan) {},
			switched: metav1.ConditionTrue,
		},
		"Scaled": {
			reason:   "That needs no other colour.",
			live:     []any{ready(blue, "2", 1), pointing(blue)},
			want:     func(p *testkit.Plan) { p.WantUpdate(want(blue)) },
			switched: metav1.ConditionTrue,
		},
		"Down": {
			reason:   "Nor does a version whose Pods aren't ready any more.",
			live:     []any{starting(blue, "2"), pointing(blue)},
			want:     func(*testkit.Plan) {},
			switched: metav1.ConditionTrue,
		},
		"NewVersion": {
			reason:   "It comes up beside the one that serves.",
			live:     []any{ready(blue, "1", 2), pointing(blue)},
			want:     func(p *testkit.Plan) { p.WantCreate(want(green)) },
			switched: metav1.ConditionFalse,
		},
		"NewVersionStarts": {
			reason:   "The traffic waits until all of it is ready.",
			live:     []any{ready(blue, "1", 2), starting(green, "2"), pointing(blue)},
			want:     func(*testkit.Plan) {},
			switched: metav1.ConditionFalse,
		},
		"NewVersionIsBroken": {
			reason:   "A broken version never gets any traffic.",
			live:     []any{ready(blue, "1", 2), stuck(green, "2"), pointing(blue)},
			want:     func(*testkit.Plan) {},
			switched: metav1.ConditionFalse,
		},
		"NewVersionIsReady": {
			reason:   "The traffic goes there. Blue stays until the Service is seen to point away from it.",
			live:     []any{ready(blue, "1", 2), ready(green, "2", 2), pointing(blue)},
			want:     func(p *testkit.Plan) { p.WantUpdate(pointing(green)) },
			switched: metav1.ConditionFalse,
		},
		"NewVersionIsTooSmall": {
			reason:   "It gets the traffic only with as many Pods as are wanted by now. So does the old one.",
			live:     []any{ready(blue, "1", 1), ready(green, "2", 1), pointing(blue)},
			want:     func(p *testkit.Plan) { p.WantUpdate(starting(blue, "1")).WantUpdate(want(green)) },
			switched: metav1.ConditionFalse,
		},
		"Switched": {
			reason:   "The old colour goes.",
			live:     []any{ready(blue, "1", 2), ready(green, "2", 2), pointing(green)},
			want:     func(p *testkit.Plan) { p.WantDelete(want(blue)) },
			switched: metav1.ConditionTrue,
		},
		"SwitchedAndDown": {
			reason:   "Not while the new one isn't ready: somebody may want to go back.",
			live:     []any{ready(blue, "1", 2), starting(green, "2"), pointing(green)},
			want:     func(*testkit.Plan) {},
			switched: metav1.ConditionTrue,
		},
		"NewGoalInTheMiddle": {
			reason:   "The colour without traffic goes on to the newest version, ready or not.",
			live:     []any{ready(green, "0", 2), ready(blue, "1", 2), pointing(green)},
			want:     func(p *testkit.Plan) { p.WantUpdate(want(blue)) },
			switched: metav1.ConditionFalse,
		},
		"BackInTheMiddle": {
			reason:   "What serves is what is wanted again. The other colour goes.",
			live:     []any{ready(blue, "2", 2), starting(green, "3"), pointing(blue)},
			want:     func(p *testkit.Plan) { p.WantDelete(want(green)) },
			switched: metav1.ConditionTrue,
		},
		"BackAfterTheSwitch": {
			reason:   "The old colour is still there, so the traffic goes back at once.",
			live:     []any{ready(blue, "2", 2), ready(green, "3", 2), pointing(green)},
			want:     func(p *testkit.Plan) { p.WantUpdate(pointing(blue)) },
			switched: metav1.ConditionFalse,
		},
		"NoService": {
			reason:   "Somebody has deleted it: it comes back to a colour that is ready.",
			live:     []any{starting(blue, "2"), ready(green, "1", 2)},
			want:     func(p *testkit.Plan) { p.WantCreate(pointing(green)) },
			switched: metav1.ConditionFalse,
		},
		"ServiceWithoutColour": {
			reason:   "Somebody has pointed it to nothing: it goes back to what is there.",
			live:     []any{starting(green, "2"), pointing(blue)},
			want:     func(p *testkit.Plan) { p.WantUpdate(pointing(green)) },
			switched: metav1.ConditionFalse,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			var status BlueGreenStatus
			plan := testkit.Sync(t, operator, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				response, err := blueGreens(ctx, req)
				status = response.Status.(BlueGreenStatus)
				return response, err
			}), object(web("2")), tc.live...)
			tc.want(plan)
			plan.WantStatus(map[string]any{}) // what isn't expected fails the test
			require.Equal(t, tc.switched, status.Conditions[0].Status, status.Conditions[0].Message)
		})
	}
}

// From whatever there is, with Pods that become ready, an operator arrives at one
// colour that serves the goal, and stays there. No step takes the traffic away
// from a colour that is ready, except to give it to another that is.
func TestEveryStateLeadsToTheGoal(t *testing.T) {
	app := web("2")
	for _, start := range states() {
		live := start
		for step := 0; ; step++ {
			require.Less(t, step, 6, "from %+v: still at %+v", start, live)
			next := app.decide(live)
			require.NotEmpty(t, next.images[next.serves], "from %+v: a Service without Deployment at %+v", start, live)
			if serving := live.sides[live.points]; serving.state == readiness.Current && next.serves != live.points {
				require.Equal(t, readiness.Current, live.sides[next.serves].state, "from %+v: too early at %+v", start, live)
			}
			after := carryOut(next, app.Spec.Replicas)
			if reflect.DeepEqual(after, live) {
				break
			}
			live = after
		}
		require.Len(t, live.sides, 1, "from %+v", start)
		require.Equal(t, app.Spec.Image, live.sides[live.points].image, "from %+v", start)
	}
}

// states returns everything that there may be: each colour with none of the
// images or one of them, ready or not, and a Service that points anywhere.
func states() (all []observed) {
	var sides []side
	for _, version := range []string{"1", "2", "3"} {
		for _, state := range []readiness.State{readiness.Current, readiness.InProgress, readiness.Failed} {
			sides = append(sides, side{image: image(version), replicas: 2, state: state}, side{image: image(version), replicas: 1, state: state})
		}
	}
	sides = append(sides, side{})
	for _, points := range []colour{"", blue, green, "red"} {
		for _, b := range sides {
			for _, g := range sides {
				live := observed{points: points, sides: map[colour]side{}}
				if b.image != "" {
					live.sides[blue] = b
				}
				if g.image != "" {
					live.sides[green] = g
				}
				all = append(all, live)
			}
		}
	}
	return all
}

// carryOut returns what there is once a decision is carried out and all Pods are ready.
func carryOut(d decision, replicas int32) observed {
	live := observed{points: d.serves, sides: map[colour]side{}}
	for c, image := range d.images {
		live.sides[c] = side{image: image, replicas: replicas, state: readiness.Current}
	}
	return live
}

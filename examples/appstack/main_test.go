package main

import (
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/internal/testing/transcript"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine a second.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"crd.yaml"}, ControllerManager: true}, &cluster)
}

// A world is an operator that runs for one test, with Pods whose phases the
// test says, and the story of what happens.
type world struct {
	*testkit.Kit
	*story
	t      *testing.T
	phases *gosync.Map // of Pods, by what they run
}

func newWorld(t *testing.T) world {
	t.Helper()
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which makes Pods")
	}
	kit := testkit.New(t, cluster, operator, appStacks)
	w := world{kit, follow(t, kit.Namespace), t, &gosync.Map{}}
	kit.RunPods(func(pod *corev1.Pod) corev1.PodPhase {
		main := pod.Spec.Containers[0]
		phase, _ := w.phases.Load(strings.Join(append([]string{main.Image}, main.Args...), " "))
		known, _ := phase.(corev1.PodPhase) // Pods that the test hasn't spoken of stay Pending
		return known
	})
	return w
}

// gives says which phase Pods get, from now on, whose first container runs this:
// an image and arguments.
func (w world) gives(phase corev1.PodPhase, runs string) { w.phases.Store(runs, phase) }

// settles waits until the operator has come to rest, and finds that it waits
// for this alone.
func (w world) settles(waits ...string) {
	w.t.Helper()
	require.NoError(w.t, w.Settle(timeout))
	require.Equal(w.t, waits, w.Waits(object(shop(""))))
}

// isReady waits until an AppStack has arrived, and the operator is at rest.
func (w world) isReady(a *AppStack) {
	w.t.Helper()
	w.says(a, "Ready")
	w.settles()
	require.Equal(w.t, a.image(), w.status().Image)
	require.Empty(w.t, w.HandlerErrors(object(a)))
}

// says waits until a condition is True for the newest generation of an AppStack.
func (w world) says(a *AppStack, name string) {
	w.t.Helper()
	generation := w.Get(object(a)).Generation()
	require.Eventually(w.t, func() bool {
		c := meta.FindStatusCondition(w.status().Conditions, name)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
	}, timeout, 50*time.Millisecond, "%s isn't True", name)
}

// status returns the live status.
func (w world) status() AppStackStatus {
	w.t.Helper()
	var live struct {
		Status AppStackStatus `json:"status"`
	}
	require.NoError(w.t, w.Get(object(shop(""))).Decode(&live))
	return live.Status
}

// arrives brings an AppStack up from nothing.
func (w world) arrives(a *AppStack) {
	w.t.Helper()
	w.gives(corev1.PodRunning, a.Spec.DBImage)
	w.gives(corev1.PodSucceeded, a.image()+" migrate")
	w.gives(corev1.PodRunning, a.image())
	w.Create(object(a))
	w.EventuallyExists(a.service(), timeout)
	w.UpdateStatus(addressed(a.service()))
	w.isReady(a)
}

// TestReadme runs what README.md shows: the operator as a process, and kubectl.
func TestReadme(t *testing.T) {
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which makes Pods")
	}
	programs, err := transcript.Programs(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, transcript.Forget(t.Context(), cluster.RESTConfig(), operator.Parent.Kind, "appstacks.example.roperator.com"))
	require.NoError(t, transcript.Run(t.Context(), transcript.Options{
		Readme:  "README.md",
		Files:   []string{"crd.yaml", "sample.yaml"},
		Bin:     programs,
		Env:     []string{"KUBECONFIG=" + cluster.Kubeconfig()},
		Timeout: timeout,
		Log:     func(command string) { t.Log("$ " + command) },
	}))
}

// arrival is the story of an AppStack up to where it is Ready.
func arrival() []string {
	return []string{
		"Service shop-db is ready",
		"StatefulSet shop-db begins",
		"StatefulSet shop-db is ready",
		"Job shop-migrate-1-0 begins",
		"Job shop-migrate-1-0 is ready",
		"Deployment shop begins",
		"Deployment shop is ready",
	}
}

func TestOneAfterTheOther(t *testing.T) {
	w, stack := newWorld(t), shop("1.0")
	w.Create(object(stack))
	w.settles(
		"not creating Job shop-migrate-1-0 before StatefulSet shop-db is there and ready",
		"not creating Deployment shop before Job shop-migrate-1-0 is there and ready",
	)
	w.gives(corev1.PodRunning, stack.Spec.DBImage)
	w.EventuallyExists(stack.migration(), timeout)
	w.settles("not creating Deployment shop before Job shop-migrate-1-0 is there and ready")
	w.gives(corev1.PodSucceeded, stack.image()+" migrate")
	w.says(stack, "Migrated")
	w.settles("not creating Deployment shop before the handler's own condition for it is met")
	w.UpdateStatus(addressed(stack.service()))
	w.Eventually(stack.deployment(stack.image(), address), timeout)
	w.gives(corev1.PodRunning, stack.image())
	w.isReady(stack)
	w.tells(t, arrival()...)
}

func TestNextVersionWaitsForItsMigration(t *testing.T) {
	w, first, second := newWorld(t), shop("1.0"), shop("2.0")
	w.arrives(first)

	w.gives(corev1.PodRunning, second.image())
	w.Update(object(second))
	w.EventuallyExists(second.migration(), timeout)
	w.settles()
	require.Equal(t, first.image(), w.status().Image, "the app waits for the migration")

	// Whatever else changes reaches the app at once.
	second.Spec.Replicas = 3
	w.Update(object(second))
	scaled := first.deployment(first.image(), address)
	scaled.Spec.Replicas, scaled.Status = new(int32(3)), appsv1.DeploymentStatus{Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
	w.Eventually(scaled, timeout)
	w.settles()

	w.gives(corev1.PodSucceeded, second.image()+" migrate")
	w.isReady(second)
	w.tells(t, append(arrival(),
		"Job shop-migrate-2-0 begins",
		"Job shop-migrate-1-0 is gone",
		"Deployment shop begins",
		"Deployment shop is ready",
		"Job shop-migrate-2-0 is ready",
		"Deployment shop begins",
		"Deployment shop is ready",
	)...)
}

func TestMigrationThatRunsIsntStopped(t *testing.T) {
	w, first, second, third := newWorld(t), shop("1.0"), shop("2.0"), shop("3.0")
	w.arrives(first)
	w.Update(object(second))
	w.EventuallyExists(second.migration(), timeout)
	w.gives(corev1.PodSucceeded, third.image()+" migrate")
	w.gives(corev1.PodRunning, third.image())
	w.Update(object(third))
	w.settles("not creating Job shop-migrate-3-0 before the handler's own condition for it is met")
	require.NotNil(t, w.Get(second.migration()))

	w.gives(corev1.PodSucceeded, second.image()+" migrate")
	w.isReady(third)
	require.Nil(t, w.Get(second.migration()))
	for _, write := range w.Writes() {
		if write.Type == k8s.Deployment && write.Object != nil {
			deployment, err := resource.As[appsv1.Deployment](write.Object)
			require.NoError(t, err)
			image, _ := contentOf(deployment.Spec.Template)
			require.NotEqual(t, second.image(), image, "the app goes on to what is wanted by now")
		}
	}
}

func TestCorrectedImageMigratesAgain(t *testing.T) {
	w, wrong, corrected := newWorld(t), shop("1.0"), shop("1.0")
	corrected.Spec.Image = "registry.example.com/corrected"
	w.gives(corev1.PodRunning, wrong.Spec.DBImage)
	w.gives(corev1.PodSucceeded, corrected.image()+" migrate")
	w.gives(corev1.PodRunning, corrected.image())
	w.Create(object(wrong))
	w.EventuallyExists(wrong.service(), timeout)
	w.UpdateStatus(addressed(wrong.service()))
	w.EventuallyExists(wrong.migration(), timeout)
	w.settles("not creating Deployment shop before Job shop-migrate-1-0 is there and ready")
	stuck := w.Get(wrong.migration())

	w.Update(object(corrected))
	w.EventuallyGone(stuck, timeout)
	w.isReady(corrected)
	require.NotEqual(t, stuck.UID(), w.Get(corrected.migration()).UID())
}

func TestAppSurvivesWhatItWaitedFor(t *testing.T) {
	w, stack := newWorld(t), shop("1.0")
	w.arrives(stack)
	app := w.Get(stack.deployment("", ""))

	w.UpdateStatus(addressless(stack.service()))
	require.Eventually(t, func() bool { return w.status().DatabaseAddress == "" }, timeout, 50*time.Millisecond)
	w.isReady(stack)
	require.Equal(t, app.Generation(), w.Get(app).Generation(), "an address that is gone for a moment changes nothing")
	w.UpdateStatus(addressed(stack.service()))
	w.isReady(stack)
	require.Equal(t, app.Generation(), w.Get(app).Generation())

	w.Delete(stack.migration())
	w.isReady(stack) // a Job of that version runs again
	require.Equal(t, app.UID(), w.Get(app).UID())
	require.Equal(t, app.Generation(), w.Get(app).Generation())
}

func TestDeletedInTheReverseOrder(t *testing.T) {
	w, stack := newWorld(t), shop("1.0")
	w.arrives(stack)
	w.Delete(object(stack))
	w.EventuallyGone(object(stack), timeout)
	w.tells(t, append(arrival(),
		"Deployment shop is gone",
		"Job shop-migrate-1-0 is gone",
		"StatefulSet shop-db is gone",
		"Service shop-db is gone",
	)...)
}

func TestSchemaRefuses(t *testing.T) {
	if cluster == nil {
		t.Skip("needs an API server")
	}
	cases := map[string]struct {
		reason string
		change func(*AppStack)
		want   string // "" if it is accepted
	}{
		"Complete": {"as in sample.yaml", func(*AppStack) {}, ""},
		"Tag":      {"the version is the tag", func(a *AppStack) { a.Spec.Version = "1.0-rc" }, "spec.version: Invalid value"},
		"NoTag":    {"nothing to migrate to", func(a *AppStack) { a.Spec.Version = "" }, "spec.version: Invalid value"},
		"NoImage":  {"nothing to run", func(a *AppStack) { a.Spec.Image = "" }, "spec.image: Invalid value"},
		"None":     {"delete it instead", func(a *AppStack) { a.Spec.Replicas = 0 }, "spec.replicas: Invalid value"},
		"Name":     {"a Service can't have such a name", func(a *AppStack) { a.Name = "shop.example" }, "metadata.name: names of Services and Pods begin with it"},
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	stacks := client.Resource(operator.Parent.GroupVersionKind().GroupVersion().WithResource("appstacks")).Namespace("default")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stack := shop("1.0")
			tc.change(stack)
			u := &unstructured.Unstructured{Object: object(stack)}
			_, err := stacks.Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}

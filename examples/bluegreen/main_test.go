package main

import (
	"slices"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/internal/testing/transcript"
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
	kit := testkit.New(t, cluster, operator, blueGreens)
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
	require.Equal(w.t, waits, w.Waits(object(web(""))))
}

// isReady waits until a BlueGreen has arrived at a colour, and the operator is
// at rest.
func (w world) isReady(b *BlueGreen, c colour) {
	w.t.Helper()
	generation := w.Get(object(b)).Generation()
	require.Eventually(w.t, func() bool {
		ready := meta.FindStatusCondition(w.status().Conditions, "Ready")
		return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == generation
	}, timeout, 50*time.Millisecond, "not Ready")
	w.settles()
	require.Equal(w.t, b.Spec.Image, w.status().Image)
	require.Equal(w.t, string(c), w.status().Active)
	require.NotNil(w.t, w.Get(b.deployment(c, "")))
	w.EventuallyGone(b.deployment(c.other(), ""), timeout)
	require.Empty(w.t, w.HandlerErrors(object(b)))
}

// status returns the live status.
func (w world) status() BlueGreenStatus {
	w.t.Helper()
	var live struct {
		Status BlueGreenStatus `json:"status"`
	}
	require.NoError(w.t, w.Get(object(web(""))).Decode(&live))
	return live.Status
}

// runs says that Pods of these versions become ready.
func (w world) runs(versions ...string) {
	for _, version := range versions {
		w.gives(corev1.PodRunning, image(version))
	}
}

// TestReadme runs what README.md shows: the operator as a process, and kubectl.
func TestReadme(t *testing.T) {
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which makes Pods")
	}
	programs, err := transcript.Programs(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, transcript.Forget(t.Context(), cluster.RESTConfig(), operator.Parent.Kind, "bluegreens.example.roperator.com"))
	require.NoError(t, transcript.Run(t.Context(), transcript.Options{
		Readme:  "README.md",
		Files:   []string{"crd.yaml", "sample.yaml"},
		Bin:     programs,
		Env:     []string{"KUBECONFIG=" + cluster.Kubeconfig()},
		Timeout: timeout,
		Log:     func(command string) { t.Log("$ " + command) },
	}))
}

func TestTrafficFollowsWhatIsReady(t *testing.T) {
	w := newWorld(t)
	w.Create(object(web("1")))
	w.settles("not creating Service web before Deployment web-blue is there and ready")
	w.runs("1")
	w.isReady(web("1"), blue)

	w.Update(object(web("2")))
	w.EventuallyExists(web("").deployment(green, ""), timeout)
	w.settles()
	require.Equal(t, image("1"), w.status().Image)
	w.runs("2")
	w.isReady(web("2"), green)

	w.runs("3")
	w.Update(object(web("3")))
	w.isReady(web("3"), blue)
	w.tells(t,
		"blue 1 begins", "blue 1 is ready", "traffic to blue",
		"green 2 begins", "green 2 is ready", "traffic to green", "blue is gone",
		"blue 3 begins", "blue 3 is ready", "traffic to blue", "green is gone",
	)
}

func TestBrokenVersionGetsNoTraffic(t *testing.T) {
	w := newWorld(t)
	w.runs("1", "3")
	w.Create(object(web("1")))
	w.isReady(web("1"), blue)

	w.Update(object(web("broken")))
	w.Eventually(web("").deployment(green, image("broken")), timeout)
	w.settles()
	require.Equal(t, BlueGreenStatus{Active: "blue", Image: image("1")}, BlueGreenStatus{Active: w.status().Active, Image: w.status().Image})

	// The next version takes the broken one's place, and one that serves is scaled meanwhile.
	next := web("3")
	next.Spec.Replicas = 3
	w.Update(object(next))
	w.isReady(next, green)
	require.Equal(t, []string{"traffic to blue", "traffic to green"}, traffic(w.tell()))
}

func TestBackInTheMiddle(t *testing.T) {
	w := newWorld(t)
	w.runs("1")
	w.Create(object(web("1")))
	w.isReady(web("1"), blue)
	serving := w.Get(web("").deployment(blue, ""))

	w.Update(object(web("2")))
	w.Eventually(web("").deployment(green, image("2")), timeout)
	w.Update(object(web("1")))
	w.isReady(web("1"), blue)
	require.Equal(t, serving.UID(), w.Get(serving).UID())
	require.Equal(t, serving.Generation(), w.Get(serving).Generation(), "what serves isn't touched")
	w.tells(t, "blue 1 begins", "blue 1 is ready", "traffic to blue", "green 2 begins", "green is gone")
}

func TestServiceIsPutRight(t *testing.T) {
	w := newWorld(t)
	w.runs("1")
	w.Create(object(web("1")))
	w.isReady(web("1"), blue)
	w.Update(pointing(green)) // there is no such Deployment
	w.Eventually(pointing(blue), timeout)
	w.Delete(pointing(blue))
	w.Eventually(pointing(blue), timeout)
	w.isReady(web("1"), blue)
	w.Delete(object(web("1")))
	w.EventuallyGone(pointing(blue), timeout)
	w.EventuallyGone(web("").deployment(blue, ""), timeout)
}

// traffic returns where the Service has pointed to.
func traffic(lines []string) []string {
	return slices.DeleteFunc(lines, func(text string) bool { return !strings.HasPrefix(text, "traffic") })
}

func TestSchemaRefuses(t *testing.T) {
	if cluster == nil {
		t.Skip("needs an API server")
	}
	cases := map[string]struct {
		reason string
		change func(*BlueGreen)
		want   string // "" if it is accepted
	}{
		"Complete": {"as in sample.yaml", func(*BlueGreen) {}, ""},
		"NoImage":  {"nothing to run", func(b *BlueGreen) { b.Spec.Image = "" }, "spec.image: Invalid value"},
		"None":     {"delete it instead", func(b *BlueGreen) { b.Spec.Replicas = 0 }, "spec.replicas: Invalid value"},
		"Name":     {"a Service can't have such a name", func(b *BlueGreen) { b.Name = "1.web" }, "metadata.name: its Service has this name"},
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	all := client.Resource(operator.Parent.GroupVersionKind().GroupVersion().WithResource("bluegreens")).Namespace("default")
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			app := web("1")
			tc.change(app)
			u := &unstructured.Unstructured{Object: object(app)}
			_, err := all.Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}

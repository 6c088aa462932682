package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// playKubelet makes the Pods of a namespace Ready, as a kubelet would, until the test ends. A Pod
// whose image is "broken" runs and never becomes Ready.
func playKubelet(t *testing.T, namespace string) {
	t.Helper()
	client, _ := clients(t, "kubelet")
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	run := func(obj any) {
		pod, _ := obj.(*corev1.Pod)
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodRunning {
			return
		}
		ready := corev1.ConditionTrue
		if strings.HasSuffix(pod.Spec.Containers[0].Image, "broken") {
			ready = corev1.ConditionFalse
		}
		patch := fmt.Sprintf(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"%s","lastTransitionTime":"%s"}]}}`, ready, time.Now().UTC().Format(time.RFC3339))
		// The Pod may have gone, or the test may have ended.
		_, _ = client.CoreV1().Pods(namespace).Patch(context.Background(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: run, UpdateFunc: func(_, obj any) { run(obj) },
	})
	require.NoError(t, err)
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
}

const shipCount = 4

// ship returns a Deployment of one Pod that has an image of this version.
func ship(i int, version string) *appsv1.Deployment {
	d := typedDeployment()
	d.Name = fmt.Sprint("ship-", i)
	one, soon := int32(1), int32(2)
	d.Spec.Replicas, d.Spec.ProgressDeadlineSeconds = &one, &soon
	d.Spec.Selector.MatchLabels = map[string]string{"ship": d.Name}
	d.Spec.Template.Labels = map[string]string{"ship": d.Name}
	d.Spec.Template.Spec.Containers[0].Image = "example.com/app:" + version
	return d
}

// ships is a Sync that wants Deployments of the version in spec.version.
func ships(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	field, _ := req.Parent.Field("spec", "version")
	version, _ := field.(string)
	out := &handler.SyncResponse{}
	for i := range shipCount {
		out.Children = append(out.Children, ship(i, version))
	}
	return out, nil
}

// A flotilla is an operator of Deployments whose Pods run, under the eyes of a record.
type flotilla struct {
	*testkit.Kit
	t    *testing.T
	cfg  config.Operator
	seen *chronicle
}

func flotillaOperator(name string, roll *config.Roll) config.Operator {
	cfg := operator(name, config.Child{Type: k8s.Deployment, Strategy: config.Replace, Roll: roll})
	cfg.ReadyCondition = true
	return cfg
}

func newFlotilla(t *testing.T, cfg config.Operator) *flotilla {
	t.Helper()
	needsControllerManager(t)
	f := &flotilla{t: t, cfg: cfg}
	f.Kit = testkit.New(t, cluster, cfg, handler.SyncFunc(ships))
	f.seen = record(t, f.Namespace, parentType, k8s.Deployment)
	playKubelet(t, f.Namespace)
	return f
}

// sail asks for a version, with more of the parent's spec if need be.
func (f *flotilla) sail(version string, more ...any) {
	f.t.Helper()
	spec := map[string]any{"version": version}
	for i := 0; i+1 < len(more); i += 2 {
		spec[more[i].(string)] = more[i+1]
	}
	it := parent("one", spec)
	if f.Get(it) == nil {
		f.Create(it)
	} else {
		f.Update(it)
	}
}

// versions returns which version each Deployment has, and "" for one that isn't there.
func (f *flotilla) versions() (out []string) {
	f.t.Helper()
	for i := range shipCount {
		live := f.Get(ship(i, ""))
		if live == nil {
			out = append(out, "")
			continue
		}
		out = append(out, versionOf(live))
	}
	return out
}

func versionOf(deployment *resource.Resource) string {
	field, _ := deployment.Field("spec", "template", "spec", "containers")
	list, _ := field.([]any)
	container, _ := list[0].(map[string]any)
	image, _ := container["image"].(string)
	_, version, _ := strings.Cut(image, ":")
	return version
}

// arrives waits until all have a version and are Current, and the parent says that it is Ready.
func (f *flotilla) arrives(version string) {
	f.t.Helper()
	eventually(f.t, "all have version "+version, func() bool {
		for i := range shipCount {
			live := f.Get(ship(i, ""))
			if live == nil || versionOf(live) != version || readiness.Of(live).State != readiness.Current {
				return false
			}
		}
		return isReadyNow(f.Get(parent("one", nil)))
	})
}

// conditionNow returns a condition of a parent, false if it isn't of the parent's generation.
func conditionNow(it *resource.Resource, name string) (c metav1.Condition, now bool) {
	var typed struct {
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if it == nil || it.Decode(&typed) != nil {
		return c, false
	}
	for _, c := range typed.Status.Conditions {
		if c.Type == name {
			return c, c.ObservedGeneration == it.Generation() && typed.Status.ObservedGeneration == it.Generation()
		}
	}
	return c, false
}

func isReadyNow(it *resource.Resource) bool {
	c, now := conditionNow(it, "Ready")
	return now && c.Status == metav1.ConditionTrue
}

// A chronicle has every version of the objects of a namespace that the API server has told of, in
// the order of their resourceVersions.
type chronicle struct {
	mu struct {
		sync.Mutex
		entries []entry
	}
}

// An entry is an object as it was from a resourceVersion on.
type entry struct {
	version int64
	gone    bool
	object  *resource.Resource
}

// record watches a namespace until the test ends.
func record(t *testing.T, namespace string, watched ...resource.Type) *chronicle {
	t.Helper()
	_, client := clients(t, "chronicler")
	out := &chronicle{}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, of := range watched {
		w, err := client.Resource(plural(of)).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		all.Go(func() {
			for event := range w.ResultChan() { // ends with ctx
				out.note(event)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return out
}

func (c *chronicle) note(event watch.Event) {
	u, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
	res, resErr := resource.New(u.Object)
	if errors.Join(err, resErr) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := len(c.mu.entries)
	for at > 0 && c.mu.entries[at-1].version > version {
		at--
	}
	c.mu.entries = append(c.mu.entries[:at:at], append([]entry{{version, event.Type == watch.Deleted, res}}, c.mu.entries[at:]...)...)
}

// until returns what is known once the newest state of an object is.
func (c *chronicle) until(t *testing.T, it *resource.Resource) (out []entry) {
	t.Helper()
	newest, err := strconv.ParseInt(it.ResourceVersion(), 10, 64)
	require.NoError(t, err)
	eventually(t, "the watches have told of "+it.Name(), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		out = append([]entry(nil), c.mu.entries...)
		return len(out) > 0 && out[len(out)-1].version >= newest
	})
	return out
}

// neverMoreDown requires that no write of a version has made more than limit Deployments
// unavailable.
func neverMoreDown(t *testing.T, entries []entry, limit int) (updates int) {
	t.Helper()
	live := map[string]*resource.Resource{}
	down := func(but string) (n int) {
		for name, d := range live {
			if name != but && readiness.Of(d).State != readiness.Current {
				n++
			}
		}
		return n
	}
	for _, e := range entries {
		if e.object.Type() != k8s.Deployment {
			continue
		}
		name := e.object.Name()
		if was := live[name]; was != nil && !e.gone && versionOf(was) != versionOf(e.object) {
			updates++
			if readiness.Of(was).State == readiness.Current {
				require.Less(t, down(name), limit, "%s became %s at %d", name, versionOf(e.object), e.version)
			}
		}
		if live[name] = e.object; e.gone {
			delete(live, name)
		}
	}
	return updates
}

// A guillotine is a way to the API server that ends at one of the operator's writes, as if the
// process had been killed: before the request arrives, or before its answer does.
type guillotine struct {
	at       atomic.Int64 // the number of the write, from 1 on; 0: none
	answered bool         // the request arrives
	writes   atomic.Int64
	fell     atomic.Bool
}

// config returns a configuration whose requests go that way.
func (g *guillotine) config() *rest.Config {
	cfg := cluster.RESTConfig()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) { return g.pass(next, req) })
	})
	return cfg
}

var errKilled = errors.New("the process was killed")

func (g *guillotine) pass(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	if g.fell.Load() {
		return nil, errKilled
	}
	if req.Method == http.MethodGet || req.URL.Query().Has("dryRun") || strings.Contains(req.URL.Path, "/events") || strings.Contains(req.URL.Path, "/selfsubject") {
		return next.RoundTrip(req)
	}
	if g.writes.Add(1) != g.at.Load() {
		return next.RoundTrip(req)
	}
	g.fell.Store(true)
	if g.answered {
		if resp, err := next.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}
	return nil, errKilled
}

// killedAtEach runs a story once to the end, and then once for each write that it took, with the
// operator's process killed there and started again. The story is told of the operator's way to
// the API server, and of what to do once the operator may have been killed.
func killedAtEach(t *testing.T, story func(t *testing.T, name string, g *guillotine)) {
	t.Helper()
	whole := &guillotine{}
	t.Run("whole", func(t *testing.T) { story(t, "whole", whole) })
	writes := whole.writes.Load()
	require.Positive(t, writes)
	for at := int64(1); at <= writes; at++ {
		for _, answered := range []bool{false, true} {
			name := fmt.Sprintf("%d-%t", at, answered)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := &guillotine{answered: answered}
				g.at.Store(at)
				story(t, name, g)
			})
		}
	}
}

// spare lets the operator live while do is done, which isn't part of the story.
func (g *guillotine) spare(do func()) {
	at := g.at.Swap(0)
	do()
	g.writes.Store(0)
	g.at.Store(at)
}

// reborn waits until the operator was killed or the story has come to its end without that, and
// starts it again in the first case.
func (g *guillotine) reborn(t *testing.T, kit *testkit.Kit, cfg config.Operator, h handler.Handler, over func() bool) {
	t.Helper()
	eventually(t, "the operator is killed, or done", func() bool { return g.fell.Load() || over() })
	if !g.fell.Load() {
		return
	}
	kit.Stop()
	g.at.Store(0)
	g.fell.Store(false)
	kit.Restart(cfg, h)
	eventually(t, "it is over", over)
}

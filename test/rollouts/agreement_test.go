package rollouts

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
)

// patience only bounds a hang.
const patience = 3 * time.Minute

// A life is what happens to one object, and the states that kstatus must have told of meanwhile,
// in any order: otherwise the life has shown nothing.
type life struct {
	object string // as YAML
	steps  []step
	states []readiness.State
}

// A step is a change of the object, by a JSON merge patch, and the state that ends the step. The
// empty patch of the first step means that the object is created.
type step struct {
	patch       string
	subresource string
	until       readiness.State
}

const (
	waiting = readiness.InProgress
	arrived = readiness.Current
	failed  = readiness.Failed
	goes    = readiness.Terminating
)

// lives has one life for each kind for which kstatus has a rule of its own, and some for those
// that have the general one.
func lives() map[string]life {
	const pods = `metadata: {labels: {app: one}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: example.com/app}]}`
	image := func(text string) string {
		return `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.com/app:` + text + `"}]}}}}`
	}
	return map[string]life{
		"deployments.v1.apps": {
			object: `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3, progressDeadlineSeconds: 3, selector: {matchLabels: {app: one}}, template: {` + pods + `}}}`,
			steps:  []step{{until: arrived}, {patch: image("2"), until: arrived}, {patch: `{"spec":{"replicas":4}}`, until: arrived}, {patch: image("broken"), until: failed}, {patch: image("3"), until: arrived}, {patch: `{"spec":{"replicas":1}}`, until: arrived}},
			states: []readiness.State{waiting, arrived, failed, goes},
		},
		"replicasets.v1.apps": {
			object: `{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 2, selector: {matchLabels: {app: one}}, template: {` + pods + `}}}`,
			steps:  []step{{until: arrived}, {patch: `{"spec":{"replicas":3}}`, until: arrived}, {patch: `{"spec":{"replicas":1}}`, until: arrived}},
			states: []readiness.State{waiting, arrived},
		},
		"statefulsets.v1.apps": {
			object: `{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: none, replicas: 2, selector: {matchLabels: {app: one}}, template: {` + pods + `}}}`,
			steps:  []step{{until: arrived}, {patch: image("2"), until: arrived}, {patch: `{"spec":{"replicas":3}}`, until: arrived}, {patch: `{"spec":{"replicas":1}}`, until: arrived}},
			states: []readiness.State{waiting, arrived},
		},
		"daemonsets.v1.apps": {
			object: `{apiVersion: apps/v1, kind: DaemonSet, spec: {selector: {matchLabels: {app: one}}, template: {` + pods + `}}}`,
			steps:  []step{{until: arrived}, {patch: image("2"), until: arrived}},
			states: []readiness.State{waiting, arrived},
		},
		"pods.v1.": {
			object: `{apiVersion: v1, kind: Pod, spec: {terminationGracePeriodSeconds: 0, containers: [{name: main, image: example.com/app}]}}`,
			steps:  []step{{until: arrived}},
			states: []readiness.State{waiting, arrived, goes},
		},
		"pods.v1./unschedulable": {
			object: `{apiVersion: v1, kind: Pod, spec: {containers: [{name: main, image: example.com/app, resources: {requests: {cpu: 9000}}}]}}`,
			steps:  []step{{until: waiting}, {patch: `{"metadata":{"labels":{"late":"yes"}}}`, until: waiting}},
			states: []readiness.State{waiting},
		},
		"jobs.v1.batch": {
			object: `{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/app}]}}}}`,
			steps:  []step{{until: arrived}},
			states: []readiness.State{waiting, arrived},
		},
		"jobs.v1.batch/fails": {
			object: `{apiVersion: batch/v1, kind: Job, spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/fails}]}}}}`,
			steps:  []step{{until: failed}},
			states: []readiness.State{arrived, failed},
		},
		"persistentvolumeclaims.v1.": {
			object: `{apiVersion: v1, kind: PersistentVolumeClaim, spec: {storageClassName: "", volumeName: NAME, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			steps:  []step{{until: arrived}},
			states: []readiness.State{waiting, arrived},
		},
		"services.v1.": {
			object: `{apiVersion: v1, kind: Service, spec: {selector: {app: one}, ports: [{port: 80}]}}`,
			steps:  []step{{until: arrived}},
			states: []readiness.State{arrived},
		},
		"services.v1./balanced": {
			object: `{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, selector: {app: one}, ports: [{port: 80}]}}`,
			steps:  []step{{until: arrived}, {patch: `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`, subresource: "status", until: arrived}},
			states: []readiness.State{arrived},
		},
		"poddisruptionbudgets.v1.policy": {
			object: `{apiVersion: policy/v1, kind: PodDisruptionBudget, spec: {minAvailable: 1, selector: {matchLabels: {app: one}}}}`,
			steps:  []step{{until: arrived}, {patch: `{"spec":{"minAvailable":2}}`, until: arrived}},
			states: []readiness.State{arrived},
		},
		"customresourcedefinitions.v1.apiextensions.k8s.io": {
			object: `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {group: rollouts.roperator.com, scope: Namespaced, names: {kind: Other, listKind: OtherList, plural: others, singular: other}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`,
			steps:  []step{{until: arrived}},
			states: []readiness.State{waiting, arrived},
		},
		"configmaps.v1.": {
			object: `{apiVersion: v1, kind: ConfigMap}`,
			steps:  []step{{until: arrived}, {patch: `{"data":{"a":"b"}}`, until: arrived}},
			states: []readiness.State{arrived},
		},
		"parts.v1.rollouts.roperator.com": {
			object: `{apiVersion: rollouts.roperator.com/v1, kind: Part, spec: {size: 1}}`,
			steps: []step{
				{until: arrived}, // nobody has looked at it, by its status
				{patch: conditions(1, "Reconciling", "True"), subresource: "status", until: waiting},
				{patch: conditions(1, "Ready", "True"), subresource: "status", until: arrived},
				{patch: `{"spec":{"size":2}}`, until: waiting},
				{patch: conditions(2, "Ready", "False"), subresource: "status", until: waiting},
				{patch: conditions(2, "Stalled", "True"), subresource: "status", until: failed},
				{patch: conditions(2, "Ready", "Unknown"), subresource: "status", until: waiting},
				{patch: conditions(2, "Ready", "True"), subresource: "status", until: arrived},
			},
			states: []readiness.State{waiting, arrived, failed},
		},
	}
}

func conditions(observed int, name, value string) string {
	return fmt.Sprintf(`{"status":{"observedGeneration":%d,"conditions":[{"type":%q,"status":%q,"reason":"Because","message":"so it is"}]}}`, observed, name, value)
}

// Package readiness says of each object, at each resourceVersion that it has in its life, what
// kstatus says.
func TestAgreement(t *testing.T) {
	if cluster == nil {
		t.Skip("needs kube-scheduler and kwok beside kube-apiserver")
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	all := &verdicts{}
	for name, l := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live(t, client, name, l, all)
		})
	}
	t.Cleanup(func() { t.Logf("%d versions compared", all.count) })
}

// verdicts counts what was compared.
type verdicts struct {
	sync.Mutex
	count int
}

// live lets an object live its life, under the eyes of a watch.
func live(t *testing.T, client dynamic.Interface, name string, l life, all *verdicts) {
	t.Helper()
	plural, _, _ := strings.Cut(name, "/")
	gvr, _ := schema.ParseResourceArg(plural)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	u := objectOf(t, name, l.object)
	var objects dynamic.ResourceInterface = client.Resource(*gvr)
	if gvr.Group != "apiextensions.k8s.io" {
		objects = client.Resource(*gvr).Namespace(namespace(ctx, t, client, u.GetName()))
	}
	if gvr.Resource == "persistentvolumeclaims" {
		addVolume(ctx, t, client, u)
	}
	w, err := objects.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + u.GetName()})
	require.NoError(t, err)
	defer w.Stop()
	seen := map[readiness.State]int{}
	next := func() (state readiness.State, generation int64) {
		for {
			event, open := <-w.ResultChan()
			require.True(t, open, "the watch has ended; seen: %v", seen)
			live, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			state := agrees(t, live)
			seen[state]++
			all.Lock()
			all.count++
			all.Unlock()
			if event.Type == "DELETED" {
				state = ""
			}
			return state, live.GetGeneration()
		}
	}
	generation := int64(0)
	for i, s := range l.steps {
		now := change(ctx, t, objects, u, s, i == 0)
		generation = max(generation, now)
		for {
			if state, of := next(); state == s.until && of >= generation {
				break
			}
		}
	}
	foreground := metav1.DeletePropagationForeground
	err = objects.Delete(ctx, u.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground})
	require.True(t, err == nil || apierrors.IsNotFound(err), err)
	for state, _ := next(); state != ""; state, _ = next() {
		require.Contains(t, []readiness.State{waiting, arrived, failed, goes}, state)
	}
	for _, state := range l.states {
		require.NotZero(t, seen[state], "%s was never seen: %v", state, seen)
	}
}

// agrees requires that package readiness agrees with kstatus about an object, and returns what
// they say.
func agrees(t *testing.T, live *unstructured.Unstructured) readiness.State {
	t.Helper()
	res, err := resource.New(live.Object)
	require.NoError(t, err)
	was := readiness.Of(res)
	theirs, err := status.Compute(live)
	require.NoError(t, err)
	is := readiness.Of(res) // one rule reads the clock: theirs is from between ours
	require.Contains(t, []string{string(was.State), string(is.State)}, theirs.Status.String(), "%s at %s: %s", live.GetName(), live.GetResourceVersion(), theirs.Message)
	if is.State == was.State && is.State != goes {
		require.Equal(t, numbers(theirs.Message), numbers(is.Message), "%q is %q", theirs.Message, is.Message)
	}
	require.NotEmpty(t, is.Message)
	return is.State
}

// numbers returns the numbers in a text, in order.
func numbers(text string) []string {
	out := regexp.MustCompile(`\d+`).FindAllString(text, -1)
	slices.Sort(out)
	return out
}

func objectOf(t *testing.T, name, text string) *unstructured.Unstructured {
	t.Helper()
	unique := strings.NewReplacer(".", "-", "/", "-").Replace(strings.TrimSuffix(name, "."))
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(strings.ReplaceAll(text, "NAME", unique)), &u.Object))
	if u.GetKind() == "CustomResourceDefinition" {
		unique = "others.rollouts.roperator.com"
	}
	u.SetName(unique)
	return u
}

// namespace creates a namespace for one life. The cluster ends with the tests.
func namespace(ctx context.Context, t *testing.T, client dynamic.Interface, name string) string {
	t.Helper()
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, err := namespaces.Create(ctx, u, metav1.CreateOptions{})
	require.NoError(t, err)
	accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(name)
	require.Eventually(t, func() bool { // Pods need it
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	}, patience, 50*time.Millisecond)
	return name
}

// addVolume creates the volume that a claim asks for by name.
func addVolume(ctx context.Context, t *testing.T, client dynamic.Interface, claim *unstructured.Unstructured) {
	t.Helper()
	volume := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(`{apiVersion: v1, kind: PersistentVolume, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /none}, persistentVolumeReclaimPolicy: Retain}}`), &volume.Object))
	volume.SetName(claim.GetName())
	_, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}).Create(ctx, volume, metav1.CreateOptions{})
	require.NoError(t, err)
}

// change makes a step, and returns the generation that the object has from then on.
func change(ctx context.Context, t *testing.T, objects dynamic.ResourceInterface, u *unstructured.Unstructured, s step, first bool) int64 {
	t.Helper()
	if first {
		made, err := objects.Create(ctx, u, metav1.CreateOptions{})
		require.NoError(t, err)
		return made.GetGeneration()
	}
	var subresources []string
	if s.subresource != "" {
		subresources = []string{s.subresource}
	}
	made, err := objects.Patch(ctx, u.GetName(), types.MergePatchType, []byte(s.patch), metav1.PatchOptions{}, subresources...)
	require.NoError(t, err)
	return made.GetGeneration()
}

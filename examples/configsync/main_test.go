package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/internal/testing/transcript"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine a second.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"crd.yaml"}, ControllerManager: true}, &cluster)
}

// A stage is an operator that runs for one test, with a source and namespaces of
// its own. The source is in the Kit's namespace.
type stage struct {
	*testkit.Kit
	t *testing.T
}

func newStage(t *testing.T) stage {
	t.Helper()
	if cluster == nil {
		t.Skip("needs an API server")
	}
	return stage{testkit.New(t, cluster, operator, configSyncs), t}
}

// namespace returns a Namespace with a name of the stage's own. If it is
// selected, it has the label that the stage's ConfigSync asks for.
func (s stage) namespace(suffix string, selected bool) *corev1.Namespace {
	labels := map[string]string{"copies": "none"}
	if selected {
		labels["copies"] = s.Namespace
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + suffix, Labels: labels}}
}

// add creates a Namespace for the time of the test.
func (s stage) add(suffix string, selected bool) {
	s.t.Helper()
	namespace := s.namespace(suffix, selected)
	s.Create(namespace)
	s.t.Cleanup(func() {
		if live := s.Get(namespace); live != nil && !live.IsDeleting() {
			s.Delete(namespace)
		}
	})
}

// source returns the ConfigMap that is copied.
func (s stage) source(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: data}
}

// copied returns the copy in a namespace.
func (s stage) copied(suffix string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: s.Namespace + suffix}, Data: data}
}

// configSync returns the stage's ConfigSync with some fields of the spec changed.
func (s stage) configSync(spec map[string]any) map[string]any {
	all := map[string]any{
		"source":            map[string]any{"namespace": s.Namespace, "name": "settings"},
		"namespaceSelector": map[string]any{"matchLabels": map[string]any{"copies": s.Namespace}},
	}
	maps.Copy(all, spec)
	return object(s.Namespace, all)
}

func object(name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": parent.APIVersion, "kind": parent.Kind,
		"metadata": map[string]any{"name": name},
		"spec":     spec,
	}
}

// says waits for a status.
func (s stage) says(namespaces, copies int, message string) {
	s.t.Helper()
	want := s.configSync(nil)
	delete(want, "spec")
	want["status"] = map[string]any{"namespaces": namespaces, "copies": copies}
	s.Eventually(want, timeout)
	s.tells(message)
}

// tells waits for a message that contains a text, or for none.
func (s stage) tells(text string) {
	s.t.Helper()
	var message string
	require.Eventually(s.t, func() bool {
		field, _ := s.Get(s.configSync(nil)).Field("status", "message")
		message, _ = field.(string)
		return strings.Contains(message, text) && (text != "" || message == "")
	}, timeout, 50*time.Millisecond, "want %q", text)
}

// settles waits until the operator has come to rest.
func (s stage) settles() {
	s.t.Helper()
	require.NoError(s.t, s.Settle(timeout))
}

// writesIn returns what the operator has written in a namespace.
func (s stage) writesIn(namespace string) (out []string) {
	for _, write := range s.Writes() {
		if write.Key.Namespace == namespace {
			out = append(out, write.String())
		}
	}
	return out
}

// TestReadme runs what README.md shows: the operator as a process, and kubectl.
func TestReadme(t *testing.T) {
	if cluster == nil || !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which empties namespaces and collects garbage")
	}
	programs, err := transcript.Programs(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, transcript.Forget(t.Context(), cluster.RESTConfig(), parent.Kind, "configsyncs.example.roperator.com"))
	require.NoError(t, transcript.Run(t.Context(), transcript.Options{
		Readme:  "README.md",
		Files:   []string{"crd.yaml", "sample.yaml"},
		Bin:     programs,
		Env:     []string{"KUBECONFIG=" + cluster.Kubeconfig()},
		Timeout: timeout,
		Log:     func(command string) { t.Log("$ " + command) },
	}))
}

func TestCopiesAreAsTheSource(t *testing.T) {
	s := newStage(t)
	s.add("-a", true)
	s.add("-b", true)
	s.add("-c", false)
	s.Create(s.source(map[string]string{"color": "red", "shape": "round"}))
	s.Create(s.configSync(nil))
	s.Eventually(s.copied("-a", map[string]string{"color": "red", "shape": "round"}), timeout)
	s.Eventually(s.copied("-b", map[string]string{"color": "red"}), timeout)
	s.says(2, 2, "")
	s.settles()
	require.Nil(t, s.Get(s.copied("-c", nil)))

	s.Update(s.source(map[string]string{"color": "blue"}))
	s.Eventually(s.copied("-a", map[string]string{"color": "blue"}), timeout)
	s.Eventually(s.copied("-b", map[string]string{"color": "blue"}), timeout)
	s.settles()
	require.Equal(t, map[string]any{"color": "blue"}, data(s.Get(s.copied("-a", nil))), "what the source has lost is gone")

	s.Update(s.copied("-a", map[string]string{"color": "green"}))
	s.Eventually(s.copied("-a", map[string]string{"color": "blue"}), timeout)
	s.Delete(s.copied("-b", nil))
	s.Eventually(s.copied("-b", map[string]string{"color": "blue"}), timeout)
	s.settles()
	require.Empty(t, s.HandlerErrors(s.configSync(nil)))
	require.Empty(t, s.writesIn(s.Namespace), "the source isn't written")
}

func data(r *resource.Resource) any {
	value, _ := r.Field("data")
	return value
}

func TestNamespaceEntersAndLeavesTheSelector(t *testing.T) {
	s := newStage(t)
	s.Create(s.source(map[string]string{"color": "red"}))
	s.Create(s.configSync(nil))
	s.says(0, 0, "")

	s.add("-a", true)
	s.add("-b", false)
	s.Eventually(s.copied("-a", map[string]string{"color": "red"}), timeout)
	s.says(1, 1, "")
	s.Update(s.namespace("-b", true))
	s.Eventually(s.copied("-b", map[string]string{"color": "red"}), timeout)
	s.says(2, 2, "")
	s.Update(s.namespace("-a", false))
	s.EventuallyGone(s.copied("-a", nil), timeout)
	s.says(1, 1, "")

	s.Update(s.configSync(map[string]any{"namespaceSelector": map[string]any{"matchExpressions": []any{
		map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": []any{s.Namespace, s.Namespace + "-a", s.Namespace + "-b"}},
	}}}))
	s.Eventually(s.copied("-a", map[string]string{"color": "red"}), timeout)
	s.says(2, 2, "") // the source's own namespace is none of them
	s.settles()
	require.Empty(t, s.HandlerErrors(s.configSync(nil)))
	require.Empty(t, s.writesIn(s.Namespace))
}

func TestNamespaceThatIsDeletedIsLeftAlone(t *testing.T) {
	s := newStage(t)
	s.add("-a", true)
	s.add("-b", true)
	s.Create(s.source(map[string]string{"color": "red"}))
	s.Create(s.configSync(nil))
	s.says(2, 2, "")
	s.settles()

	// A finalizer of something else keeps the namespace from going.
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Namespace: s.Namespace + "-a", Finalizers: []string{"example.com/held"}}}
	s.Create(held)
	s.Delete(s.namespace("-a", true))
	s.says(1, 1, "")
	s.settles()
	before := s.writesIn(s.Namespace + "-a")
	s.Update(s.source(map[string]string{"color": "blue"}))
	s.Eventually(s.copied("-b", map[string]string{"color": "blue"}), timeout)
	s.settles()
	require.Equal(t, before, s.writesIn(s.Namespace+"-a"), "nothing is written there")
	require.Empty(t, s.HandlerErrors(s.configSync(nil)))
	if !cluster.HasControllerManager() {
		return // nobody empties the namespace
	}

	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	configMaps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(held.Namespace)
	_, err = configMaps.Patch(t.Context(), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.EventuallyGone(s.namespace("-a", true), timeout)
	s.add("-a", true) // one of the same name
	s.Eventually(s.copied("-a", map[string]string{"color": "blue"}), timeout)
	s.says(2, 2, "")
	s.settles()
	require.Empty(t, s.HandlerErrors(s.configSync(nil)))
}

func TestSourceComesAndGoes(t *testing.T) {
	s := newStage(t)
	s.add("-a", true)
	s.add("-b", true)
	s.Create(s.configSync(nil))
	missing := fmt.Sprintf("ConfigMap %s/settings: doesn't exist", s.Namespace)
	s.says(2, 0, missing)
	s.Create(s.source(map[string]string{"color": "red"}))
	s.says(2, 2, "")

	s.Delete(s.source(nil))
	s.says(2, 2, missing)
	s.Update(s.namespace("-b", false))
	s.EventuallyGone(s.copied("-b", nil), timeout)
	s.says(1, 1, missing)
	s.Eventually(s.copied("-a", map[string]string{"color": "red"}), timeout)
	s.settles()

	s.Create(s.source(map[string]string{"color": "blue"}))
	s.Eventually(s.copied("-a", map[string]string{"color": "blue"}), timeout)
	s.says(1, 1, "")
	require.Empty(t, s.HandlerErrors(s.configSync(nil)))
}

func TestConfigMapOfSomebodyElseIsLeftAlone(t *testing.T) {
	s := newStage(t)
	s.add("-a", true)
	s.add("-b", true)
	s.Create(s.source(map[string]string{"color": "red"}))
	theirs := s.copied("-a", map[string]string{"their": "own"})
	s.Create(theirs)
	s.Create(s.configSync(nil))
	s.Eventually(s.copied("-b", map[string]string{"color": "red"}), timeout)
	s.says(2, 1, fmt.Sprintf("ConfigMap %s-a/settings: can't create: already exists and is not managed by configsync (nobody manages it; Adopt or AdoptOffered in its config.Child would let the operator take it)", s.Namespace))
	require.Equal(t, map[string]any{"their": "own"}, data(s.Get(theirs)))
	require.Empty(t, s.writesIn(s.Namespace+"-a"))
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(s.Events(s.configSync(nil)), func(text string) bool { return strings.HasPrefix(text, "Warning NameConflict") })
	}, timeout, 50*time.Millisecond)

	s.Delete(theirs)
	s.Eventually(s.copied("-a", map[string]string{"color": "red"}), timeout)
	s.says(2, 2, "")
	s.settles()
}

func TestSelectorThatCantBeMeant(t *testing.T) {
	s := newStage(t)
	s.add("-a", true)
	s.Create(s.source(map[string]string{"color": "red"}))
	s.Create(s.configSync(nil))
	s.says(1, 1, "")
	s.settles()
	before := s.writesIn(s.Namespace + "-a")
	for _, tc := range []struct {
		selector map[string]any
		want     string
	}{
		{map[string]any{}, "spec.namespaceSelector: empty"},
		{map[string]any{"matchLabels": map[string]any{"no spaces": "please"}}, "spec.namespaceSelector: "},
	} {
		errs := len(s.HandlerErrors(s.configSync(nil)))
		s.Update(s.configSync(map[string]any{"namespaceSelector": tc.selector}))
		s.tells(tc.want)
		s.settles()
		more := s.HandlerErrors(s.configSync(nil))[errs:]
		require.NotEmpty(t, more)
		require.LessOrEqual(t, len(more), 2, "it isn't tried again: at most the write of the status leads to another pass")
		require.Equal(t, before, s.writesIn(s.Namespace+"-a"), "the copy stays as it is")
	}
	s.Update(s.configSync(nil))
	s.says(1, 1, "")
}

func TestDeletedConfigSyncTakesItsCopiesAlong(t *testing.T) {
	s := newStage(t)
	if !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, which collects garbage")
	}
	s.add("-a", true)
	s.Create(s.source(map[string]string{"color": "red"}))
	s.Create(s.configSync(nil))
	s.says(1, 1, "")
	require.Empty(t, s.Get(s.configSync(nil)).Finalizers(), "there is nothing to finalize")

	s.Delete(s.configSync(nil))
	s.EventuallyGone(s.configSync(nil), timeout)
	s.EventuallyGone(s.copied("-a", nil), timeout)
	require.NotNil(t, s.Get(s.source(nil)))
}

func TestSchemaRefuses(t *testing.T) {
	if cluster == nil {
		t.Skip("needs an API server")
	}
	source := map[string]any{"namespace": "platform", "name": "settings"}
	selector := map[string]any{"matchLabels": map[string]any{"a": "b"}}
	cases := map[string]struct {
		reason string
		spec   map[string]any
		want   string // "" if it is accepted
	}{
		"Complete":        {"source and selector", map[string]any{"source": source, "namespaceSelector": selector}, ""},
		"NoSource":        {"nothing to copy", map[string]any{"namespaceSelector": selector}, "spec.source: Required value"},
		"NoSelector":      {"nowhere to copy it to", map[string]any{"source": source}, "spec.namespaceSelector: Required value"},
		"NoNamespace":     {"a ConfigSync is in none itself", map[string]any{"source": map[string]any{"name": "settings"}, "namespaceSelector": selector}, "spec.source.namespace: Required value"},
		"NotAName":        {"no ConfigMap can have it", map[string]any{"source": map[string]any{"namespace": "platform", "name": "../settings"}, "namespaceSelector": selector}, "spec.source.name: Invalid value"},
		"NotANamespace":   {"nor can a namespace", map[string]any{"source": map[string]any{"namespace": "*", "name": "settings"}, "namespaceSelector": selector}, "spec.source.namespace: Invalid value"},
		"UnknownInSource": {"a field that nobody reads", map[string]any{"source": map[string]any{"namespace": "platform", "name": "settings", "key": "x"}, "namespaceSelector": selector}, `unknown field "spec.source.key"`},
	}
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	configSyncs := client.Resource(parent.GroupVersionKind().GroupVersion().WithResource("configsyncs"))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: object("schema", tc.spec)}
			_, err := configSyncs.Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.want, tc.reason)
			}
		})
	}
}

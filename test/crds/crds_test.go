package crds

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/definitions"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

const generous = 2 * time.Minute

var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	if versions := os.Getenv(operatorproc.Variable); versions != "" {
		beBuild(versions)
	}
	if err := budget.WaitTogether(8); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.ClusterOptions{}, &cluster)
}

// A world is a group of its own, with what a test needs.
type world struct {
	*testing.T
	group    string
	rc       *rest.Config
	dynamic  dynamic.Interface
	log      *bytes.Buffer
	requests struct {
		sync.Mutex
		said []string
	}
}

func newWorld(t *testing.T, group string) *world {
	t.Helper()
	if cluster == nil {
		t.Skip("no cluster with -short")
	}
	w := &world{T: t, group: group + ".crds.example.com", rc: rest.CopyConfig(cluster.RESTConfig()), log: &bytes.Buffer{}}
	var err error
	w.dynamic, err = dynamic.NewForConfig(w.rc)
	require.NoError(t, err)
	w.rc.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			w.requests.Lock()
			w.requests.said = append(w.requests.said, req.Method+" "+req.URL.Path)
			w.requests.Unlock()
			return next.RoundTrip(req)
		})
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), generous)
		defer cancel()
		_ = w.definitions().Delete(ctx, w.name(), metav1.DeleteOptions{})
	})
	return w
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func (w *world) name() string { return "widgets." + w.group }

// taken returns the requests since the last call.
func (w *world) taken() []string {
	w.requests.Lock()
	defer w.requests.Unlock()
	said := w.requests.said
	w.requests.said = nil
	return said
}

// onlyReads fails the test if an installation has written since the last call of taken. A
// definition's resourceVersion doesn't tell: the API server changes the status by itself.
func (w *world) onlyReads() {
	w.Helper()
	for _, request := range w.taken() {
		require.Contains(w, request, "GET ")
	}
}

func (w *world) definitions() dynamic.ResourceInterface {
	return w.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

func (w *world) widgets(version string) dynamic.ResourceInterface {
	return w.dynamic.Resource(schema.GroupVersionResource{Group: w.group, Version: version, Resource: "widgets"}).Namespace("default")
}

// text returns a definition with these versions, of which the last is stored.
func (w *world) text(versions ...string) string { return definitionText(w.group, versions...) }

func definitionText(group string, versions ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets}\n  versions:\n", "widgets."+group, group)
	for i, v := range versions {
		name, fields, _ := strings.Cut(v, " ")
		fmt.Fprintf(&b, "  - name: %s\n    served: true\n    storage: %t\n    subresources: {status: {}}\n    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}%s}}, status: {type: object, properties: {observedGeneration: {type: integer}}}}}}\n",
			name, i == len(versions)-1, fields)
	}
	return b.String()
}

// install installs a definition, as a build of an operator does at its start.
func (w *world) install(text string, opts definitions.Options) error {
	parsed, err := crd.Parse([]byte(text))
	require.NoError(w, err)
	return w.room().Install(w.Context(), parsed, opts)
}

func (w *world) room() *definitions.Room {
	log := slog.New(slog.NewTextHandler(w.log, nil))
	l, err := client.Connect(w.rc, log)
	require.NoError(w, err)
	room, err := definitions.New(l, "widgets", "crds.example.com", log)
	require.NoError(w, err)
	return room
}

func (w *world) installed() *unstructured.Unstructured {
	live, err := w.definitions().Get(w.Context(), w.name(), metav1.GetOptions{})
	require.NoError(w, err)
	return live
}

func (w *world) stored() []string {
	stored, _, err := unstructured.NestedStringSlice(w.installed().Object, "status", "storedVersions")
	require.NoError(w, err)
	return stored
}

func (w *world) served() (out []string) {
	for _, v := range crd.Of(w.installed().Object).Versions {
		out = append(out, v.Name)
	}
	return out
}

// The whole road, with 1,000 objects: v1, v1 and v2, v2.
func TestRoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "road")
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	w.fill("v1", "w%d", 1000)
	v2 := w.text("v2")
	require.ErrorContains(t, w.install(v2, definitions.Options{AllowNarrowed: true}), "the version v1 isn't in it any more", "no flag lets stored objects be lost")

	require.NoError(t, w.install(w.text("v1", "v2"), definitions.Options{}))
	require.Equal(t, []string{"v1", "v2"}, w.stored())
	require.ErrorContains(t, w.install(v2, definitions.Options{}), "run migrate-storage")

	parsed, err := crd.Parse([]byte(w.text("v1", "v2")))
	require.NoError(t, err)
	var said []string
	say := func(text string) { said = append(said, text) }
	require.NoError(t, w.room().Migrate(t.Context(), parsed, true, say))
	require.Equal(t, []string{"v1", "v2"}, w.stored(), "a dry run changes nothing")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.room().Migrate(ended, parsed, false, say), context.Canceled)
	require.Equal(t, []string{"v1", "v2"}, w.stored(), "what was cut short isn't done")
	said = nil
	before := w.versions("v2")
	require.NoError(t, w.room().Migrate(t.Context(), parsed, false, say))
	for name, version := range w.versions("v2") {
		require.NotEqual(t, before[name], version, "%s is stored anew", name)
	}
	require.Equal(t, w.name()+": 1000 objects are stored in v2; status.storedVersions is [v2]", said[len(said)-1])
	require.Greater(t, len(said), 3, "its progress is told")
	require.Equal(t, []string{"v2"}, w.stored())

	w.taken()
	require.NoError(t, w.room().Migrate(t.Context(), parsed, false, say))
	require.Len(t, w.taken(), 1, "nothing is left to do")

	require.NoError(t, w.install(v2, definitions.Options{}))
	require.Equal(t, []string{"v2"}, w.served())
	list, err := w.widgets("v2").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1000)
	for _, item := range list.Items {
		size, _, _ := unstructured.NestedInt64(item.Object, "spec", "size")
		require.Equal(t, fmt.Sprint("w", size), item.GetName())
	}
}

// versions returns the resourceVersion of each object.
func (w *world) versions(version string) map[string]string {
	w.Helper()
	list, err := w.widgets(version).List(w.Context(), metav1.ListOptions{})
	require.NoError(w.T, err)
	out := map[string]string{}
	for _, item := range list.Items {
		out[item.GetName()] = item.GetResourceVersion()
	}
	return out
}

// A definition that is as wanted costs one request.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "unchanged")
	text := w.text("v1 , f: {type: boolean, default: false, nullable: false, description: ''}")
	require.NoError(t, w.install(text, definitions.Options{}))
	// A fresh one may not be served yet by every API server, and is looked at: make it old.
	live := w.installed()
	var managers []metav1.ManagedFieldsEntry
	for _, m := range live.GetManagedFields() {
		m.Time = &metav1.Time{Time: time.Now().Add(-time.Hour)}
		require.False(t, m.Manager == "widgets" && m.Operation == metav1.ManagedFieldsOperationUpdate, "created fields are as applied ones")
		managers = append(managers, m)
	}
	live.SetManagedFields(managers)
	live.SetLabels(map[string]string{"other": "change"}) // the API server keeps times if nothing else changes
	_, err := w.definitions().Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	before := w.installed().GetResourceVersion()
	w.taken()
	require.NoError(t, w.install(text, definitions.Options{}))
	require.Equal(t, []string{"GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + w.name()}, w.taken())
	require.Equal(t, before, w.installed().GetResourceVersion())
}

// A build that is rolled back doesn't take the newer definition away, unless it is told to.
func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "rollback")
	older, newer := w.text("v1"), w.text("v1", "v2")
	require.NoError(t, w.install(older, definitions.Options{}))
	require.NoError(t, w.install(newer, definitions.Options{}))
	before := w.installed().GetResourceVersion()
	err := w.install(older, definitions.Options{})
	require.ErrorContains(t, err, "a newer build of the operator has installed another one")
	require.ErrorContains(t, err, "without --install-crds")
	require.Equal(t, before, w.installed().GetResourceVersion(), "nothing is written")
	require.ErrorContains(t, w.install(older, definitions.Options{AllowNarrowed: true}), "a newer build of the operator has installed the version v2", "objects may be stored in v2")

	// Within one version nothing is stored in another one.
	w2 := newWorld(t, "rollback2")
	older, newer = w2.text("v1"), w2.text("v1 , colour: {type: string}")
	require.NoError(t, w2.install(older, definitions.Options{}))
	require.NoError(t, w2.install(newer, definitions.Options{}))
	require.ErrorContains(t, w2.install(older, definitions.Options{}), "--allow-narrowed-crds")
	require.NoError(t, w2.install(older, definitions.Options{AllowNarrowed: true}))
	require.Contains(t, w2.log.String(), "spec.colour: removed")
	require.NoError(t, w2.install(newer, definitions.Options{}), "the newer build is news again")
	require.ErrorContains(t, w2.install(w2.text("v1 , shade: {type: string}"), definitions.Options{}), "version v1: spec.colour: removed", "another build")
}

// Of several builds that begin at once, the newest wins, or is there in the end when it
// begins again; nobody fails for the race itself.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "atonce")
	older, newer := w.text("v1"), w.text("v1", "v2")
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		parsed, err := crd.Parse([]byte([]string{older, newer}[i%2]))
		require.NoError(t, err)
		room := w.room()
		wg.Go(func() { errs[i] = room.Install(t.Context(), parsed, definitions.Options{}) })
	}
	wg.Wait()
	for i, err := range errs {
		if i%2 == 1 {
			require.NoError(t, err, "the newer build")
		} else if err != nil {
			require.True(t, strings.Contains(err.Error(), "newer build") || strings.Contains(err.Error(), "isn't in it any more"), err.Error())
		}
	}
	require.Equal(t, []string{"v1", "v2"}, w.served())
	require.NoError(t, w.install(newer, definitions.Options{}))
}

// What others have added stays; what others manage isn't taken.
func TestOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "others")
	hooked := func(text string) string {
		return text + "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: hook, namespace: default}}}}\n"
	}
	require.NoError(t, w.install(hooked(w.text("v1")), definitions.Options{}))
	_, err := w.definitions().Patch(t.Context(), w.name(), types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"blue"},"annotations":{"note":"kept"}}}`), metav1.PatchOptions{FieldManager: "injector"})
	require.NoError(t, err)
	_, err = w.definitions().Patch(t.Context(), w.name(), types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/conversion/webhook/clientConfig/service/path","value":"/convert"}]`), metav1.PatchOptions{FieldManager: "injector"})
	require.NoError(t, err)
	require.NoError(t, w.install(hooked(w.text("v1 , colour: {type: string}")), definitions.Options{}))
	live := w.installed()
	require.Equal(t, "blue", live.GetLabels()["team"])
	require.Equal(t, "kept", live.GetAnnotations()["note"])
	path, _, err := unstructured.NestedString(live.Object, "spec", "conversion", "webhook", "clientConfig", "service", "path")
	require.NoError(t, err)
	require.Equal(t, "/convert", path)

	_, err = w.definitions().Patch(t.Context(), w.name(), types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/extra","value":{"type":"string"}}]`), metav1.PatchOptions{FieldManager: "helm"})
	require.NoError(t, err)
	before := w.installed().GetResourceVersion()
	err = w.install(hooked(w.text("v1 , colour: {type: string}, extra: {type: string}, more: {type: string}")), definitions.Options{})
	require.ErrorContains(t, err, `conflict with "helm"`)
	require.ErrorContains(t, err, "run without --install-crds, or take them over once with kubectl apply --server-side --force-conflicts --field-manager=widgets")
	require.Equal(t, before, w.installed().GetResourceVersion(), "nothing is written")
}

// What only the API server knows is refused before anything is written.
func TestRefusedByTheServer(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t, "invalid"), newWorld(t, "invalid2")
	parsed, err := crd.Parse([]byte(w.text("v1") + "---\n" + other.text("v1 , f: {type: string, x-kubernetes-validations: [{rule: 'self.nowhere > 3'}]}")))
	require.NoError(t, err)
	err = w.room().Install(t.Context(), parsed, definitions.Options{})
	require.ErrorContains(t, err, "CustomResourceDefinition "+other.name()+": install: ")
	require.ErrorContains(t, err, "x-kubernetes-validations")
	_, err = w.definitions().Get(t.Context(), w.name(), metav1.GetOptions{})
	require.Error(t, err, "the valid one isn't written either")
}

// An operator begins on a cluster that doesn't know its type yet, in the same start.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "run")
	log := &lines{}
	text := strings.Replace(w.text("v1"), "observedGeneration: {type: integer}", "ready: {type: integer}", 1)
	cfg := config.Operator{Name: "widgets", Parent: resource.Type{APIVersion: w.group + "/v1", Kind: "Widget"}, CRDs: [][]byte{[]byte(text)}}
	m, err := manager.New(manager.Options{RESTConfig: w.rc, Logger: slog.New(slog.NewTextHandler(log, nil)), InstallCRDs: true}, manager.Spec{Config: cfg, Handler: handler.SyncFunc(
		func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{}, nil
		})})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	require.Eventually(t, func() bool { return m.Ready() == nil }, generous, 50*time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Contains(t, log.String(), "status.observedGeneration: missing")
	require.Equal(t, []string{"v1"}, w.served())
}

// lines are a log that is read while it is written.
type lines struct {
	sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

package crds

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/engine/definitions"
)

// object returns a definition as a client of the API server sends it.
func (w *world) object(text string) *unstructured.Unstructured {
	w.Helper()
	out := &unstructured.Unstructured{}
	require.NoError(w, yaml.Unmarshal([]byte(text), &out.Object))
	return out
}

// Objects that can't be converted can't be rewritten.
func TestWebhookDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "hookdown")
	hooked := func(text string) string {
		return text + "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://127.0.0.1:1/convert'}}}\n"
	}
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	w.create("v1", "one", 1)
	require.NoError(t, w.install(hooked(w.text("v1", "v2")), definitions.Options{}), "the definition itself needs no webhook")
	parsed, err := crd.Parse([]byte(w.text("v1", "v2")))
	require.NoError(t, err)
	err = w.room().Migrate(t.Context(), parsed, false, func(string) {})
	require.ErrorContains(t, err, "CustomResourceDefinition "+w.name()+": migrate-storage: list: conversion webhook for "+w.group+"/v1, Kind=Widget failed")
	require.ErrorContains(t, err, "status.storedVersions is left as it is: run migrate-storage again")
	require.Equal(t, []string{"v1", "v2"}, w.stored())

	// A build that does without the webhook takes it away.
	require.NoError(t, w.install(w.text("v1", "v2"), definitions.Options{}))
	strategy, _, err := unstructured.NestedString(w.installed().Object, "spec", "conversion", "strategy")
	require.NoError(t, err)
	require.Equal(t, "None", strategy)
	require.NoError(t, w.room().Migrate(t.Context(), parsed, false, func(string) {}))
	require.Equal(t, []string{"v2"}, w.stored())
}

// A definition that was deleted stays as long as its objects do.
func TestBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "deleted")
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	held := w.widget("v1", "held", 1)
	held.SetFinalizers([]string{"crds.example.com/held"})
	_, err := w.widgets("v1").Create(t.Context(), held, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, w.definitions().Delete(t.Context(), w.name(), metav1.DeleteOptions{}))
	p := w.begun("v1+v2", atWork()...)
	p.Says("msg=started") // it may have to finalize the object
	require.Contains(t, p.Said(), "is being deleted, and isn't installed")
	p.Signal(syscall.SIGTERM)
	require.Zero(t, p.Exit())
	require.Equal(t, []string{"v1"}, w.served(), "nothing is written")

	before := w.installed().GetUID()
	_, err = w.widgets("v1").Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return w.NoError(w.install(w.text("v1", "v2"), definitions.Options{})) && w.installed().GetUID() != before
	}, generous, 50*time.Millisecond, "it is made anew when it is gone")
	require.Equal(t, []string{"v1", "v2"}, w.served())
	w.create("v2", "new", 1)
}

// Somebody deletes the definition between the dry run and the write.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "meanwhile")
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	patches := 0
	w.rc.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodPatch {
				if patches++; patches == 2 {
					require.NoError(t, w.definitions().Delete(t.Context(), w.name(), metav1.DeleteOptions{}))
					require.Eventually(t, func() bool {
						_, err := w.definitions().Get(t.Context(), w.name(), metav1.GetOptions{})
						return apierrors.IsNotFound(err)
					}, generous, 20*time.Millisecond)
				}
			}
			return next.RoundTrip(req)
		})
	})
	require.NoError(t, w.install(w.text("v1", "v2"), definitions.Options{}))
	require.Equal(t, []string{"v1", "v2"}, w.served())
}

// Who has applied a definition keeps it, until this operator takes it over.
func TestManagedByOthers(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(w *world) error{
		"kubectlcreate": func(w *world) error {
			_, err := w.definitions().Create(w.Context(), w.object(w.text("v1")), metav1.CreateOptions{FieldManager: "kubectl-create"})
			return err
		},
		"helm": func(w *world) error {
			_, err := w.definitions().Apply(w.Context(), w.name(), w.object(w.text("v1")), metav1.ApplyOptions{FieldManager: "helm"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name)
			require.NoError(t, create(w))
			w.taken()
			require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
			w.onlyReads()
			before := w.installed().GetResourceVersion()
			err := w.install(w.text("v1", "v2"), definitions.Options{})
			require.ErrorContains(t, err, "kubectl apply --server-side --force-conflicts --field-manager=widgets")
			require.Equal(t, before, w.installed().GetResourceVersion(), "nothing is written")
			_, err = w.definitions().Apply(t.Context(), w.name(), w.object(w.text("v1", "v2")), metav1.ApplyOptions{FieldManager: "widgets", Force: true})
			require.NoError(t, err)
			require.NoError(t, w.install(w.text("v1", "v2"), definitions.Options{}))
			require.NoError(t, w.install(w.text("v1", "v2 , colour: {type: string}"), definitions.Options{}), "that was needed once")
			require.ErrorContains(t, w.install(w.text("v1"), definitions.Options{}), "run this build without --install-crds")
		})
	}
}

// Names are taken once in a group.
func TestNamesTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "names")
	other := strings.ReplaceAll(strings.Replace(w.text("v1"), "plural: widgets", "plural: gadgets, shortNames: [wg]", 1), "widgets."+w.group, "gadgets."+w.group)
	remove := func() { _ = w.definitions().Delete(t.Context(), "gadgets."+w.group, metav1.DeleteOptions{}) }
	defer remove()
	require.NoError(t, w.install(other, definitions.Options{}))
	err := w.install(w.text("v1"), definitions.Options{})
	require.ErrorContains(t, err, "CustomResourceDefinition "+w.name()+": install: its names aren't accepted: ")
	require.ErrorContains(t, err, "another CustomResourceDefinition of the group "+w.group+" has them: choose others")

	// Its kind was never served, and may change.
	renamed := strings.Replace(w.text("v1"), "kind: Widget,", "kind: Wodget,", 1)
	require.NoError(t, w.install(renamed, definitions.Options{}))
	require.NotContains(t, w.log.String(), "doesn't accept all names")
	short := strings.Replace(renamed, "plural: widgets", "plural: widgets, shortNames: [wg]", 1)
	require.NoError(t, w.install(short, definitions.Options{}), "the kind is served all the same")
	require.NoError(t, w.install(short, definitions.Options{}))
}

// A build takes away what an earlier one had, and leaves what was never its own.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "leftout")
	full := strings.Replace(strings.Replace(w.text("v1"), "plural: widgets", "plural: widgets, shortNames: [wd], categories: [all]", 1), "metadata: {", "metadata: {labels: {ours: a}, annotations: {ours: a}, ", 1)
	require.NoError(t, w.install(full, definitions.Options{}))
	_, err := w.definitions().Patch(t.Context(), w.name(), types.MergePatchType, []byte(`{"metadata":{"labels":{"theirs":"b"}}}`), metav1.PatchOptions{FieldManager: "team"})
	require.NoError(t, err)
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	live := w.installed()
	require.Equal(t, map[string]string{"theirs": "b"}, live.GetLabels())
	require.NotContains(t, live.GetAnnotations(), "ours")
	names, _, err := unstructured.NestedMap(live.Object, "spec", "names")
	require.NoError(t, err)
	require.NotContains(t, names, "shortNames")
	require.NotContains(t, names, "categories")
	w.taken()
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	w.onlyReads()
}

// What only the API server finds wrong is told by it, with the field; nothing is written.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason   string
		old, new string // in the definition
		want     string
	}{
		"notstructural": {"a type within anyOf", "{type: integer}}}", "{type: integer, anyOf: [{type: integer}]}}}", "must be empty to be structural"},
		"default":       {"it has the wrong type", "{type: integer}}}", "{type: integer, default: a}}}", "default"},
		"listset":       {"a set of objects", "{type: integer}}}", "{type: array, x-kubernetes-list-type: set, items: {type: object}}}}", "x-kubernetes-map-type"},
		"columns":       {"a column without path", "    subresources:", "    additionalPrinterColumns: [{name: a, type: string}]\n    subresources:", "spec.additionalPrinterColumns[0]"},
		"huge":          {"more than etcd takes", "{type: integer}}}", "{type: integer, description: \"" + strings.Repeat("long ", 800_000) + "\"}}}", "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, name)
			require.Contains(t, w.text("v1"), tc.old)
			err := w.install(strings.Replace(w.text("v1"), tc.old, tc.new, 1), definitions.Options{})
			require.ErrorContains(t, err, "CustomResourceDefinition "+w.name()+": install: ", tc.reason)
			require.ErrorContains(t, err, tc.want, tc.reason)
			_, err = w.definitions().Get(t.Context(), w.name(), metav1.GetOptions{})
			require.True(t, apierrors.IsNotFound(err), "nothing is written")
		})
	}
	w := newWorld(t, "scope")
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	require.ErrorContains(t, w.install(strings.Replace(w.text("v1"), "Namespaced", "Cluster", 1), definitions.Options{AllowNarrowed: true}), "spec.scope: was Namespaced, is Cluster; no API server accepts that")
}

// A ServiceAccount without rights is told which it needs.
func TestNoRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "norights")
	w.rc.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:widgets"}
	err := w.install(w.text("v1"), definitions.Options{})
	require.ErrorContains(t, err, `cannot get resource "customresourcedefinitions"`)
	require.ErrorContains(t, err, "manifests prints the rule that --install-crds needs")
}

package docs

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// The declarations that docs/howto/webhooks.md shows.

type Shop struct {
	Spec struct {
		Image    string `json:"image,omitempty"`
		Replicas int32  `json:"replicas"`
	} `json:"spec"`
}

// serve runs the operator, and beside it the webhooks for its parents.
func serve(ctx context.Context, operator config.Operator, h handler.Handler, opts runner.Options, at webhook.Options) error {
	server := webhook.NewServer(at) // certificates: tls.crt and tls.key in at.CertDir
	server.Register("/default", &webhook.Admission{Handler: admission.HandlerFunc(setDefaults)})
	server.Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(validate)})
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { // until ctx ends; in every replica, with or without the lease
		defer stop()
		served <- server.Start(ctx)
	}()
	err := runner.Run(ctx, operator, h, opts)
	stop()
	return errors.Join(err, <-served)
}

// setDefaults changes what it has an opinion on, and keeps what it doesn't know.
func setDefaults(_ context.Context, req admission.Request) admission.Response {
	var shop map[string]any
	if err := json.Unmarshal(req.Object.Raw, &shop); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if spec, ok := shop["spec"].(map[string]any); ok && spec["image"] == nil {
		spec["image"] = "hashicorp/http-echo:1.0"
	}
	changed, err := json.Marshal(shop)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, changed)
}

// validate judges a new spec. It lets a Shop go that is being deleted: its finalizer
// couldn't be taken off otherwise.
func validate(_ context.Context, req admission.Request) admission.Response {
	var shop struct {
		metav1.ObjectMeta `json:"metadata"`
		Shop              `json:",inline"`
	}
	if err := json.Unmarshal(req.Object.Raw, &shop); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if shop.DeletionTimestamp == nil && shop.Spec.Replicas > 9 {
		return admission.Denied(fmt.Sprintf("spec.replicas: %d is more than 9", shop.Spec.Replicas))
	}
	return admission.Allowed("")
}

// testWebhooks runs what the page shows, and finds what it says of it.
func testWebhooks(t *testing.T, cluster *testkit.Cluster) {
	t.Helper()
	operator := config.Operator{
		Name: "shops", Parent: resource.Type{APIVersion: "howto.example.com/v1", Kind: "Shop"}, Finalizer: config.FinalizerAlways,
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		shop, err := handler.ParentAs[Shop](req)
		if err != nil {
			return nil, err
		}
		return &handler.SyncResponse{
			Status:   map[string]any{"image": shop.Spec.Image},
			Children: []any{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}, Data: map[string]string{"image": shop.Spec.Image}}},
		}, nil
	})
	kit := testkit.New(t, cluster, operator, h)
	kit.Stop() // it is for its namespace, and serve is what runs
	operator.Namespaces = []string{kit.Namespace}

	at, authority := listenAt(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // until stop
		ended <- serve(ctx, operator, h, runner.Options{RESTConfig: cluster.RESTConfig(), Logger: slog.New(slog.DiscardHandler)}, at)
	}()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })

	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	shops := client.Resource(schema.GroupVersionResource{Group: "howto.example.com", Version: "v1", Resource: "shops"}).Namespace(kit.Namespace)
	shop := func(name string, replicas int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "howto.example.com/v1", "kind": "Shop", "metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": replicas},
		}}
	}
	kit.Create(shop("former", 20)) // from before there were webhooks
	held := shop("former", 20)
	held.SetFinalizers([]string{"roperator.com/shops"})
	kit.Eventually(held, generous)

	registerWebhooks(t, cluster, kit.Namespace, at, authority)
	require.Eventually(t, func() bool {
		_, err := shops.Create(t.Context(), shop("large", 10), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	}, generous, 100*time.Millisecond, "the API server asks the webhooks")
	_, err = shops.Create(t.Context(), shop("large", 10), metav1.CreateOptions{})
	require.ErrorContains(t, err, "spec.replicas: 10 is more than 9")

	kit.Create(shop("small", 3))
	kit.Eventually(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Data: map[string]string{"image": "hashicorp/http-echo:1.0"}}, generous)
	written := shop("small", 3)
	written.Object["status"] = map[string]any{"image": "hashicorp/http-echo:1.0", "observedGeneration": int64(1)}
	kit.Eventually(written, generous)

	for _, going := range []*unstructured.Unstructured{shop("small", 3), shop("former", 20)} { // though validate wouldn't take the latter
		kit.Delete(going)
		kit.EventuallyGone(going, generous)
	}
}

// listenAt returns where webhooks can be served, and the PEM of the authority that
// clients are to trust.
func listenAt(t *testing.T) (webhook.Options, []byte) {
	t.Helper()
	listener := httptest.NewTLSServer(nil) // whose certificate is for 127.0.0.1
	host, port, err := net.SplitHostPort(listener.Listener.Addr().String())
	require.NoError(t, err)
	listener.Close()
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	certificate := listener.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.crt"), public, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	return webhook.Options{Host: host, Port: number, CertDir: dir}, public
}

// registerWebhooks tells the API server of both webhooks, for Shops of one namespace, until
// the test ends.
func registerWebhooks(t *testing.T, cluster *testkit.Cluster, namespace string, at webhook.Options, authority []byte) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	hooks := client.AdmissionregistrationV1()
	asked := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{URL: new("https://" + net.JoinHostPort(at.Host, strconv.Itoa(at.Port)) + path), CABundle: authority}
	}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"howto.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"shops"}},
	}}
	of := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	_, err = hooks.MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "default.howto.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			NamespaceSelector: of, ClientConfig: asked("/default"), Rules: rules,
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, hooks.MutatingWebhookConfigurations().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
	_, err = hooks.ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validate.howto.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			NamespaceSelector: of, ClientConfig: asked("/validate"), Rules: rules,
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, hooks.ValidatingWebhookConfigurations().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
}

package explain

import (
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/process"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	siteType = resource.Type{APIVersion: "explain.example.com/v1", Kind: "Site"}
	partType = resource.Type{APIVersion: "explain.example.com/v1", Kind: "Part"}
)

// patience only bounds a hang.
const patience = 2 * time.Minute

// A stage is an operator, sites, and the parent "blog" of a situation.
type stage struct {
	*testkit.Kit
	t       *testing.T
	config  config.Operator
	handler handler.Handler // that of the explanation
	client  dynamic.Interface
	address string // of the operator's metrics
	metrics string // the same as a URL
	url     string // that is asked
	name    string // of the parent

	normalize []string // what is replaced, and by what, besides what always is
}

// newStage starts the operator. Its parent doesn't exist yet.
func newStage(t *testing.T, cfg config.Operator, h handler.Handler) *stage {
	t.Helper()
	return newStageWith(t, cfg, h, "127.0.0.1", nil)
}

// newStageWith is newStage of an operator that serves its metrics at this host, protected or not.
func newStageWith(t *testing.T, cfg config.Operator, h handler.Handler, host string, secure *runner.MetricsSecurity) *stage {
	t.Helper()
	port, err := plane.FreePort()
	require.NoError(t, err)
	address := net.JoinHostPort(host, port)
	cfg.Name = "sites"
	if cfg.Parent == (resource.Type{}) {
		cfg.Parent = siteType
	}
	if cfg.Children == nil {
		cfg.Children = []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}}
	}
	opts := testkit.KitOptions{AllowHandlerErrors: true, Runner: runner.Options{MetricsAddress: address, MetricsSecure: secure}}
	s := &stage{Kit: testkit.NewWithOptions(t, cluster, cfg, h, opts), t: t, config: cfg, handler: h, address: address, metrics: "http://" + address, name: "blog"}
	if cfg.Parent != fleetType {
		s.config.Namespaces = []string{s.Namespace}
	}
	s.url = s.metrics
	s.client, err = dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	return s
}

// begin creates the parent, and waits until the operator has nothing to do.
func (s *stage) begin(spec map[string]any) {
	s.create(siteType, "blog", map[string]any{"spec": spec})
	s.settle()
}

func (s *stage) create(t resource.Type, name string, rest map[string]any) {
	s.t.Helper()
	object := map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": name, "namespace": s.Namespace}}
	maps.Copy(object, rest)
	s.Create(object)
}

func (s *stage) settle() {
	s.t.Helper()
	require.NoError(s.t, s.Settle(patience))
}

// stop stops the operator: only the API server is asked from then on.
func (s *stage) stop() {
	s.Stop()
	s.url = "none"
}

// patch changes an object by a JSON merge patch, as this field manager.
func (s *stage) patch(manager, resourceName, name, body string, subresources ...string) {
	s.t.Helper()
	group := map[string]string{"sites": "explain.example.com", "parts": "explain.example.com", "deployments": "apps"}[resourceName]
	gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resourceName}
	_, err := s.client.Resource(gvr).Namespace(s.Namespace).Patch(s.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: manager}, subresources...)
	require.NoError(s.t, err)
}

// remove deletes an object.
func (s *stage) remove(t resource.Type, name string) {
	s.t.Helper()
	s.Delete(map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": name, "namespace": s.Namespace}})
}

// explain returns what the subcommand prints, the error output after the other. It fails the test if
// anything but a read is asked of the API server.
func (s *stage) explain(args ...string) string {
	s.t.Helper()
	parent := s.Namespace + "/" + s.name
	if s.config.Parent == fleetType {
		parent = s.name
	}
	return s.explainParent(parent, args...)
}

// explainParent is explain of a parent that is named so.
func (s *stage) explainParent(parent string, args ...string) string {
	s.t.Helper()
	rc := cluster.RESTConfig()
	watch := &reads{}
	rc.Wrap(watch.wrap)
	p := runner.Program{
		Operators: []runner.Spec{{Config: s.config, Handler: s.handler}},
		Options:   runner.Options{RESTConfig: rc, Logger: slog.New(slog.DiscardHandler)},
	}
	var stdout, stderr bytes.Buffer
	args = append([]string{"explain", parent, "--process-url", s.url}, args...)
	p.Execute(s.t.Context(), args, &stdout, &stderr)
	require.Empty(s.t, watch.others(), "an explanation only reads")
	return stdout.String() + stderr.String()
}

// reads notes the requests that are none.
type reads struct {
	mu    sync.Mutex
	found []string
}

func (r *reads) others() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found
}

func (r *reads) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet {
			r.mu.Lock()
			r.found = append(r.found, req.Method+" "+req.URL.Path)
			r.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

var (
	moment   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	distance = regexp.MustCompile(` \((\w+ ago|in \w+)\)`)
	passes   = regexp.MustCompile(`\d+ pass(es have|  has| has) failed`)
	writes   = regexp.MustCompile(`\d+ writes`)
	uid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// throttled tells whether the event of the last write came before its response.
	throttled = regexp.MustCompile(`is due TIME: (\w+ NAMESPACE/blog|own writes|throttle ended); throttled`)
	count     = regexp.MustCompile(`"(failures|writes)": \d+`)
)

// normal returns an explanation without what differs from run to run.
func (s *stage) normal(text string) string {
	text = strings.ReplaceAll(text, s.Namespace, "NAMESPACE")
	text = moment.ReplaceAllString(text, "TIME")
	text = distance.ReplaceAllString(text, "")
	text = passes.ReplaceAllString(text, "N passes have failed")
	text = writes.ReplaceAllString(text, "N writes")
	text = uid.ReplaceAllString(text, "UID")
	text = throttled.ReplaceAllString(text, "is due TIME: TRIGGER; throttled")
	text = strings.ReplaceAll(text, `"b" and "a"`, `"a" and "b"`)
	text = count.ReplaceAllString(text, `"$1": N`)
	text = strings.NewReplacer(s.normalize...).Replace(text)
	if host := process.Hostname(); host != "" {
		text = strings.ReplaceAll(text, host, "HOST")
	}
	return text
}

// golden expects that the subcommand comes to print what a golden file has. until is a part of what is
// expected, which tells when a new golden file may be written.
func (s *stage) golden(file, until string, args ...string) {
	s.t.Helper()
	path := filepath.Join("testdata", file)
	want, err := os.ReadFile(path)
	if !*update {
		require.NoError(s.t, err, "with -update it is written")
	}
	last := ""
	err = wait.PollUntilContextTimeout(s.t.Context(), 200*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = s.normal(s.explain(args...))
		if *update {
			return strings.Contains(last, until), nil
		}
		return last == string(want), nil
	})
	for _, secret := range []string{"secret-", base64.StdEncoding.EncodeToString([]byte("secret-"))[:9]} {
		require.NotContains(s.t, last, secret, "a value of a Secret")
	}
	if *update {
		require.NoError(s.t, err, "%q isn't in\n%s", until, last)
		require.NoError(s.t, os.WriteFile(path, []byte(last), 0o644))
		return
	}
	if err != nil {
		require.Equal(s.t, string(want), last)
	}
	require.Contains(s.t, last, until)
}

// forget takes the finalizers off objects that only a test would wait for.
func (s *stage) forget(resourceName, name string) {
	s.t.Cleanup(func() {
		group := map[string]string{"sites": "explain.example.com", "parts": "explain.example.com"}[resourceName]
		gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resourceName}
		_, _ = s.client.Resource(gvr).Namespace(s.Namespace).Patch(context.Background(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
}

package manifests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

// patience only bounds a hang: it is for what takes an idle machine seconds.
const patience = 5 * time.Minute

// selecting is the label by which an operator of the whole cluster knows the
// parents of its own stage.
const selecting = "rights.roperator.com/stage"

var parentType = resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Parent"}

func operator(name string) config.Operator {
	return config.Operator{
		Name: name, Parent: parentType, MaxErrorBackoff: time.Second,
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: config.Replace, Adopt: true},
			{Type: k8s.Pod, Strategy: config.Recreate, Adopt: true},
			{Type: k8s.PodTemplate, Strategy: config.OnDelete, Adopt: true},
			{Type: k8s.Deployment, Strategy: config.Apply, Adopt: true},
		},
		Related:        []config.Related{{Type: k8s.ServiceAccount, Fields: []string{"spec.accounts"}}},
		FormerChildren: []resource.Type{k8s.ReplicationController},
		Mappings:       []resource.Mapping{{Type: parentType, Plural: "parents"}},
	}
}

// accounts returns more names of ServiceAccounts, as JSON, than have a watch each.
func accounts() string {
	var names []string
	for i := range 70 {
		names = append(names, fmt.Sprintf(`"absent-%d"`, i))
	}
	return strings.Join(names, ", ")
}

// A story is a handler that wants children of a revision, or none at 0.
type story struct{ revision atomic.Int64 }

func (s *story) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	revision, related := s.revision.Load(), req.Related.Len()
	resp := &handler.SyncResponse{
		Status: map[string]any{"revision": revision, "related": related}, Resync: 300 * time.Millisecond,
		Events: []handler.Event{{Type: "Normal", Reason: "Told", Message: "again and again"}},
	}
	if revision > 0 {
		for _, text := range childTexts {
			var child map[string]any
			if err := yaml.Unmarshal([]byte(strings.NewReplacer("REVISION", fmt.Sprint("r", revision), "\t", " ").Replace(text)), &child); err != nil {
				return nil, err
			}
			resp.Children = append(resp.Children, child)
		}
	}
	return resp, nil
}

// Relate refers to what the parent selects.
func (s *story) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	selector, _ := parent.Field("spec", "select")
	if text, ok := selector.(string); ok {
		return []handler.Ref{{Type: k8s.ServiceAccount, Selector: text}}, nil
	}
	return nil, nil
}

// Finalize has nothing to do.
func (s *story) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// The quantities are stored otherwise than they are said.
var childTexts = []string{
	`{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {revision: REVISION}}`,
	`{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {revision: REVISION}}, spec: {terminationGracePeriodSeconds: 0,
		containers: [{name: main, image: i, resources: {limits: {cpu: 1000m}}}]}}`,
	`{apiVersion: v1, kind: PodTemplate, metadata: {name: one}, template: {spec: {containers: [{name: main, image: i}]}}}`,
	// What the next revision drops no apply can remove, so that an update has to.
	`{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, annotations: {of-REVISION: x}}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},
		spec: {containers: [{name: main, image: REVISION, resources: {limits: {cpu: 1000m}}}]}}}}`,
}

var children = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "podtemplates"},
	{Group: "apps", Version: "v1", Resource: "deployments"},
}

var former = schema.GroupVersionResource{Version: "v1", Resource: "replicationcontrollers"}

var parents = schema.GroupVersionResource{Group: "conformance.roperator.com", Version: "v1", Resource: "parents"}

// A stage is a namespace in which an operator is installed and works. The
// operator has the namespace's name, so that whatever it has in the whole
// cluster is its own: a ClusterRole, labels on children, a finalizer.
type stage struct {
	t         *testing.T
	namespace string
	user      *rest.Config // the operator's ServiceAccount
	admin     dynamic.Interface
	handler   story
	options   func(*runner.Options) // changes how the operator runs; nil: nothing
	log       buffer
	failed    atomic.Pointer[error] // why Run returned
}

type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// manifestsFor is what the program of the operator of this name prints.
func manifestsFor(t *testing.T, name string, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, append([]string{"manifests", "--image=example.com/rights:v1"}, args...)...)
	cmd.Env = append(os.Environ(), asOperator+"="+name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())
	return string(out)
}

// newStage installs an operator with the rules that change makes of those of
// its manifests, which are restricted to the namespace or not. Change is told
// which of the roles the rules are of, as when the operator's name is "rights".
// The manifests have more arguments.
func newStage(t *testing.T, clusterWide bool, change func(of string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule, more ...string) *stage {
	t.Helper()
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	s := &stage{t: t, namespace: "rights-" + rand.String(8)}
	s.admin, err = dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	ctx := t.Context()
	_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	args := append([]string{"--install-namespace=" + s.namespace}, more...)
	if !clusterWide {
		args = append(args, "--namespace="+s.namespace)
	}
	var granted []rbacv1.PolicyRule
	roleRules := func(role string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		rules = change("rights"+strings.TrimPrefix(role, s.namespace), rules)
		if role != s.namespace+"-operator-metrics-reader" && role != s.namespace+"-operator-window-viewer" { // which the operator isn't
			granted = append(granted, rules...)
		}
		return rules
	}
	for doc := range strings.SplitSeq(manifestsFor(t, s.namespace, args...), "---\n") {
		var meta metav1.PartialObjectMetadata
		require.NoError(t, yaml.Unmarshal([]byte(doc), &meta))
		read := func(into any) { require.NoError(t, yaml.UnmarshalStrict([]byte(doc), into)) }
		switch meta.Kind {
		case "ServiceAccount":
			_, err = admin.CoreV1().ServiceAccounts(meta.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta.ObjectMeta}, metav1.CreateOptions{})
		case "Role":
			var role rbacv1.Role
			read(&role)
			role.Rules = roleRules(role.Name, role.Rules)
			_, err = admin.RbacV1().Roles(role.Namespace).Create(ctx, &role, metav1.CreateOptions{})
		case "RoleBinding":
			var binding rbacv1.RoleBinding
			read(&binding)
			_, err = admin.RbacV1().RoleBindings(binding.Namespace).Create(ctx, &binding, metav1.CreateOptions{})
		case "ClusterRole":
			var role rbacv1.ClusterRole
			read(&role)
			role.Rules = roleRules(role.Name, role.Rules)
			_, err = admin.RbacV1().ClusterRoles().Create(ctx, &role, metav1.CreateOptions{})
		case "ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			read(&binding)
			_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &binding, metav1.CreateOptions{})
		}
		require.NoError(t, err, meta.Kind)
	}
	s.user = cluster.RESTConfig()
	s.user.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + s.namespace + ":" + s.namespace,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + s.namespace, "system:authenticated"},
	}
	s.awaitRights(granted)
	return s
}

// refuseReviews lets the operator ask for none of its rights before it starts.
func (s *stage) refuseReviews() {
	s.user.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews") {
				return next.RoundTrip(req)
			}
			_ = req.Body.Close() // as a RoundTripper must
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// awaitRights waits until the API server allows the operator what was granted:
// it learns of roles and their bindings by watches of its own.
func (s *stage) awaitRights(granted []rbacv1.PolicyRule) {
	s.t.Helper()
	user, err := kubernetes.NewForConfig(s.user)
	require.NoError(s.t, err)
	s.await("", "has its rights", func() bool {
		review, err := user.AuthorizationV1().SelfSubjectRulesReviews().Create(s.t.Context(),
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: s.namespace}}, metav1.CreateOptions{})
		if err != nil {
			return false
		}
		return !slices.ContainsFunc(granted, func(rule rbacv1.PolicyRule) bool {
			return !slices.ContainsFunc(review.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool {
				return slices.Equal(r.Verbs, rule.Verbs) && slices.Equal(r.APIGroups, rule.APIGroups) &&
					slices.Equal(r.Resources, rule.Resources) && slices.Equal(r.ResourceNames, rule.ResourceNames)
			})
		})
	})
}

// config is the operator's. One of the whole cluster selects the parents of its
// stage: others are in the cluster, too, and none of its business.
func (s *stage) config(clusterWide bool) config.Operator {
	cfg := operator(s.namespace)
	if clusterWide {
		cfg.ParentSelector = selecting + "=" + s.namespace
	} else {
		cfg.Namespaces = []string{s.namespace}
	}
	return cfg
}

// insist makes an attempt until it ends otherwise than for want of an answer in
// time: an operator gives an API server some seconds when it starts.
func insist(attempt func() error) error {
	err := attempt()
	for errors.Is(err, context.DeadlineExceeded) {
		err = attempt()
	}
	return err
}

// start runs the operator until stop.
func (s *stage) start(clusterWide bool) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := insist(func() error {
			opts := runner.Options{
				RESTConfig:     s.user,
				Logger:         slog.New(slog.NewTextHandler(&s.log, nil)),
				LeaderElection: &runner.LeaderElection{Namespace: s.namespace, RetryPeriod: 300 * time.Millisecond},
			}
			if s.options != nil {
				s.options(&opts)
			}
			return runner.Run(ctx, s.config(clusterWide), &s.handler, opts)
		})
		if err != nil {
			s.failed.Store(&err)
		}
	}()
	return func() { cancel(); <-ended }
}

// said is all that the operator has told so far.
func (s *stage) said() string {
	text := s.log.String()
	if err := s.failed.Load(); err != nil {
		text += (*err).Error()
	}
	return strings.ReplaceAll(text, `\`, "")
}

// await waits until something is so, and says whether it came to that before
// the operator told of want.
func (s *stage) await(want, what string, condition func() bool) bool {
	s.t.Helper()
	told, met := false, false
	done := assert.Eventually(s.t, func() bool {
		ended := s.failed.Load() != nil // before what it told is read
		told = want != "" && strings.Contains(s.said(), want)
		met = condition()
		return told || met || ended
	}, patience, 30*time.Millisecond, what)
	require.True(s.t, done && (told || met), "%s: %s", what, s.said())
	return met && !told
}

func (s *stage) child(gvr schema.GroupVersionResource) *unstructured.Unstructured {
	u, err := s.admin.Resource(gvr).Namespace(s.namespace).Get(context.Background(), "one", metav1.GetOptions{})
	if err != nil || u.GetDeletionTimestamp() != nil {
		return nil
	}
	return u
}

// related returns how many related objects the handler was shown last.
func (s *stage) related() int64 {
	p, err := s.admin.Resource(parents).Namespace(s.namespace).Get(context.Background(), "one", metav1.GetOptions{})
	if err != nil {
		return -1
	}
	n, _, _ := unstructured.NestedInt64(p.Object, "status", "related")
	return n
}

// refers changes what the parent refers to, and waits until the handler is shown so many
// objects, or the operator has told of want.
func (s *stage) refers(want, spec string, shown int64) bool {
	s.t.Helper()
	_, err := s.admin.Resource(parents).Namespace(s.namespace).Patch(context.Background(), "one", types.MergePatchType, []byte(`{"spec": `+spec+`}`), metav1.PatchOptions{})
	require.NoError(s.t, err)
	return s.await(want, spec, func() bool { return s.related() == shown })
}

// leaveFormer creates what an earlier build of the operator would have left of the parent.
func (s *stage) leaveFormer(parent *unstructured.Unstructured) {
	s.t.Helper()
	left := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ReplicationController",
		"metadata": map[string]any{"name": "one", "labels": map[string]any{"roperator.com/operator": s.namespace, "roperator.com/parent-uid": string(parent.GetUID())}},
		"spec": map[string]any{"replicas": int64(0), "selector": map[string]any{"a": "b"}, "template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "i"}}},
		}},
	}}
	controls := true
	left.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: parent.GetAPIVersion(), Kind: parent.GetKind(), Name: parent.GetName(), UID: parent.GetUID(), Controller: &controls}})
	_, err := s.admin.Resource(former).Namespace(s.namespace).Create(s.t.Context(), left, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// converged says whether every child is there with its owner, or gone, and the
// status tells of it: then nothing is left to do.
func (s *stage) converged(revision int64) bool {
	p, err := s.admin.Resource(parents).Namespace(s.namespace).Get(context.Background(), "one", metav1.GetOptions{})
	if err != nil {
		return false
	}
	if told, _, _ := unstructured.NestedInt64(p.Object, "status", "revision"); told != revision {
		return false
	}
	for _, gvr := range children {
		u := s.child(gvr)
		if (u != nil) != (revision > 0) || u != nil && len(u.GetOwnerReferences()) == 0 {
			return false
		}
		if u == nil {
			continue
		}
		raw, err := u.MarshalJSON()
		if err != nil || gvr.Resource != "podtemplates" && !strings.Contains(string(raw), fmt.Sprintf(`"r%d"`, revision)) {
			return false
		}
	}
	return true
}

// play lets the operator do all of its work, and returns when it is done (true)
// or has told of want.
func (s *stage) play(clusterWide bool, want string) bool {
	s.t.Helper()
	ctx := context.Background()
	s.handler.revision.Store(1)
	var absent []any
	require.NoError(s.t, json.Unmarshal([]byte("["+accounts()+"]"), &absent))
	created := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": parentType.APIVersion, "kind": parentType.Kind,
		"spec":     map[string]any{"accounts": absent},
		"metadata": map[string]any{"name": "one", "labels": map[string]any{selecting: s.namespace}},
	}}
	created, err := s.admin.Resource(parents).Namespace(s.namespace).Create(ctx, created, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.leaveFormer(created)
	stop := s.start(clusterWide)
	defer func() { stop() }()
	events, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(s.t, err)
	if !s.await(want, "creates", func() bool { return s.converged(1) }) {
		return false
	}
	if !s.await(want, "deletes what an earlier build has left", func() bool { return s.child(former) == nil }) {
		return false
	}
	if !s.await(want, "Events, counted", func() bool {
		list, err := events.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == "Told" && e.Series != nil })
	}) {
		return false
	}
	for _, gvr := range children { // nobody's, until they are taken over
		_, err := s.admin.Resource(gvr).Namespace(s.namespace).Patch(ctx, "one", types.MergePatchType,
			[]byte(`{"metadata":{"labels":null,"ownerReferences":null}}`), metav1.PatchOptions{})
		require.NoError(s.t, err)
	}
	if !s.await(want, "takes over", func() bool { return s.converged(1) }) {
		return false
	}
	// All are watched already, so that these are looked up.
	if !s.refers(want, `{"accounts": [`+accounts()+`, "`+s.namespace+`"]}`, 1) || !s.refers(want, `{"accounts": [`+accounts()+`]}`, 0) ||
		!s.refers(want, `{"select": "app.kubernetes.io/component=operator"}`, 1) {
		return false
	}
	s.handler.revision.Store(2)
	if !s.await(want, "changes", func() bool { return s.converged(2) }) {
		return false
	}
	stop()
	starts := strings.Count(s.said(), "msg=started")
	stop = s.start(clusterWide)
	if !s.await(want, "starts again", func() bool { return strings.Count(s.said(), "msg=started") > starts }) {
		return false
	}
	var changes []runner.Change
	err = insist(func() (err error) {
		changes, err = runner.Plan(ctx, s.config(clusterWide), &s.handler, runner.Options{RESTConfig: s.user, Logger: slog.New(slog.DiscardHandler)})
		return err
	})
	if err != nil && want != "" && strings.Contains(err.Error(), want) {
		return false
	}
	require.NoError(s.t, err)
	require.Empty(s.t, changes)
	s.handler.revision.Store(0)
	if !s.await(want, "deletes", func() bool { return s.converged(0) }) {
		return false
	}
	require.NoError(s.t, s.admin.Resource(parents).Namespace(s.namespace).Delete(ctx, "one", metav1.DeleteOptions{}))
	return s.await(want, "finalizes", func() bool {
		_, err := s.admin.Resource(parents).Namespace(s.namespace).Get(ctx, "one", metav1.GetOptions{})
		return err != nil
	})
}

// The rules are enough, as Roles and as a ClusterRole.
func TestRulesAreEnough(t *testing.T) {
	for name, clusterWide := range map[string]bool{"Namespaced": false, "ClusterWide": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, clusterWide, func(_ string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules })
			require.True(t, s.play(clusterWide, ""), "%s", s.said())
			require.NotContains(t, s.said(), "forbidden")
			require.NotContains(t, s.said(), "can't look at all rights")
		})
	}
}

// kubectl takes the manifests, and the API server finds nothing wrong.
func TestManifestsAreAccepted(t *testing.T) {
	kubectl := os.Getenv("KUBEBUILDER_ASSETS") + "/kubectl"
	if _, err := os.Stat(kubectl); err != nil {
		t.Skip("no kubectl beside kube-apiserver")
	}
	for name, args := range map[string][]string{
		"ClusterWide": {"--install-namespace=default"},
		"Namespaced":  {"--install-namespace=default", "--namespace=default", "--replicas=2"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(kubectl, "--kubeconfig", cluster.Kubeconfig(), "apply", "--dry-run=server", "--validate=strict", "-f", "-")
			cmd.Stdin = strings.NewReader(manifestsFor(t, "rights", args...))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), "deployment.apps/rights created (server dry run)")
			require.Contains(t, string(out), "poddisruptionbudget.policy/rights created (server dry run)")
		})
	}
}

package conformance

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// portOf returns a Service with this nodePort. The ports that tests use are
// below those that the API server gives to who doesn't ask for one.
func portOf(name string, nodePort int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: nodePort, TargetPort: intstr.FromInt32(80)}},
	}}
}

// A denial is a validating admission webhook for the ConfigMaps of one
// namespace.
type denial struct {
	mu    sync.Mutex
	deny  func(review *admissionv1.AdmissionRequest) *metav1.Status // nil, or the answer nil: it is allowed
	asked atomic.Int64
}

func (d *denial) set(deny func(review *admissionv1.AdmissionRequest) *metav1.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deny = deny
}

// ServeHTTP answers an AdmissionReview. What the test itself does is allowed.
func (d *denial) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	d.asked.Add(1)
	d.mu.Lock()
	deny := d.deny
	d.mu.Unlock()
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if deny != nil {
		if status := deny(review.Request); status != nil {
			answer.Allowed, answer.Result = false, status
		}
	}
	review.Request, review.Response = nil, answer
	out.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(out).Encode(review); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// serve registers the webhook for a namespace until the test ends, and returns
// when the API server asks it.
func (d *denial) serve(t *testing.T, namespace string) {
	t.Helper()
	server := httptest.NewUnstartedServer(d)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	typed, _ := clients(t, "somebody")
	hooks := typed.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "deny.conformance.roperator.com", AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(30)),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE"},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hooks.Delete(context.Background(), namespace, metav1.DeleteOptions{})) })
	probe := typed.CoreV1().ConfigMaps(namespace)
	eventually(t, "the API server asks the webhook", func() bool {
		cm, err := probe.Create(t.Context(), configMapNamed("probe"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, probe.Delete(t.Context(), cm.Name, metav1.DeleteOptions{}))
		return d.asked.Load() > 0
	})
}

// denying denies one operation on one ConfigMap with this answer.
func denying(operation admissionv1.Operation, name string, code int32, reason metav1.StatusReason) func(*admissionv1.AdmissionRequest) *metav1.Status {
	return func(r *admissionv1.AdmissionRequest) *metav1.Status {
		if r.Operation != operation || r.Name != name {
			return nil
		}
		return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "never on a Friday"}
	}
}

// patient returns an operator whose backoff goes on to ten minutes.
func patient(name string, children ...config.Child) config.Operator {
	cfg := operator(name, children...)
	cfg.MaxErrorBackoff = 10 * time.Minute
	return cfg
}

// requestsFor returns how often an operator has asked for a change of one
// object since then, dry runs left aside.
func requestsFor(t *testing.T, log *auditLog, from mark, operator, verb, name string) int {
	t.Helper()
	n := 0
	for _, r := range log.since(t, from, operator) {
		if r.persists() && r.Verb == verb && (r.Name == name || r.Name == "" && verb == "create") {
			n++
		}
	}
	return n
}

// during returns after a time in which nothing is awaited: the test counts what
// an operator does meanwhile.
func during(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

func TestC131_PortThatMoves(t *testing.T) {
	scenario(t, "C131", "a nodePort that moves from one Service to another within one response arrives")
	for i, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			port := 30030 + 2*int32(i)
			s := newStageWith(t, patient("c131m-"+lower(strategy), childrenBy(strategy, k8s.Service)...), testkit.KitOptions{})
			s.want(portOf("a", port), portOf("b", port+1))
			s.ask(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Type: corev1.ServiceTypeClusterIP}}, portOf("b", port))
			s.Eventually(portOf("b", port), 20*time.Second)
			settle(t, s.Kit)
			s.silent()
		})
	}
}

func TestC131b_RenamedService(t *testing.T) {
	scenario(t, "C131b", "a renamed Service takes its nodePort or clusterIP along, without DeleteFirst")
	t.Run("NodePort with Leave", func(t *testing.T) {
		t.Parallel()
		s := newStageWith(t, patient("c131v", childrenBy(config.Replace, k8s.Service)...), testkit.KitOptions{})
		of := func(name string) any { return handler.Leave(portOf(name, 30050), "spec.externalTrafficPolicy") }
		s.want(of("old"))
		s.ask(of("new"))
		s.Eventually(portOf("new", 30050), 20*time.Second)
		s.EventuallyGone(portOf("old", 0), patience)
	})
	t.Run("NodePort", func(t *testing.T) {
		t.Parallel()
		s := newStageWith(t, patient("c131n", childrenBy(config.Replace, k8s.Service)...), testkit.KitOptions{})
		s.want(portOf("old", 30036))
		s.ask(portOf("new", 30036))
		s.Eventually(portOf("new", 30036), 20*time.Second)
		s.EventuallyGone(portOf("old", 0), patience)
		settle(t, s.Kit)
		s.silent()
		require.Equal(t, []string{"delete"}, verbs(s.Writes(), "Service", "old")[1:])
	})
	t.Run("ClusterIP", func(t *testing.T) {
		t.Parallel()
		s := newStageWith(t, patient("c131i", childrenBy(config.Replace, k8s.Service)...), testkit.KitOptions{})
		plain := func(name, ip string) *corev1.Service {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}}}
		}
		s.want(plain("old", ""))
		ip, _ := s.field(plain("old", ""), "spec", "clusterIP").(string)
		require.NotEmpty(t, ip)
		s.ask(plain("new", ip))
		s.Eventually(plain("new", ip), 20*time.Second)
		s.EventuallyGone(plain("old", ""), patience)
		settle(t, s.Kit)
	})
	t.Run("WrongAnyway", func(t *testing.T) {
		t.Parallel()
		s := newStageWith(t, patient("c131w", childrenBy(config.Replace, k8s.Service)...), testkit.KitOptions{})
		s.want(portOf("old", 30037))
		bad := portOf("new", 30037)
		bad.Spec.SessionAffinity = "Sometimes"
		s.ask(bad)
		failing(t, s.Kit, s.it(), "Service "+s.Namespace+"/new: create")
		during(t, 5*time.Second)
		require.NotNil(t, s.Get(portOf("old", 0)), "its going would cure nothing")
		require.Equal(t, []string{"create"}, verbs(s.Writes(), "Service", "old"))
	})
	t.Run("Quota", func(t *testing.T) {
		t.Parallel()
		needsControllerManager(t)
		s := newStageWith(t, patient("c131q", childrenBy(config.Replace, k8s.Secret)...), testkit.KitOptions{})
		typed, _ := clients(t, "somebody")
		_, err := typed.CoreV1().ResourceQuotas(s.Namespace).Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "one"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": apiresource.MustParse("1")}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, "the quota counts", func() bool {
			q, err := typed.CoreV1().ResourceQuotas(s.Namespace).Get(t.Context(), "one", metav1.GetOptions{})
			return err == nil && len(q.Status.Used) > 0
		})
		secret := func(name string) map[string]any {
			return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}}
		}
		s.want(secret("old"))
		s.ask(secret("new"))
		s.EventuallyExists(secret("new"), 30*time.Second)
		s.EventuallyGone(secret("old"), patience)
	})
}

func TestC131c_CauseElsewhere(t *testing.T) {
	scenario(t, "C131c", "a refusal whose cause is elsewhere ends when the cause does: by itself, or when the parent or a sibling is touched")
	typed, _ := clients(t, "somebody")
	blocked := func(t *testing.T, cfg config.Operator, port int32) *stage {
		t.Helper()
		s := newStageWith(t, cfg, testkit.KitOptions{})
		_, err := typed.CoreV1().Services(s.Namespace).Create(t.Context(), portOf("foreign", port), metav1.CreateOptions{})
		require.NoError(t, err)
		s.ask(configMap("sibling", "k", "v"), portOf("mine", port))
		failing(t, s.Kit, s.it(), "Service "+s.Namespace+"/mine: create")
		return s
	}
	unblock := func(t *testing.T, s *stage) {
		t.Helper()
		require.NoError(t, typed.CoreV1().Services(s.Namespace).Delete(t.Context(), "foreign", metav1.DeleteOptions{}))
	}
	types := childrenBy(config.Replace, k8s.ConfigMap, k8s.Service)
	t.Run("ByItself", func(t *testing.T) {
		t.Parallel()
		s := blocked(t, operator("c131b", types...), 30038)
		unblock(t, s)
		s.Eventually(portOf("mine", 30038), 20*time.Second)
		settle(t, s.Kit)
		s.silent()
	})
	for i, touch := range []string{"Parent", "Sibling"} {
		t.Run(touch, func(t *testing.T) {
			t.Parallel()
			port := 30039 + int32(i)
			s := blocked(t, patient("c131-"+strings.ToLower(touch), types...), port)
			// By now the backoff is so long that it isn't what ends the refusal.
			eventually(t, "some tries", func() bool { return len(s.errors()) >= 8 })
			unblock(t, s)
			if touch == "Parent" {
				it := toUpdate(s.Get(s.it()))
				it.SetAnnotations(map[string]string{"example.com/touched": "yes"})
				s.Update(it)
			} else {
				sibling := toUpdate(s.Get(configMap("sibling", "", "")))
				sibling.SetAnnotations(map[string]string{"example.com/touched": "yes"})
				s.Update(sibling)
			}
			s.Eventually(portOf("mine", port), 8*time.Second)
			settle(t, s.Kit)
		})
	}
	t.Run("Webhook", func(t *testing.T) {
		t.Parallel()
		s := newStageWith(t, operator("c131h", configMapChild()), testkit.KitOptions{})
		d := &denial{}
		d.serve(t, s.Namespace)
		d.set(denying("CREATE", "mine", 422, metav1.StatusReasonInvalid))
		s.ask(configMap("mine", "k", "v"))
		failing(t, s.Kit, s.it(), "never on a Friday")
		d.set(nil)
		s.Eventually(configMap("mine", "k", "v"), 20*time.Second)
		settle(t, s.Kit)
		s.silent()
	})
}

func TestC131d_RefusalCostsLittle(t *testing.T) {
	scenario(t, "C131d", "a refused child costs a few requests with growing distance, whatever Resync says, and is told once")
	log := needsAudit(t)
	w := newWitness()
	s := newStageWith(t, patient("c131c", configMapChild()), w.options())
	from := log.mark(t)
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Children: []any{configMap("good", "k", "v"), configMap("bad", "not a key!", "v")}, Resync: 300 * time.Millisecond}
	})
	failing(t, s.Kit, s.it(), "ConfigMap "+s.Namespace+"/bad: create")
	during(t, 15*time.Second)
	sent := requestsFor(t, log, from, "c131c", "create", "bad")
	require.GreaterOrEqual(t, sent, 5, "it is tried again")
	require.LessOrEqual(t, sent, 13, "at 0.1, 0.3, 0.7, 1.5, 3.1, 6.3 and 12.7 s, twice in the pass that wrote something else")
	require.Equal(t, 1, strings.Count(w.logged(), "level=ERROR"), "told once")
	told := 0
	for _, e := range s.Events(s.it()) {
		if strings.Contains(e, "Warning") {
			told++
		}
	}
	require.Equal(t, 1, told, "%q", s.Events(s.it()))
}

// inForeign returns what a parent wants in a namespace that it wants too.
func inForeign(namespace string, spec map[string]any) []any {
	ns := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}
	if spec != nil {
		ns["spec"] = spec
	}
	return []any{
		ns, inNamespace(namespace, configMap("a", "k", "v")),
		inNamespace(namespace, map[string]any{
			"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": map[string]any{"name": "deny-all"},
			"spec": map[string]any{"podSelector": map[string]any{}, "policyTypes": []any{"Ingress"}},
		}),
	}
}

func TestC137_ForeignNamespace(t *testing.T) {
	scenario(t, "C137", "nothing is written into a namespace whose desired Namespace child isn't ours, nor is it tried, and that is told once")
	log := needsAudit(t)
	typed, _ := clients(t, "somebody")
	for name, spec := range map[string]map[string]any{"taken": nil, "refused": {"finalizers": []any{"not a finalizer!"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness()
			operatorName := "c137-" + name
			cfg := operator(operatorName, configMapChild(), config.Child{Type: k8s.Namespace, Strategy: config.Replace}, config.Child{Type: k8s.NetworkPolicy, Strategy: config.Replace})
			cfg.Parent = clusterParentType
			h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{
					Children: append(inForeign(req.Parent.Name(), spec), inNamespace("default", configMap(req.Parent.Name(), "k", "v"))),
					Status:   map[string]any{"seen": req.Children.Len()},
				}, nil
			})
			kit := testkit.NewWithOptions(t, cluster, cfg, h, w.options())
			foreign := kit.Namespace + "-it"
			removeNamespace(t, foreign)
			_, err := typed.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: foreign}}, metav1.CreateOptions{})
			require.NoError(t, err)
			from := log.mark(t)
			it := clusterParent(kit, "it", map[string]any{})
			kit.Create(it)
			failing(t, kit, it, "Namespace "+foreign)
			kit.EventuallyExists(inNamespace("default", configMap(foreign, "", "")), patience)
			during(t, 3*time.Second)
			for _, r := range log.since(t, from, operatorName) {
				require.False(t, r.Namespace == foreign && r.Resource != "namespaces" && r.Verb != "list", "%s", r)
			}
			require.Equal(t, 1, strings.Count(w.logged(), "level=ERROR"), "told once: %s", w.logged())
			require.True(t, anyContains(kit.Events(it), "Warning", foreign), "%q", kit.Events(it))
			kit.Stop()

			from = log.mark(t)
			_, err = planFor(t, kit, cfg, h, it)
			require.ErrorContains(t, err, "Namespace "+foreign)
			for _, r := range log.since(t, from, operatorName) {
				require.False(t, r.Namespace == foreign && r.Resource != "namespaces" && r.Verb != "list", "plan: %s", r)
			}
		})
	}
}

func TestC137b_NamespaceOfAnotherParent(t *testing.T) {
	scenario(t, "C137b", "nothing is written into a namespace that is another parent's child, until it is ours")
	log := needsAudit(t)
	needsControllerManager(t)
	cfg := operator("c137p", config.Child{Type: k8s.Namespace, Strategy: config.Replace}, configMapChild(), config.Child{Type: k8s.NetworkPolicy, Strategy: config.Replace})
	cfg.Parent = clusterParentType
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		namespace, _ := req.Parent.Field("spec", "namespace")
		children := inForeign(fmt.Sprint(namespace), nil)
		if empty, _ := req.Parent.Field("spec", "empty"); empty == true {
			children = children[:1]
		}
		return &handler.SyncResponse{Children: children, Status: map[string]any{"seen": req.Children.Len()}}, nil
	}))
	shared := kit.Namespace + "-shared"
	removeNamespace(t, shared)
	first, second := clusterParent(kit, "first", map[string]any{"namespace": shared, "empty": true}), clusterParent(kit, "second", map[string]any{"namespace": shared})
	kit.Create(first)
	settle(t, kit)
	from := log.mark(t)
	kit.Create(second)
	failing(t, kit, second, "Namespace "+shared)
	during(t, 3*time.Second)
	for _, r := range log.since(t, from, "c137p") {
		require.False(t, r.Namespace == shared && r.Resource != "namespaces" && r.Verb != "list", "%s", r)
	}
	kit.Delete(first)
	kit.EventuallyExists(inNamespace(shared, configMap("a", "", "")), patience)
	settle(t, kit)
	require.Equal(t, kit.Get(second).UID(), kit.Get(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": shared}}).OwnerReferences()[0].UID)
}

func TestC155_WebhookThatSaysConflict(t *testing.T) {
	scenario(t, "C155", "a permanent 409 or 404 of a webhook is told once, and tried less and less often")
	log := needsAudit(t)
	for name, tc := range map[string]struct {
		operation admissionv1.Operation
		code      int32
		reason    metav1.StatusReason
		strategy  config.UpdateStrategy
		ask       func(s *stage)
		verb      string
	}{
		"update-409":    {"UPDATE", 409, metav1.StatusReasonConflict, config.Replace, func(s *stage) { s.ask(configMap("one", "k", "w")) }, "update"},
		"update-404":    {"UPDATE", 404, metav1.StatusReasonNotFound, config.Replace, func(s *stage) { s.ask(configMap("one", "k", "w")) }, "update"},
		"apply-409":     {"UPDATE", 409, metav1.StatusReasonConflict, config.Apply, func(s *stage) { s.ask(configMap("one", "k", "w")) }, "patch"},
		"create-409":    {"CREATE", 409, metav1.StatusReasonConflict, config.Replace, func(s *stage) { s.ask(configMap("one", "k", "v"), configMap("two", "k", "v")) }, "create"},
		"create-exists": {"CREATE", 409, metav1.StatusReasonAlreadyExists, config.Replace, func(s *stage) { s.ask(configMap("one", "k", "v"), configMap("two", "k", "v")) }, "create"},
		"create-404":    {"CREATE", 404, metav1.StatusReasonNotFound, config.Replace, func(s *stage) { s.ask(configMap("one", "k", "v"), configMap("two", "k", "v")) }, "create"},
		"delete-409":    {"DELETE", 409, metav1.StatusReasonConflict, config.Replace, func(s *stage) { s.ask() }, "delete"},
		"delete-404":    {"DELETE", 404, metav1.StatusReasonNotFound, config.Replace, func(s *stage) { s.ask() }, "delete"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness()
			s := newStageWith(t, patient("c155-"+name, childrenBy(tc.strategy, k8s.ConfigMap)...), w.options())
			s.want(configMap("one", "k", "v"))
			object := "one"
			if tc.operation == "CREATE" {
				object = "two"
			}
			d := &denial{}
			d.serve(t, s.Namespace)
			d.set(denying(tc.operation, object, tc.code, tc.reason))
			from := log.mark(t)
			tc.ask(s)
			failing(t, s.Kit, s.it(), "never on a Friday")
			eventually(t, "an Event", func() bool { return anyContains(s.Events(s.it()), "Warning", "never on a Friday") })
			during(t, 20*time.Second)
			sent := requestsFor(t, log, from, "c155-"+name, tc.verb, object)
			require.GreaterOrEqual(t, sent, 3)
			require.LessOrEqual(t, sent, 11, "with growing distance")
			require.Equal(t, 1, strings.Count(w.logged(), "level=ERROR"), "told once: %s", w.logged())
			d.set(nil)
			it := toUpdate(s.Get(s.it()))
			it.SetAnnotations(map[string]string{"example.com/touched": "yes"})
			s.Update(it)
			if tc.operation == "DELETE" {
				s.EventuallyGone(configMap("one", "", ""), patience)
			}
			settle(t, s.Kit)
			quiet(t, s.config.Name)
		})
	}
}

func TestC158_LastErrors(t *testing.T) {
	scenario(t, "C158", "a handler learns which children the last pass couldn't write, and why, until one pass succeeds")
	s := newStage(t, "c158", configMapChild(), config.Child{Type: k8s.Secret, Strategy: config.Replace})
	var mu sync.Mutex
	var recorded []json.RawMessage
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
		text, err := json.Marshal(req)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		recorded = append(recorded, text)
		mu.Unlock()
		var failed []any
		for _, e := range req.LastErrors {
			failed = append(failed, map[string]any{"kind": e.Type.Kind, "name": e.Key.Name, "verb": e.Verb, "reason": e.Reason, "message": e.Message})
		}
		value, _ := req.Parent.Field("metadata", "annotations", "example.com/value")
		key := "not a key!"
		if value == "good" {
			key = "key"
		}
		secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "hidden"}, "stringData": map[string]any{key: "s3cret-value"}}
		return &handler.SyncResponse{
			Children: []any{configMap("fine", "k", "v"), configMap("broken", key, "v"), secret},
			Status:   map[string]any{"failed": failed, "degraded": len(failed) > 0},
		}
	})
	eventually(t, "the status says what failed", func() bool {
		degraded, _ := s.Get(s.it()).Field("status", "degraded")
		return degraded == true
	})
	failed, _ := s.Get(s.it()).Field("status", "failed")
	list, _ := failed.([]any)
	require.Len(t, list, 2, "%v", failed)
	byName := map[string]map[string]any{}
	for _, item := range list {
		entry := item.(map[string]any)
		byName[fmt.Sprint(entry["name"])] = entry
	}
	require.Equal(t, "ConfigMap", byName["broken"]["kind"])
	require.Equal(t, "create", byName["broken"]["verb"])
	require.Equal(t, "Invalid", byName["broken"]["reason"])
	require.Contains(t, byName["broken"]["message"], "not a key!")
	require.Equal(t, "Secret", byName["hidden"]["kind"])
	mu.Lock()
	last := recorded[len(recorded)-1]
	for _, text := range recorded {
		require.NotContains(t, string(text), "s3cret-value")
	}
	mu.Unlock()
	var again handler.SyncRequest
	require.NoError(t, json.Unmarshal(last, &again))
	require.Len(t, again.LastErrors, 2)
	require.Equal(t, k8s.ConfigMap, again.LastErrors[0].Type)
	require.Equal(t, types.NamespacedName{Namespace: s.Namespace, Name: "broken"}, again.LastErrors[0].Key)

	it := toUpdate(s.Get(s.it()))
	it.SetAnnotations(map[string]string{"example.com/value": "good"})
	s.Update(it)
	eventually(t, "the status says that all is well", func() bool {
		degraded, _ := s.Get(s.it()).Field("status", "degraded")
		return degraded == false
	})
	settle(t, s.Kit)
	s.waits()
}

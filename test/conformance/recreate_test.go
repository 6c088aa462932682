package conformance

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// forbid has a policy refuse, in the stage's namespace, objects for which a CEL
// expression isn't true, and returns when the API server goes by it: when it
// refuses the probe.
func (s *stage) forbid(expression, resources string, probe map[string]any) {
	s.t.Helper()
	refuses := s.refuses(probe)
	enforce(s.t, s.Namespace, policy{admissionregistrationv1.Create, []schema.GroupResource{{Group: "*", Resource: resources}}, expression}, func() bool {
		return refuses("ValidatingAdmissionPolicy")
	})
}

// refuses returns a function that says whether the API server refuses to create an object, in these words.
func (s *stage) refuses(probe map[string]any) func(words string) bool {
	s.t.Helper()
	_, untyped := clients(s.t, "somebody")
	return func(words string) bool {
		_, err := untyped.Resource(plural(typeOf(probe))).Namespace(s.Namespace).
			Create(s.t.Context(), &unstructured.Unstructured{Object: probe}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), words)
	}
}

// firstStaticPort and staticPorts are the node ports that the API server gives to nobody who doesn't ask for one, as long as there are
// others.
const firstStaticPort, staticPorts = 30000, 86

// usedPorts counts the calls of freeNodePort, which run in parallel.
var usedPorts atomic.Int32

// freeNodePort returns a port of the nodes that no Service has, and that none is given by chance.
func (s *stage) freeNodePort() (port int32) {
	s.t.Helper()
	typed, _ := clients(s.t, "somebody")
	services := typed.CoreV1().Services(s.Namespace)
	for range staticPorts {
		port = firstStaticPort + (usedPorts.Add(1)-1)%staticPorts
		probe := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
		}
		if _, err := services.Create(s.t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return port
		}
	}
	require.Fail(s.t, "no node port is free")
	return 0
}

// limit creates the ResourceQuota "quota", or changes it, and returns when the API
// server has counted what is there.
func (s *stage) limit(hard map[string]any) {
	s.t.Helper()
	quota := map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "quota"}, "spec": map[string]any{"hard": hard}}
	if s.Get(quota) == nil {
		s.Create(quota)
	} else {
		s.Update(quota)
	}
	quota["status"] = map[string]any{"hard": hard}
	s.Eventually(quota, patience)
}

// used returns when the quota has counted what is there. The controller of quotas
// counts what has gone later than the API server counts what comes.
func (s *stage) used(resource, amount string) {
	s.t.Helper()
	s.Eventually(map[string]any{
		"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "quota"},
		"status": map[string]any{"used": map[string]any{resource: amount}},
	}, patience)
}

// refused asks for a child that the API server refuses, and requires that the child
// that is there stays, that the error says what is refused, and that a plan says so
// too.
func (s *stage) refused(child map[string]any, texts ...string) {
	s.t.Helper()
	before, failures := s.Get(child), len(s.errors())
	written := len(s.Writes())
	s.ask(child)
	eventually(s.t, "the operator fails", func() bool { return len(s.errors()) > failures })
	settle(s.t, s.Kit)
	now := s.Get(child)
	require.NotNil(s.t, now, "the old child is gone")
	require.Equal(s.t, before.UID(), now.UID(), "the old child stays")
	require.False(s.t, now.IsDeleting())
	failed := s.errors()
	text := failed[len(failed)-1].Error()
	require.Contains(s.t, text, fmt.Sprintf("%s %s/one: recreate: not deleted, since its new state is refused: ", now.Type().Kind, s.Namespace))
	_, err := s.plan(s.config)
	require.Error(s.t, err)
	for _, part := range texts {
		require.Contains(s.t, text, part)
		require.Contains(s.t, err.Error(), part)
	}
	require.Empty(s.t, verbs(s.Writes()[written:], now.Type().Kind, now.Name()))
}

// recreated asks for a child, and requires that another object takes the place of
// the one that is there.
func (s *stage) recreated(child map[string]any) {
	s.t.Helper()
	before, failures := s.Get(child), len(s.errors())
	s.ask(child)
	eventually(s.t, "the child is another one", func() bool {
		now := s.Get(child)
		return now != nil && now.UID() != before.UID()
	})
	settle(s.t, s.Kit)
	for _, err := range s.errors()[failures:] {
		if strings.Contains(err.Error(), "not deleted, since its new state is refused: ") {
			continue // what was asked for before was tried once more
		}
		require.Contains(s.t, err.Error(), "create: ") // a quota counts what has gone for a moment more
		require.Contains(s.t, err.Error(), "exceeded quota")
	}
}

func TestC130_RecreateRefused(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C130", "Recreate deletes nothing before a dry run has shown that the new state would be accepted")
	for name, tc := range map[string]struct {
		of                   resource.Type
		first, refused, good string
		policy               string // a CEL expression
		says                 string
	}{
		"pod": {
			of: k8s.Pod, says: "must be less than or equal to cpu limit",
			first:   `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: main, image: example.com/app, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}}`,
			refused: `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: main, image: example.com/app, resources: {requests: {cpu: 3}, limits: {cpu: 2}}}]}}`,
			good:    `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: main, image: example.com/app, resources: {requests: {cpu: 3}, limits: {cpu: 4}}}]}}`,
		},
		"key": {
			of: k8s.ConfigMap, says: "a valid config key",
			first:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: a}}`,
			refused: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {"a b": a}}`,
			good:    `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {b: a}}`,
		},
		"secret": {
			of: k8s.Secret, says: "data[a b]",
			first:   `{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {a: a}}`,
			refused: `{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {"a b": a}}`,
			good:    `{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {b: a}}`,
		},
		"custom": {
			of: widgetType, says: "spec.size",
			first:   `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {size: 1, fixed: a}}`,
			refused: `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {size: big, fixed: a}}`,
			good:    `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {size: 1, fixed: b}}`,
		},
		"policy": {
			of: k8s.ConfigMap, policy: `!has(object.data) || !('color' in object.data) || object.data.color != 'blue'`, says: "ValidatingAdmissionPolicy",
			first:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: red}}`,
			refused: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: blue}}`,
			good:    `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: green}}`,
		},
		"policy-of-the-name": {
			of: k8s.ConfigMap, policy: `object.metadata.name != 'one' || !has(object.data) || !('color' in object.data) || object.data.color != 'blue'`, says: "ValidatingAdmissionPolicy",
			first:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: red}}`,
			refused: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: blue}}`,
			good:    `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: green}}`,
		},
		"policy-against-other-names": {
			of: k8s.ConfigMap, policy: `object.metadata.name in ['one', 'kube-root-ca.crt'] && (!('color' in object.data) || object.data.color != 'blue')`, says: "ValidatingAdmissionPolicy",
			first:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: red}}`,
			refused: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: blue}}`,
			good:    `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: green}}`,
		},
		"ports": { // the port of the node hides all other mistakes
			of: k8s.Service, says: "spec.ports[0].name",
			first:   `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: NodePort, ports: [{port: 80, nodePort: %d}]}}`,
			refused: `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: NodePort, ports: [{port: 80, nodePort: %d}, {port: 81}]}}`,
			good:    `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: NodePort, ports: [{port: 82, nodePort: %d}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c130-"+name, childrenBy(config.Recreate, tc.of)...)
			port := s.freeNodePort()
			child := func(text string) map[string]any {
				if strings.Contains(text, "%d") {
					text = fmt.Sprintf(text, port)
				}
				return manifest(t, text)
			}
			s.want(child(tc.first))
			if tc.policy != "" {
				s.forbid(tc.policy, "configmaps", child(tc.refused))
			}
			s.refused(child(tc.refused), tc.says)
			s.recreated(child(tc.good))
			s.refused(child(tc.refused), tc.says)
			s.recreated(child(tc.first))
		})
	}
}

func TestC130b_RecreateNames(t *testing.T) {
	scenario(t, "C130b", "Recreate of a child whose name or content no other object may have")
	s := newStage(t, "c130-names", childrenBy(config.Recreate, k8s.Role, k8s.Service, k8s.ConfigMap)...)
	port := s.freeNodePort()
	children := func(version int) []any {
		var all []any
		for _, text := range []string{
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: "system:one"}, rules: [{apiGroups: [""], resources: [pods], verbs: [get], resourceNames: [v%[1]d]}]}`,
			`{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: %[2]d, ports: [{port: 8%[1]d}]}}`,
		} {
			all = append(all, manifest(t, fmt.Sprintf(text, version, port)))
		}
		return all
	}
	s.want(children(0)...)
	for version := range 2 {
		before := s.identities()
		s.want(children(1 + version)...)
		s.undisturbed()
		require.NotEqual(t, before, s.identities())
		require.Empty(t, s.errors())
	}
	s.silent()
	s.restart()
}

func TestC145_RecreateAndQuota(t *testing.T) {
	scenario(t, "C145", "Recreate under a quota that is used up: the child's own share counts as free, that of others doesn't")
	pod := func(name, cpu string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: `+name+`}, spec: {containers: [{name: main, image: example.com/app, resources: {requests: {cpu: `+cpu+`}}}]}}`)
	}
	t.Run("number", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "c145-number", childrenBy(config.Recreate, k8s.Pod)...)
		refuses := s.refuses(pod("probe", "1m"))
		s.limit(map[string]any{"pods": "1", "count/pods": "1"})
		s.want(pod("one", "100m"))
		s.recreated(pod("one", "200m"))
		s.limit(map[string]any{"pods": "0", "count/pods": "1"})
		eventually(t, "the API server goes by it", func() bool { return refuses("pods=0") })
		s.refused(pod("one", "300m"), "exceeded quota")
		s.limit(map[string]any{"pods": "1", "count/pods": "1"})
		s.Eventually(pod("one", "300m"), patience)
	})
	t.Run("cpu", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "c145-cpu", childrenBy(config.Recreate, k8s.Pod)...)
		s.limit(map[string]any{"requests.cpu": "1"})
		s.want(pod("one", "300m"))
		s.recreated(pod("one", "800m"))
		s.refused(pod("one", "1100m"), "exceeded quota")
		s.recreated(pod("one", "200m"))
		s.used("requests.cpu", "200m")
		s.Create(pod("other", "500m"))
		s.used("requests.cpu", "700m")
		s.refused(pod("one", "600m"), "exceeded quota")
		s.recreated(pod("one", "400m"))
	})
	t.Run("others", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "c145-others", childrenBy(config.Recreate, k8s.Pod)...)
		s.want(manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: main, image: example.com/app}]}}`))
		quota := map[string]any{
			"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "quota"},
			"spec":   map[string]any{"hard": map[string]any{"pods": "1"}, "scopes": []any{"NotBestEffort"}},
			"status": map[string]any{"hard": map[string]any{"pods": "1"}},
		}
		s.Create(quota)
		s.Eventually(quota, patience)
		s.Create(pod("other", "100m"))
		refuses := s.refuses(pod("probe", "1m"))
		eventually(t, "the API server has counted it, which knew of no quota a moment ago", func() bool { return refuses("exceeded quota") })
		s.refused(pod("one", "100m"), "exceeded quota")
	})
}

// signingRequest returns a request for a certificate, which nobody signs.
func signingRequest(t *testing.T, name, more string) map[string]any {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "one"}}, key)
	require.NoError(t, err)
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return manifest(t, `{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: `+name+`}, spec: {signerName: example.com/none, usages: [client auth], request: `+request+more+`}}`)
}

func TestC146_RecreateIgnoredUpdates(t *testing.T) {
	scenario(t, "C146", "Recreate where the API server ignores updates without a word: what differs is recreated, what is only spelled differently isn't")
	cfg := operator("c146", childrenBy(config.Recreate, k8s.CertificateSigningRequest)...)
	cfg.Parent = clusterParentType
	s := newStageWith(t, cfg, testkit.KitOptions{})
	s.parent = s.Namespace
	child := signingRequest(t, s.Namespace, "")
	with := func(seconds any) map[string]any {
		out := runtime.DeepCopyJSON(child)
		if seconds != nil {
			out["spec"].(map[string]any)["expirationSeconds"] = seconds
		}
		return out
	}
	s.want(with(int64(3600)))
	s.recreated(with(int64(7200)))
	require.EqualValues(t, 7200, s.field(child, "spec", "expirationSeconds"))
	s.recreated(with(nil))
	require.Nil(t, s.field(child, "spec", "expirationSeconds"))
	s.rebuild(s.config, nil, with(int64(3600)))
	require.EqualValues(t, 3600, s.field(child, "spec", "expirationSeconds"), "by a new build, too")
	uid := s.Get(child).UID()
	more := with(int64(3600))
	more["metadata"].(map[string]any)["annotations"] = nil
	s.rebuild(s.config, nil, more)
	s.silent()
	s.restart()
	require.Equal(t, uid, s.Get(child).UID())
}

func TestC146b_AllocatedIsNoDifference(t *testing.T) {
	scenario(t, "C146b", "what the API server chooses where nothing is asked for is never a reason to recreate")
	s := newStage(t, "c146-service", childrenBy(config.Recreate, k8s.Service)...)
	service := func(port, ip string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: NodePort, ports: [{port: 80`+port+`}]`+ip+`}}`)
	}
	s.want(service("", ""))
	uid := s.Get(service("", "")).UID()
	for _, ip := range []string{`, clusterIP: ""`, "", `, sessionAffinity: None`, ""} {
		s.rebuild(s.config, nil, service(", nodePort: 0", ip))
		s.rebuild(s.config, nil, service("", ip))
		require.Equal(t, uid, s.Get(service("", "")).UID())
	}
	address, port := s.field(service("", ""), "spec", "clusterIP"), s.field(service("", ""), "spec", "ports").([]any)[0].(map[string]any)["nodePort"]
	s.rebuild(s.config, nil, service(fmt.Sprintf(", nodePort: %v", port), fmt.Sprintf(", clusterIP: %v", address)))
	s.rebuild(s.config, nil, service("", ""))
	require.Equal(t, uid, s.Get(service("", "")).UID(), "what was asked for, and isn't any more, stays too")
	s.silent()
	s.restart()
}

func TestC153_AdviceOnlyForImmutableFields(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C153", "the advice to use another strategy comes only with errors that another strategy would end")
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, strategy: {type: Recreate%s}, selector: {matchLabels: {app: %s}}, template: {
		metadata: {labels: {app: %[2]s}}, spec: {containers: [{name: main, image: example.com/app}]}}}}`
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c153-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			s.want(manifest(t, fmt.Sprintf(deployment, "", "a")))
			for name, tc := range map[string]struct {
				more, app string
				advice    bool
			}{
				"no object may be so":      {", rollingUpdate: {maxSurge: 1}", "a", false},
				"nor when it is immutable": {", rollingUpdate: {maxSurge: 1}", "b", false},
				"immutable":                {"", "b", true},
			} {
				failures := len(s.errors())
				s.ask(manifest(t, fmt.Sprintf(deployment, tc.more, tc.app)))
				eventually(t, "the operator fails", func() bool { return len(s.errors()) > failures })
				settle(t, s.Kit)
				failed := s.errors()
				require.Equal(t, tc.advice, strings.Contains(failed[len(failed)-1].Error(), "strategy Recreate would"), "%s: %v", name, failed[len(failed)-1])
				s.ask(manifest(t, fmt.Sprintf(deployment, "", "a")))
				settle(t, s.Kit)
			}
		})
	}
}

func TestC154_OwnFinalizers(t *testing.T) {
	scenario(t, "C154", "a finalizer that the handler has put on a child goes when the handler drops it, though the child is being deleted; until then the wait is told once")
	child := func(data, finalizers string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, finalizers: [`+finalizers+`]}, data: {k: `+data+`}}`)
	}
	for _, strategy := range []config.UpdateStrategy{config.Recreate, config.Replace, config.Apply, config.OnDelete} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c154-"+lower(strategy), childrenBy(strategy, k8s.ConfigMap)...)
			s.want(child("a", "example.com/ours"))
			before := s.Get(child("", ""))
			if strategy == config.Recreate {
				s.want(child("b", "example.com/ours"))
			} else {
				s.Delete(child("", ""))
				s.want(child("b", "example.com/ours"))
			}
			waits := func() (n int) {
				for _, line := range s.Kit.Events(parent("one", nil)) {
					if strings.Contains(line, "Waiting") && strings.Contains(line, "held by the finalizers example.com/ours") {
						n++
					}
				}
				return n
			}
			eventually(t, "the wait is told", func() bool { return waits() == 1 })
			require.True(t, s.Get(child("", "")).IsDeleting())
			s.want(child("c", "example.com/ours"))
			require.Equal(t, before.UID(), s.Get(child("", "")).UID())
			changes, err := s.plan(s.config)
			require.NoError(t, err)
			require.Empty(t, changes)
			s.want(child("d", ""))
			s.Eventually(child("d", ""), patience)
			settle(t, s.Kit)
			now := s.Get(child("", ""))
			require.NotEqual(t, before.UID(), now.UID())
			require.Empty(t, now.Finalizers())
			require.Equal(t, 1, waits())
			s.silent()
			s.restart()
		})
	}
}

func TestC154b_FinalizersOfOthers(t *testing.T) {
	scenario(t, "C154b", "of a child that is being deleted, only those finalizers go that the handler has set and dropped, and nothing else changes")
	s := newStage(t, "c154-others", childrenBy(config.Recreate, k8s.ConfigMap)...)
	s.want(manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, finalizers: [example.com/a, example.com/b]}, data: {k: a}}`))
	it := configMap("one", "", "")
	uid := s.Get(it).UID()
	typed, _ := clients(t, "somebody")
	maps := typed.CoreV1().ConfigMaps(s.Namespace)
	_, err := maps.Patch(t.Context(), "one", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/theirs"}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	settle(t, s.Kit)
	s.want(manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, finalizers: [example.com/b]}, data: {k: b}}`))
	eventually(t, "the dropped one goes", func() bool { return len(s.Get(it).Finalizers()) == 2 })
	require.ElementsMatch(t, []string{"example.com/b", "example.com/theirs"}, s.Get(it).Finalizers())
	require.Equal(t, "a", s.field(it, "data", "k"))
	s.Stop()
	s.mu.Lock()
	s.mu.wanted = func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Children: []any{configMap("one", "k", "c")}}
	}
	s.mu.Unlock()
	changes, err := s.plan(s.config)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, "update", changes[0].Verb)
	require.Len(t, changes[0].Fields, 1)
	require.Equal(t, "metadata.finalizers", changes[0].Fields[0].Path)
	s.Restart(s.config, handler.SyncFunc(s.sync)) // a later build has dropped it, too
	eventually(t, "the other one goes", func() bool { return len(s.Get(it).Finalizers()) == 1 })
	settle(t, s.Kit)
	require.Equal(t, uid, s.Get(it).UID())
	_, err = maps.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	s.Eventually(configMap("one", "k", "c"), patience)
	settle(t, s.Kit)
	s.silent()
}

func TestC145b_DefaultRestatedUnderAQuota(t *testing.T) {
	scenario(t, "C145b", "a handler that states a default needs no new child, though a webhook has changed the child at its creation and a quota leaves no room to ask what a creation would make of it")
	pod := func(more string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {hostname: ours, `+more+` containers: [{name: main, image: example.com/app}]}}`)
	}
	// Recreate can't know what a creation would make of it, so it recreates the Pod.
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c145-restated-"+lower(strategy), childrenBy(strategy, k8s.Pod)...)
			(&webhook{creation: true, mutate: func(o map[string]any) { podSpec(o)["hostname"] = "theirs" }}).serve(t, s.Namespace)
			s.limit(map[string]any{"pods": "1"})
			s.want(pod(""))
			s.used("pods", "1")
			before := s.Get(pod("")).UID()
			s.want(pod("restartPolicy: Always, "))
			require.Equal(t, before, s.Get(pod("")).UID())
			require.Equal(t, "theirs", s.field(pod(""), "spec", "hostname"))
			s.silent()
			s.restart()
			s.want(pod("restartPolicy: Always, dnsPolicy: ClusterFirst, "))
			require.Equal(t, before, s.Get(pod("")).UID())
			for _, more := range []string{"restartPolicy: Always, dnsPolicy: ClusterFirst, subdomain: more, ", "restartPolicy: Never, "} {
				failures := len(s.errors())
				s.ask(pod(more))
				settle(t, s.Kit)
				require.Greater(t, len(s.errors()), failures, "what the child was given doesn't hide what is asked for now")
			}
		})
	}
}

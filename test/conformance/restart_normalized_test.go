package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// typedService is a Service as most handlers return it: its targetPort is 0,
// which the API server takes for "the same as port".
func typedService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// quantities is a Deployment with quantities that the API server spells otherwise.
func quantities(t *testing.T, image string) map[string]any {
	t.Helper()
	return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
		metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: "example.com/app:`+image+`", resources: {limits: {cpu: 1000m, memory: 1024Mi}}}]}}}}`)
}

func TestC142_RestartUnderPolicy(t *testing.T) {
	scenario(t, "C142", "a policy that denies updates, and children that the server normalizes: a restart fails nothing, whether managedFields tell or not")
	for name, stripped := range map[string]bool{"fields": false, "stripped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c142-"+name, childrenBy(config.Replace, k8s.Service, k8s.Deployment)...)
			s.want(typedService(), quantities(t, "1"))
			s.undisturbed()
			if stripped {
				s.strip(servicesResource, "typed")
				s.strip(deploymentsResource, "one")
				settle(t, s.Kit)
			}
			denyUpdates(t, s.Namespace, schema.GroupResource{Group: "*", Resource: "*"})
			s.restart()
			s.silent()
		})
	}
}

func TestC142b_OthersChangeUnderPolicy(t *testing.T) {
	scenario(t, "C142b", "what others change while the operator is down, and a policy denies updates at the restart: no error, and mended once the policy has gone")
	s := newStage(t, "c142-policy", childrenBy(config.Replace, k8s.Service)...)
	s.want(typedService())
	var lift func()
	s.rebuild(s.config, func() {
		s.patchAs("somebody", servicesResource, "typed", `{"spec":{"ports":[{"port":80,"protocol":"TCP","targetPort":81}]}}`)
		lift = denyUpdates(t, s.Namespace, schema.GroupResource{Resource: "services"})
	}, typedService())
	s.silent()
	lift()
	_, untyped := clients(t, "somebody")
	eventually(t, "the port is ours again", func() bool {
		_, err := untyped.Resource(servicesResource).Namespace(s.Namespace).Patch(t.Context(), "typed", types.MergePatchType, []byte(`{"metadata":{"annotations":{"k":"v"}}}`), metav1.PatchOptions{})
		return err == nil && s.field(typedService(), "spec", "ports").([]any)[0].(map[string]any)["targetPort"] == int64(80)
	})
	settle(t, s.Kit)
	require.Empty(t, s.errors())
}

func TestC142c_RestartAsksNothing(t *testing.T) {
	scenario(t, "C142c", "a restart, and a plan, of children that the server or a webhook has changed at our request asks for nothing but lists")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c142-nothing-"+lower(strategy), childrenBy(strategy, k8s.Service, k8s.Deployment, k8s.Pod)...)
			(&webhook{mutate: mirrorImages}).serve(t, s.Namespace)
			for _, image := range []string{"1", "2"} {
				s.want(typedService(), quantities(t, image), podWith(t, image))
				s.undisturbed()
				s.restartReading()
			}
			s.silent()
		})
	}
}

func TestC142d_OthersChangeWhileDown(t *testing.T) {
	scenario(t, "C142d", "what others change or remove while the operator is down is mended at the restart, beside what the server has normalized")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c142-others-"+lower(strategy), childrenBy(strategy, k8s.Service, k8s.Deployment)...)
			(&webhook{mutate: mirrorImages, creation: true}).serve(t, s.Namespace)
			want := func() []any {
				service := typedService()
				service.Annotations = map[string]string{"ours": "yes"}
				return []any{service, quantities(t, "1")}
			}
			s.want(want()...)
			s.undisturbed()
			s.rebuild(s.config, func() {
				s.patchAs("somebody", servicesResource, "typed", `{"metadata":{"annotations":{"ours":null}},"spec":{"ports":[{"port":80,"protocol":"TCP","targetPort":81}]}}`)
				s.patchAs("somebody", deploymentsResource, "one", `{"spec":{"replicas":1,"minReadySeconds":7}}`)
			}, want()...)
			service, deployment := typedService(), quantities(t, "")
			require.Equal(t, int64(80), s.field(service, "spec", "ports").([]any)[0].(map[string]any)["targetPort"])
			require.Equal(t, "yes", s.field(service, "metadata", "annotations", "ours"))
			require.Equal(t, int64(0), s.field(deployment, "spec", "replicas"))
			require.Equal(t, int64(7), s.field(deployment, "spec", "minReadySeconds"), "not ours")
			require.Equal(t, map[string]string{"main": "mirror.example.com/app:1"}, images(s.Get(deployment).Unstructured().Object), "the webhook's word stays")
			s.silent()
			s.restartReading()
		})
	}
}

func TestC147_ManyNormalizedFields(t *testing.T) {
	scenario(t, "C147", "a child with a hundred fields that the server spells otherwise, one of them immutable: a few dry runs at a restart at most, and none where managedFields tell")
	for name, stripped := range map[string]bool{"fields": false, "stripped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c147-"+name, childrenBy(config.Replace, k8s.Pod)...)
			(&webhook{creation: true, mutate: func(o map[string]any) { podSpec(o)["hostname"] = "theirs" }}).serve(t, s.Namespace)
			pod := func() map[string]any {
				var containers []string
				for i := range 50 {
					containers = append(containers, fmt.Sprintf(`{name: c%d, image: example.com/app, resources: {limits: {cpu: 1000m, memory: 1024Mi}}}`, i))
				}
				return manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {k: v}}, spec: {hostname: ours,
					tolerations: [{key: example.com/own, operator: Exists, effect: NoSchedule}], containers: [`+strings.Join(containers, ",")+`]}}`)
			}
			s.want(pod())
			if !stripped {
				s.restartReading()
				return
			}
			s.strip(podsResource, "one")
			settle(t, s.Kit)
			uid := s.Get(pod()).UID()
			from := needsAudit(t).mark(t)
			s.rebuild(s.config, func() {
				s.patchAs("somebody", podsResource, "one", `{"metadata":{"labels":{"k":"theirs"}}}`)
			}, pod())
			require.LessOrEqual(t, len(s.triedSince(from)), 4, "%v", s.triedSince(from))
			require.Equal(t, "v", s.field(pod(), "metadata", "labels", "k"), "mended, though fields that can't be changed differ, too")
			require.Equal(t, uid, s.Get(pod()).UID())
			s.silent()
		})
	}
}

func TestC144b_ExemptedByTheDesiredState(t *testing.T) {
	scenario(t, "C144b", "a webhook that changes our fields and then exempts the object: since the desired state says so, our values come back; since somebody does, the webhook's stay until the desired state changes")
	exempt := func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		labels, _ := meta["labels"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if labels["mirror"] != "off" && annotations["mirror"] != "off" {
			mirrorImages(o)
		}
	}
	plain := map[string]string{"main": "example.com/app:1"}
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c144-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			(&webhook{mutate: exempt}).serve(t, s.Namespace)
			s.want(deploymentWith(t, "1"))
			require.Equal(t, "mirror.example.com/app:1", images(s.Get(deploymentWith(t, "")).Unstructured().Object)["main"])
			exempted := deploymentWith(t, "1")
			exempted["metadata"].(map[string]any)["annotations"] = map[string]any{"mirror": "off"}
			s.want(exempted)
			require.Equal(t, plain, images(s.Get(exempted).Unstructured().Object), "exempted by the desired state")
			s.undisturbed()
			s.silent()
			s.want(deploymentWith(t, "1"))
			require.Equal(t, "mirror.example.com/app:1", images(s.Get(exempted).Unstructured().Object)["main"])
			s.patchAs("somebody", deploymentsResource, "one", `{"metadata":{"labels":{"mirror":"off"}}}`)
			settle(t, s.Kit)
			require.Equal(t, "mirror.example.com/app:1", images(s.Get(exempted).Unstructured().Object)["main"], "S172")
			changed := deploymentWith(t, "1")
			changed["metadata"].(map[string]any)["annotations"] = map[string]any{"another": "state"}
			s.want(changed)
			s.silent()
		})
	}
}

func TestC144c_ExemptedByAnythingDesired(t *testing.T) {
	scenario(t, "C144c", "a webhook that goes by any field of the desired state: after each change the child is what a create would make of it, and a webhook for creations keeps its word")
	for name, creation := range map[string]bool{"always": false, "creation": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c144-any-"+name, childrenBy(config.Replace, k8s.Deployment)...)
			(&webhook{creation: creation, mutate: func(o map[string]any) {
				if spec, _ := o["spec"].(map[string]any); spec["minReadySeconds"] != 9.0 {
					mirrorImages(o)
				}
			}}).serve(t, s.Namespace)
			want := func(ready int) map[string]any {
				d := deploymentWith(t, "1")
				d["spec"].(map[string]any)["minReadySeconds"] = ready
				return d
			}
			image := func() string { return images(s.Get(want(0)).Unstructured().Object)["main"] }
			s.want(want(1))
			require.Equal(t, "mirror.example.com/app:1", image())
			s.want(want(2))
			require.Equal(t, "mirror.example.com/app:1", image())
			s.want(want(9))
			require.Equal(t, "example.com/app:1", image())
			s.undisturbed()
			s.silent()
		})
	}
}

func TestC152_ThousandNormalizedFields(t *testing.T) {
	scenario(t, "C152", "a child with more than 500 normalized fields: what others do to other fields costs no request")
	s := newStage(t, "c152", childrenBy(config.Replace, k8s.Deployment)...)
	var calls atomic.Int64
	(&webhook{mutate: func(o map[string]any) {
		calls.Add(1)
		for _, c := range containersOf(o) {
			for _, e := range c.(map[string]any)["env"].([]any) {
				e := e.(map[string]any)
				if value, _ := e["value"].(string); !strings.HasSuffix(value, "!") {
					e["value"] = value + "!"
				}
			}
		}
	}}).serve(t, s.Namespace)
	want := func() map[string]any {
		d := deploymentWith(t, "1")
		var env []any
		for i := range 1000 {
			env = append(env, map[string]any{"name": fmt.Sprint("V", i), "value": "x"})
		}
		containersOf(d)[0].(map[string]any)["env"] = env
		return d
	}
	s.want(want())
	s.undisturbed()
	from := needsAudit(t).mark(t)
	for i := range 3 {
		s.patchAs("somebody", deploymentsResource, "one", fmt.Sprintf(`{"metadata":{"annotations":{"theirs":"%d"}}}`, i))
		settle(t, s.Kit)
	}
	require.Empty(t, s.writtenSince(from))
	tried := slices.DeleteFunc(s.triedSince(from), func(request string) bool { return strings.HasSuffix(request, ": 409") }) // a controller was faster
	require.LessOrEqual(t, len(tried), 1, "%v", tried)
	s.patchAs("somebody", deploymentsResource, "one", `{"spec":{"replicas":1}}`)
	eventually(t, "a change of ours is mended", func() bool { return s.field(want(), "spec", "replicas") == int64(0) })
	settle(t, s.Kit)
	s.silent()
	s.restartReading()
}

func TestC166_BackAfterRefusalAndRestart(t *testing.T) {
	scenario(t, "C166", "after a refusal and a restart, going back to the state that the child has succeeds, though a webhook for creations has changed the child")
	for name, stripped := range map[string]bool{"fields": false, "stripped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c166-"+name, childrenBy(config.Replace, k8s.Pod)...)
			(&webhook{creation: true, mutate: func(o map[string]any) {
				mirrorImages(o)
				podSpec(o)["hostname"] = "theirs"
			}}).serve(t, s.Namespace)
			pod := func(hostname string) map[string]any {
				p := podWith(t, "1")
				podSpec(p)["hostname"] = hostname
				return p
			}
			s.want(pod("one"))
			if stripped {
				s.strip(podsResource, "one")
				settle(t, s.Kit)
			}
			other := pod("one")
			podSpec(other)["subdomain"] = "other"
			s.ask(other)
			settle(t, s.Kit)
			require.NotEmpty(t, s.errors(), "a Pod's subdomain can't be changed")
			s.Stop()
			s.Restart(s.config, s.handler())
			settle(t, s.Kit)
			failures := len(s.errors())
			s.ask(pod("one"))
			settle(t, s.Kit)
			require.LessOrEqual(t, len(s.errors()), failures+1, "no further error, but of a pass that was under way")
			require.Equal(t, "mirror.example.com/app:1", images(s.Get(other).Unstructured().Object)["main"])
			s.silent()
		})
	}
}

func TestC167_CreateOnlyWebhook(t *testing.T) {
	scenario(t, "C167", "what a webhook for creations has made of a child stays at a restart. If nobody's managedFields tell whose it is, our value returns, once")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		for name, stripped := range map[string]bool{"fields": false, "stripped": true} {
			t.Run(string(strategy)+name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c167-"+name+"-"+lower(strategy), childrenBy(strategy, k8s.Deployment, k8s.Pod)...)
				(&webhook{mutate: mirrorImages, creation: true}).serve(t, s.Namespace)
				s.want(deploymentWith(t, "1"), podWith(t, "1"))
				s.undisturbed()
				if stripped {
					s.strip(deploymentsResource, "one")
					s.strip(podsResource, "one")
					settle(t, s.Kit)
					s.rebuild(s.config, nil, deploymentWith(t, "1"), podWith(t, "1"))
					s.restart()
				} else {
					s.restartReading()
				}
				image := map[bool]string{false: "mirror.example.com/app:1", true: "example.com/app:1"}[stripped]
				for _, child := range s.children() {
					require.Equal(t, map[string]string{"main": image}, images(child.Unstructured().Object), "%s", child)
				}
				s.silent()
			})
		}
	}
}

func TestC169c_RefusedOnceAfterRestart(t *testing.T) {
	scenario(t, "C169c", "a child whose update or creation is refused is sent once after a restart")
	s := newStage(t, "c169", childrenBy(config.Replace, k8s.Service, k8s.ConfigMap, k8s.Pod)...)
	s.want(podWith(t, "1"))
	changed := podWith(t, "1")
	podSpec(changed)["hostname"] = "other"
	invalid := configMap("one", "not a key", "v")
	s.ask(changed, invalid)
	settle(t, s.Kit)
	require.NotEmpty(t, s.errors())
	s.Stop()
	from := needsAudit(t).mark(t)
	s.Restart(s.config, s.handler())
	settle(t, s.Kit)
	requests := map[string]int{}
	for _, request := range s.writtenSince(from) {
		requests[request]++
	}
	tries := len(s.errors()) + 1 // one may be under way
	require.Len(t, requests, 2, "%v", requests)
	require.LessOrEqual(t, requests["create configmaps/"+s.Namespace+"/one: 422"], tries, "once in each try")
	require.LessOrEqual(t, requests["update pods/"+s.Namespace+"/one: 422"], tries, "once in each try")
	require.LessOrEqual(t, len(s.triedSince(from)), 3*tries, "whether a creation would be refused, too: %v", s.triedSince(from))
}

func TestC142e_EmptyListFilledByAWebhook(t *testing.T) {
	scenario(t, "C142e", "what a webhook adds to a list that is desired to be empty is no change by others, also where no creation can be tried")
	for name, quota := range map[string]bool{"room": false, "no room": true} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c142-empty-"+strings.ReplaceAll(name, " ", "-")+"-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
				(&webhook{mutate: injectSidecar}).serve(t, s.Namespace)
				s.want(podsOf(t, `{containers: [{name: a, image: a, env: [], volumeMounts: []}], volumes: []}`))
				s.undisturbed()
				if quota {
					s.limit(map[string]any{"count/deployments.apps": "1"})
					s.used("count/deployments.apps", "1")
				}
				s.restart()
				s.silent()
			})
		}
	}
}

func TestC142f_SetThatOthersReplaced(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C142f", "the items of a set that somebody has replaced while the operator was down are back after the restart, beside theirs")
	widget := resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Widget"}
	s := newStage(t, "c142-set", childrenBy(config.Replace, widget)...)
	desired := func() map[string]any {
		return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: w}, spec: {tags: [ours]}}`)
	}
	s.want(desired())
	s.rebuild(s.config, func() { s.patchAs("somebody", plural(widget), "w", `{"spec":{"tags":["theirs"]}}`) }, desired())
	require.ElementsMatch(t, []any{"ours", "theirs"}, s.field(desired(), "spec", "tags"))
	s.silent()
}

func TestC142g_OthersWordsRuleOursOut(t *testing.T) {
	scenario(t, "C142g", "what somebody has set while the operator was down can't be beside the desired state: the restart makes room for ours, or says that it can't, and then mends the child once it can")
	for name, tc := range map[string]struct {
		spec   string // desired
		kind   string
		theirs string
		amends string // what somebody has to do then; empty: nothing
		field  []string
		want   any
	}{
		"PodDisruptionBudget": { // the live object lacks our field
			`{selector: {matchLabels: {a: b}}, maxUnavailable: "10%"}`, "policy/v1, kind: PodDisruptionBudget",
			`{"spec":{"maxUnavailable":null,"minAvailable":1}}`, `{"spec":{"minAvailable":null}}`, []string{"maxUnavailable"}, "10%",
		},
		"Deployment": { // the live object has another value, and a field that only comes with it
			`{replicas: 0, selector: {matchLabels: {a: b}}, strategy: {type: Recreate}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}`, "apps/v1, kind: Deployment",
			`{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":3}}}}`, "",
			[]string{"strategy", "type"}, "Recreate",
		},
	} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				t.Parallel()
				child := func() map[string]any {
					return manifest(t, `{apiVersion: `+tc.kind+`, metadata: {name: one}, spec: `+tc.spec+`}`)
				}
				of := typeOf(child())
				s := newStage(t, "c142-out-"+strings.ToLower(of.Kind)+"-"+lower(strategy), childrenBy(strategy, of)...)
				s.want(child())
				s.Stop()
				s.patchAs("somebody", plural(of), "one", tc.theirs)
				changes, err := s.plan(s.config)
				s.Restart(s.config, s.handler())
				if tc.amends == "" {
					require.NoError(t, err)
					require.Len(t, changes, 1)
				} else {
					require.NoError(t, err)
					require.Empty(t, changes, "S177: our field can't be written")
					eventually(t, "it is told", func() bool { return len(s.eventsOf("CorrectionRejected")) == 1 })
					require.Contains(t, s.eventsOf("CorrectionRejected")[0], "one: spec.maxUnavailable")
					s.patchAs("somebody", plural(of), "one", tc.amends)
				}
				eventually(t, "our field is back", func() bool {
					return s.field(child(), append([]string{"spec"}, tc.field...)...) == tc.want
				})
				settle(t, s.Kit)
				require.Empty(t, s.errors())
				s.silent()
			})
		}
	}
}

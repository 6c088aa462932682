package conformance

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// A refusal is a desired state that the API server refuses, and which requests that
// takes. The requests are those of one try, as the audit log has them, but for the
// namespace; TRIAL stands for the name of a dry run that must not collide.
type refusal struct {
	reason         string
	of             resource.Type
	before, wanted map[string]any // before is nil for a creation
	denied         admissionv1.Operation
	// each and restarted are the requests of a try, by strategy: while the operator
	// runs, and where nothing is remembered of the child. No restarted: the same.
	each, restarted map[config.UpdateStrategy][]string
}

// on is the same list for several strategies.
func on(list []string, strategies ...config.UpdateStrategy) map[config.UpdateStrategy][]string {
	out := map[config.UpdateStrategy][]string{}
	for _, s := range strategies {
		out[s] = list
	}
	return out
}

func refusals(t *testing.T) map[string]refusal {
	service := func(port string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: one}, ports: [{port: `+port+`}]}}`)
	}
	deployment := func(app string) map[string]any {
		return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: `+app+`}},
			template: {metadata: {labels: {app: `+app+`}}, spec: {containers: [{name: main, image: app}]}}}}`)
	}
	updates := []config.UpdateStrategy{config.Replace, config.Apply}
	every := append(updates, config.Recreate)
	return map[string]refusal{
		"create": {
			reason: "a creation is sent, and nothing else", of: k8s.Service, wanted: service("99999"),
			each: on([]string{"create services/one: 422"}, every...),
		},
		"create-denied": {
			reason: "so is one that a webhook denies", of: k8s.ConfigMap, wanted: configMap("one", "k", "v"), denied: admissionv1.Create,
			each: on([]string{"create configmaps/one: 403"}, every...),
		},
		"invalid": {
			reason: "a value that no object may have", of: k8s.ConfigMap, before: configMap("one", "k", "v"), wanted: configMap("one", "not a key", "v"),
			each: map[config.UpdateStrategy][]string{
				config.Replace:  {"update configmaps/one: 422"},
				config.Apply:    {"get configmaps/one: 200", "update configmaps/one: 422"},
				config.Recreate: {"update configmaps/one (dry run): 422", "create configmaps/TRIAL (dry run): 422"},
			},
		},
		"invalid-defaults": {
			reason: "a dry run without the defaults asks what the API server makes of the rest; another one tells that all is refused", of: k8s.Service, before: service("80"), wanted: service("99999"),
			each: map[config.UpdateStrategy][]string{
				config.Replace:  {"get services/one: 200", "update services/one (dry run): 422", "update services/one (dry run): 422"},
				config.Apply:    {"get services/one: 200", "update services/one (dry run): 422", "update services/one (dry run): 422"},
				config.Recreate: {"update services/one (dry run): 422", "create services/TRIAL (dry run): 422"},
			},
		},
		"denied": {
			reason: "what a webhook denies", of: k8s.ConfigMap, before: configMap("one", "k", "v"), wanted: configMap("one", "k", "w"), denied: admissionv1.Update,
			each: map[config.UpdateStrategy][]string{
				config.Replace: {"update configmaps/one: 403"},
				config.Apply:   {"patch configmaps/one: 403"},
			},
		},
		"immutable": {
			reason: "two are refused, without and with the defaults; one asks whether the child could be created so", of: k8s.Deployment, before: deployment("one"), wanted: deployment("two"),
			each: map[config.UpdateStrategy][]string{
				config.Replace: {"get deployments/one: 200", "update deployments/one (dry run): 422", "update deployments/one (dry run): 422", "create deployments/one (dry run): 409"},
				config.Apply:   {"get deployments/one: 200", "update deployments/one (dry run): 422", "update deployments/one (dry run): 422", "create deployments/one (dry run): 409"},
			},
			restarted: map[config.UpdateStrategy][]string{
				config.Replace: {"get deployments/one: 200", "update deployments/one (dry run): 422", "update deployments/one (dry run): 422", "create deployments/TRIAL (dry run): 201"},
				config.Apply:   {"get deployments/one: 200", "update deployments/one (dry run): 422", "update deployments/one (dry run): 422", "create deployments/TRIAL (dry run): 201"},
			},
		},
	}
}

func TestC169b_RequestsOfARefusal(t *testing.T) {
	scenario(t, "C169b", "a refused child costs the same few requests in each try, after a restart too, and none in between")
	for name, tc := range refusals(t) {
		for strategy, each := range tc.each {
			t.Run(name+"-"+string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStageWith(t, patient("c169-"+name+"-"+lower(strategy), childrenBy(strategy, tc.of)...), testkit.KitOptions{})
				if tc.before != nil {
					s.want(tc.before)
					s.undisturbed()
				} else {
					s.want()
				}
				if tc.denied != "" {
					d := &denial{}
					d.set(denying(tc.denied, "one", http.StatusForbidden, metav1.StatusReasonForbidden))
					d.serve(t, s.Namespace)
				}
				log := needsAudit(t)
				from := log.mark(t)
				s.ask(tc.wanted)
				s.tries(from, each, tc.reason)
				s.Stop()
				from = log.mark(t)
				s.Restart(s.config, s.handler())
				if again := tc.restarted[strategy]; again != nil {
					each = again
				}
				s.tries(from, each, tc.reason)
			})
		}
	}
}

// tries waits for three failed passes, and requires that each has made these requests
// for children.
func (s *stage) tries(from mark, each []string, reason string) {
	s.t.Helper()
	eventually(s.t, "three tries", func() bool { return len(s.errors()) >= 3 })
	trial := regexp.MustCompile(`roperator-dry-run-[0-9a-f]+`)
	var requests []string
	for _, r := range needsAudit(s.t).since(s.t, from, s.config.Name) {
		if r.Resource != "" && r.Resource != "parents" && r.Resource != "events" && r.Name != "" {
			requests = append(requests, trial.ReplaceAllString(strings.ReplaceAll(r.String(), s.Namespace+"/", ""), "TRIAL"))
		}
	}
	require.GreaterOrEqual(s.t, len(requests), 3*len(each))
	for i, request := range requests {
		require.Equal(s.t, each[i%len(each)], request, "request %d of %v: %s", i, requests, reason)
	}
}

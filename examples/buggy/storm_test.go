package buggy

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// TestStormFinds holds that Storm finds each bug, and says what it is.
func TestStormFinds(t *testing.T) {
	directory, store, bank, dns := newRegistry(), newRegistry(), newRegistry(), newRegistry()
	cases := map[string]struct {
		reason   string
		operator config.Operator
		handler  handler.Handler
		scenario func(*testkit.Scenario)
		want     string
	}{
		"StaleStatus": {
			reason:   "A Pod that somebody has deleted stays in the list.",
			operator: clusterOperator, handler: clusters, scenario: clusterGrows,
			want: "Cluster default/db: status.members",
		},
		"EarlyFinalizer": {
			reason:   "The call that removes the entry fails, and the finalizer goes.",
			operator: mailboxOperator, handler: mailboxes{directory, slog.New(slog.DiscardHandler)}.handler(), scenario: comeAndGo(mailboxOperator.Parent, directory),
			want: "is gone, and its entry in the registry isn't",
		},
		"NameCollision": {
			reason:   "It needs no fault, only both of them.",
			operator: releaseOperator, handler: releases, scenario: releasesOfTwoTeams,
			want: "Release default/second keeps failing, though its handler succeeds",
		},
		"MemoryCounter": {
			reason:   "Another process knows nothing of the ports, and it is asked even where there is no fault.",
			operator: tunnelOperator, handler: newTunnels(), scenario: twoTunnels,
			want: "another process answers differently for the same snapshot: Service b: spec.ports[0].nodePort is 30000, and was 30001",
		},
		"TimeInSpec": {
			reason:   "It is another minute when the handler is asked again.",
			operator: siteOperator, handler: sites, scenario: siteMoves,
			want: "the same snapshot gets another answer minutes later: ConfigMap home: data.proxy.conf",
		},
		"MapOrder": {
			reason:   "The same settings are in another order.",
			operator: appOperator, handler: apps, scenario: appWithSettings,
			want: "Deployment web: spec.template.spec.containers[0].args",
		},
		"Unrepeatable": {
			reason:   "Finalize is called a second time, even where there is no fault.",
			operator: bucketOperator, handler: buckets{store}.handler(), scenario: comeAndGo(bucketOperator.Parent, store),
			want: "Finalize of Bucket default/a can't be repeated",
		},
		"CreatedTwice": {
			reason:   "The bank takes the call twice, its answer is lost, or the process ends before the status is written.",
			operator: accountOperator, handler: accounts(bank), scenario: twoAccounts(bank),
			want: "entries in the registry, and not one",
		},
		"StatusGuard": {
			reason:   "Somebody deletes the ConfigMap.",
			operator: workspaceOperator, handler: workspaces, scenario: workspaceBegins,
			want: "ConfigMap default/desk is missing, and without faults it is there",
		},
		"MissedReference": {
			reason:   "Which of the ConfigMap's domains the handler meets first is a matter of chance.",
			operator: gatewayOperator, handler: gateways, scenario: networkMoves,
			want: "Gateway default/shop: status.domain",
		},
		"UnboundedChildren": {
			reason:   "Somebody sets an annotation, and takes it off.",
			operator: policyOperator, handler: policies, scenario: policyStays,
			want: "ConfigMap default/rules-2 is there, and without faults it isn't",
		},
		"SwallowedError": {
			reason:   "The call that sets the record fails, and isn't made again.",
			operator: hostOperator, handler: hosts{dns, slog.New(slog.DiscardHandler)}.handler(), scenario: twoHosts(dns),
			want: "has 0 entries in the registry, and not one",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, findings(t, tc.operator, tc.handler, tc.scenario), tc.want, tc.reason)
		})
	}
}

// TestStormSaysWhatDoesntEnd holds that a handler is found that leaves goroutines behind.
func TestStormSaysWhatDoesntEnd(t *testing.T) {
	waiting := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		go func() { <-make(chan struct{}) }()
		return &handler.SyncResponse{}, nil
	})
	require.Contains(t, findings(t, workspaceOperator, waiting, workspaceBegins), "a goroutine that the handler has started doesn't end when the process does")
}

// findings returns what Storm says of an operator, "" if it says nothing.
func findings(t *testing.T, cfg config.Operator, h handler.Handler, scenario func(*testkit.Scenario)) string {
	t.Helper()
	t.Setenv("ROPERATOR_STORM_SEEDS", "200") // with fewer it may find nothing
	noted := &notes{T: t}
	testkit.Storm(noted, cfg, h, testkit.Faults{}, scenario)
	t.Log(noted.text)
	return noted.text
}

// notes is a test that notes down what is said of it, and doesn't fail.
type notes struct {
	*testing.T
	text string
}

func (n *notes) Errorf(format string, args ...any) { n.text += fmt.Sprintf(format, args...) }

func (n *notes) Fatalf(format string, args ...any) { n.Errorf(format, args...) }

// object returns a parent in the namespace default.
func object(t resource.Type, name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": t.APIVersion, "kind": t.Kind,
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     spec,
	}
}

func clusterGrows(s *testkit.Scenario) {
	s.Create(object(clusterOperator.Parent, "db", map[string]any{"members": 2}))
	s.Update(object(clusterOperator.Parent, "db", map[string]any{"members": 3}))
}

// comeAndGo creates parents, and deletes all but the last of them. Each has an entry in a registry.
func comeAndGo(parent resource.Type, r *registry) func(*testkit.Scenario) {
	return func(s *testkit.Scenario) {
		s.External(r)
		for _, name := range []string{"a", "b", "c", "d"} {
			s.Create(object(parent, name, nil))
		}
		for _, name := range []string{"a", "b", "c"} {
			s.Delete(object(parent, name, nil))
		}
		s.Finally(r.onePer(parent))
	}
}

func releasesOfTwoTeams(s *testkit.Scenario) {
	settings := map[string]any{"color": "red"}
	s.Create(object(releaseOperator.Parent, "first", map[string]any{"team": "a-b", "app": "c", "settings": settings}))
	s.Create(object(releaseOperator.Parent, "second", map[string]any{"team": "a", "app": "b-c", "settings": settings}))
}

func twoTunnels(s *testkit.Scenario) {
	s.Create(object(tunnelOperator.Parent, "a", nil))
	s.Create(object(tunnelOperator.Parent, "b", nil))
}

func siteMoves(s *testkit.Scenario) {
	s.Create(object(siteOperator.Parent, "home", map[string]any{"host": "example.com", "backend": "http://web"}))
	s.Update(object(siteOperator.Parent, "home", map[string]any{"host": "example.com", "backend": "http://web-2"}))
}

func appWithSettings(s *testkit.Scenario) {
	s.Create(object(appOperator.Parent, "web", map[string]any{
		"image":    "example.com/web:1",
		"settings": map[string]any{"color": "red", "cache": "on", "debug": "off", "level": "warn", "mode": "fast", "zone": "a"},
	}))
}

func twoAccounts(r *registry) func(*testkit.Scenario) {
	return func(s *testkit.Scenario) {
		s.External(r)
		s.Ignore("status", "number") // which of them is the first is a matter of chance
		s.Create(object(accountOperator.Parent, "a", nil))
		s.Create(object(accountOperator.Parent, "b", nil))
		s.Finally(r.onePer(accountOperator.Parent))
	}
}

func workspaceBegins(s *testkit.Scenario) {
	s.Create(object(workspaceOperator.Parent, "desk", map[string]any{"language": "en"}))
}

func networkMoves(s *testkit.Scenario) {
	network := func(domain string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "network", Namespace: "default"}, Data: map[string]string{"domain": domain}}
	}
	s.Create(network("old.example.com"))
	s.Create(object(gatewayOperator.Parent, "shop", map[string]any{"network": "network"}))
	s.Update(network("new.example.com"))
}

// policyStays has one version. With another one, which of them the handler meets would be a matter
// of chance, and Storm would say so before it says that there are too many.
func policyStays(s *testkit.Scenario) {
	s.Create(object(policyOperator.Parent, "rules", map[string]any{"text": "no dogs"}))
}

func twoHosts(r *registry) func(*testkit.Scenario) {
	return func(s *testkit.Scenario) {
		s.External(r)
		s.Create(object(hostOperator.Parent, "a", nil))
		s.Create(object(hostOperator.Parent, "b", nil))
		s.Finally(r.onePer(hostOperator.Parent))
	}
}

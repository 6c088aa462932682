package security

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/runner"
)

// Without the right to write Events an operator works, and one line of the log names the rule
// to add. In a namespace that doesn't exist there is nothing to do, and the log says so.
func TestRights_ForbiddenEventsAndAMisspeltNamespace(t *testing.T) {
	t.Parallel()
	kit := bystander(t, "rights-events")
	everything := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	user := userWith(t, kit.Namespace, "rights-events-user",
		ruleOf(parentType.GroupVersionKind().Group, "parents", everything...), ruleOf(parentType.GroupVersionKind().Group, "parents/status", "update"),
		ruleOf(parentType.GroupVersionKind().Group, "parents/finalizers", "update"),
		ruleOf("", "configmaps", everything...), ruleOf("", "secrets", everything...),
	)
	run := func(opts runner.Options, namespaces ...string) (logs *rig.Logs, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		logs, ended := &rig.Logs{}, make(chan error, 1)
		opts.Logger = slog.New(slog.NewTextHandler(logs, nil))
		cfg := operator("rights-events")
		cfg.Namespaces = namespaces
		go func() { ended <- runner.Run(ctx, cfg, handler.SyncFunc(naive), opts) }() // until stop
		return logs, func() {
			cancel()
			require.NoError(t, <-ended)
		}
	}
	logs, stop := run(runner.Options{RESTConfig: user}, kit.Namespace)
	kit.Create(parent("one", map[string]any{"child": child("ConfigMap", map[string]any{"name": "one"})}))
	kit.Create(parent("two", map[string]any{"child": child("ConfigMap", map[string]any{"name": "two"})}))
	const refused = `msg="Event not written"`
	eventually(t, "an Event is refused", func() bool { return strings.Contains(logs.String(), refused) })
	kit.Create(parent("three", map[string]any{"child": child("ConfigMap", map[string]any{"name": "three"})}))
	eventually(t, "the others are served", func() bool { return strings.Count(logs.String(), "msg=synced") >= 3 })
	stop()
	require.Equal(t, 1, strings.Count(logs.String(), refused), logs.String())
	require.Contains(t, logs.String(), `cannot create resource \"events\" in API group \"events.k8s.io\" in the namespace \"`+kit.Namespace+
		`\"; add the rule {apiGroups: [\"events.k8s.io\"], resources: [\"events\"], verbs: [\"create\"]}`)
	require.Contains(t, logs.String(), `events.events.k8s.io: create, patch are forbidden in the namespace `+kit.Namespace+`; add the rule`, "the start says it, too")
	require.NotContains(t, logs.String(), "restricted to namespaces")
	require.NotContains(t, logs.String(), "level=ERROR")

	logs, stop = run(runner.Options{RESTConfig: cluster.RESTConfig()}, "nope-"+kit.Namespace, kit.Namespace)
	eventually(t, "the log names the namespace, beside the start", func() bool {
		return strings.Contains(logs.String(), "namespaces=[nope-"+kit.Namespace+"]")
	})
	stop()
}

package readiness_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

type fields = map[string]any

// object returns an object at generation 2.
func object(t *testing.T, of resource.Type, spec, status any) *resource.Resource {
	t.Helper()
	res, err := resource.New(fields{
		"apiVersion": of.APIVersion, "kind": of.Kind, "spec": spec, "status": status,
		"metadata": fields{"name": "one", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 2},
	})
	require.NoError(t, err)
	return res
}

func conditions(generation int, of ...fields) fields {
	out := fields{"conditions": of}
	if generation > 0 {
		out["observedGeneration"] = generation
	}
	return out
}

func condition(name, status string) fields {
	return fields{"type": name, "status": status, "reason": "Because", "message": "so it is"}
}

func TestOf(t *testing.T) {
	part := resource.Type{APIVersion: "example.com/v1", Kind: "Part"}
	deployed := func(of fields) fields {
		out := fields{
			"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
			"conditions": []any{condition("Available", "True"), fields{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}},
		}
		maps.Copy(out, of)
		return out
	}
	three := fields{"replicas": 3, "progressDeadlineSeconds": 600}
	for name, tc := range map[string]struct {
		reason       string
		of           resource.Type
		spec, status any
		want         readiness.State
		message      string
	}{
		"Deployment":            {"it has rolled out", k8s.Deployment, three, deployed(nil), readiness.Current, "Deployment is available. Replicas: 3"},
		"DeploymentNew":         {"nobody has looked at it", k8s.Deployment, three, nil, readiness.InProgress, "0 of 3 replicas exist"},
		"DeploymentOld":         {"the status is of an old generation", k8s.Deployment, three, deployed(fields{"observedGeneration": 1}), readiness.InProgress, "Deployment generation is 2, but latest observed generation is 1"},
		"DeploymentRolls":       {"the message is a sentence", k8s.Deployment, three, deployed(fields{"updatedReplicas": 1}), readiness.InProgress, "1 of 3 replicas updated"},
		"DeploymentUnavailable": {"the message is a sentence", k8s.Deployment, three, deployed(fields{"availableReplicas": 2}), readiness.InProgress, "2 of 3 replicas are available"},
		"DeploymentStands": {
			"the deadline has passed", k8s.Deployment, three,
			deployed(fields{"conditions": []any{fields{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}}), readiness.Failed, "Progress deadline exceeded",
		},
		"ConfigMap":       {"nothing can be in its way", k8s.ConfigMap, nil, nil, readiness.Current, "Resource is always ready"},
		"Claim":           {"it waits for a volume", k8s.PersistentVolumeClaim, fields{}, fields{"phase": "Pending"}, readiness.InProgress, "PVC is not Bound. phase: Pending"},
		"JobRuns":         {"as kstatus has it", k8s.Job, fields{}, fields{"startTime": "2026-01-01T00:00:00Z", "active": 1}, readiness.Current, "Job in progress. success:0, active: 1, failed: 0"},
		"JobFailed":       {"it has given up", k8s.Job, fields{}, fields{"failed": 1, "conditions": []any{condition("Failed", "True")}}, readiness.Failed, "Job Failed. failed: 1/1"},
		"PodUnknown":      {"its node is lost", k8s.Pod, fields{}, fields{"phase": "Unknown"}, readiness.Unknown, "unknown phase Unknown"},
		"Custom":          {"nothing says otherwise", part, fields{}, nil, readiness.Current, "Resource is current"},
		"CustomReady":     {"a condition says so", part, fields{}, conditions(2, condition("Ready", "True")), readiness.Current, "Resource is Ready"},
		"CustomNotReady":  {"a condition says so", part, fields{}, conditions(2, condition("Ready", "False")), readiness.InProgress, "so it is"},
		"CustomUnknown":   {"a condition says so", part, fields{}, conditions(2, condition("Ready", "Unknown")), readiness.InProgress, "so it is"},
		"CustomOld":       {"a condition of an old generation doesn't count", part, fields{}, conditions(1, condition("Ready", "True")), readiness.InProgress, "Part generation is 2, but latest observed generation is 1"},
		"CustomProgress":  {"it goes before Ready", part, fields{}, conditions(2, condition("Ready", "True"), condition("Reconciling", "True")), readiness.InProgress, "so it is"},
		"CustomStalled":   {"a condition says so", part, fields{}, conditions(2, condition("Stalled", "True")), readiness.Failed, "so it is"},
		"CustomNoMessage": {"a message is never empty", part, fields{}, conditions(2, fields{"type": "Stalled", "status": "True"}), readiness.Failed, "its conditions don't say more"},

		"StatusIsText":       {"an odd status is no panic", part, fields{}, "done", readiness.Unknown, ""},
		"ConditionsAreText":  {"an odd status is no panic", part, fields{}, fields{"conditions": "done"}, readiness.Unknown, ""},
		"GenerationIsText":   {"an odd status is no panic", part, fields{}, fields{"observedGeneration": "two"}, readiness.Unknown, ""},
		"GenerationIsHalf":   {"an odd status is no panic", part, fields{}, fields{"observedGeneration": 1.5}, readiness.Unknown, ""},
		"ContainersAreTexts": {"kstatus panics", k8s.Pod, fields{}, fields{"phase": "Running", "containerStatuses": []any{"a"}}, readiness.Unknown, "the status of the Pod can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			got := readiness.Of(object(t, tc.of, tc.spec, tc.status))
			require.Equal(t, tc.want, got.State, "%s: %s", tc.reason, got.Message)
			require.NotEmpty(t, got.Message)
			if tc.message != "" {
				require.Equal(t, tc.message, got.Message)
			}
		})
	}
}

// What is being deleted is that, whatever its status says.
func TestOf_Terminating(t *testing.T) {
	res, err := resource.New(fields{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": fields{"name": "one", "uid": "u", "resourceVersion": "1", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []any{"a/b"}},
	})
	require.NoError(t, err)
	require.Equal(t, readiness.Readiness{State: readiness.Terminating, Message: "being deleted"}, readiness.Of(res))
}

func TestOf_Nothing(t *testing.T) {
	require.Equal(t, readiness.Unknown, readiness.Of(nil).State)
}

// A Pod that no node takes has 15 seconds.
func TestOf_Unschedulable(t *testing.T) {
	pod := func(created time.Time) *resource.Resource {
		res, err := resource.New(fields{
			"apiVersion": "v1", "kind": "Pod", "spec": fields{},
			"metadata": fields{"name": "one", "namespace": "ns", "uid": "u", "resourceVersion": "1", "creationTimestamp": created.UTC().Format(time.RFC3339)},
			"status":   fields{"phase": "Pending", "conditions": []any{fields{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}}},
		})
		require.NoError(t, err)
		return res
	}
	require.Equal(t, readiness.InProgress, readiness.Of(pod(time.Now())).State)
	require.Equal(t, readiness.Failed, readiness.Of(pod(time.Now().Add(-time.Minute))).State)
}

func BenchmarkOf(b *testing.B) {
	res, err := resource.New(fields{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": fields{"name": "one", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1},
		"spec":     fields{"replicas": 1, "template": fields{"spec": fields{"containers": []any{fields{"name": "a", "image": "b", "env": []any{fields{"name": "c", "value": "d"}}}}}}},
		"status": fields{
			"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
			"conditions": []any{condition("Available", "True"), condition("Progressing", "True")},
		},
	})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		readiness.Of(res)
	}
}

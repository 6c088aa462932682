package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	then = "2026-01-01T00:00:00Z"
	noon = "2026-01-02T12:00:00Z"
)

func atNoon(t *testing.T) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, noon)
	require.NoError(t, err)
	return at.Add(300 * time.Millisecond).In(time.FixedZone("", 3600))
}

func statusWith(conditions ...any) map[string]any { return map[string]any{"conditions": conditions} }

func ready(status string, more ...string) map[string]any {
	out := map[string]any{"type": "Ready", "status": status, "reason": "R"}
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func TestCompleteConditions(t *testing.T) {
	complete := func(status, at string) map[string]any {
		return map[string]any{"type": "Ready", "status": status, "reason": "R", "message": "", "observedGeneration": int64(3), "lastTransitionTime": at}
	}
	for name, tc := range map[string]struct {
		reason       string
		live, status any
		want         any
	}{
		"New":         {"it is true since now", nil, statusWith(ready("True")), statusWith(complete("True", noon))},
		"Same":        {"it has been true for long", statusWith(complete("True", then)), statusWith(ready("True")), statusWith(complete("True", then))},
		"SameWords":   {"other words are no transition", statusWith(ready("True", "lastTransitionTime", then, "message", "old")), statusWith(ready("True")), statusWith(complete("True", then))},
		"Changed":     {"it is false since now", statusWith(complete("True", then)), statusWith(ready("False")), statusWith(complete("False", noon))},
		"Untimed":     {"the live one has no time", statusWith(ready("True")), statusWith(ready("True")), statusWith(complete("True", noon))},
		"OtherType":   {"by type", statusWith(map[string]any{"type": "Live", "status": "True", "lastTransitionTime": then}), statusWith(ready("True")), statusWith(complete("True", noon))},
		"Null":        {"as metav1.Condition without a time is encoded", nil, statusWith(map[string]any{"type": "Ready", "status": "True", "reason": "R", "lastTransitionTime": nil}), statusWith(complete("True", noon))},
		"Own":         {"what the handler says stays", nil, statusWith(map[string]any{"type": "A", "status": "B", "reason": "R", "message": "m", "observedGeneration": int64(1), "lastTransitionTime": then}), statusWith(map[string]any{"type": "A", "status": "B", "reason": "R", "message": "m", "observedGeneration": int64(1), "lastTransitionTime": then})},
		"NotOne":      {"a list of something else", nil, statusWith("a", map[string]any{"type": "A"}, map[string]any{"status": "A"}), statusWith("a", map[string]any{"type": "A"}, map[string]any{"status": "A"})},
		"NoList":      {"something else of that name", nil, map[string]any{"conditions": map[string]any{"a": "b"}}, map[string]any{"conditions": map[string]any{"a": "b"}}},
		"NoObject":    {"a status that is no object", nil, "text", "text"},
		"OddLive":     {"others have written the live one", statusWith("a", nil, map[string]any{"type": 1}), statusWith(ready("True")), statusWith(complete("True", noon))},
		"LiveNoList":  {"others have written the live one", map[string]any{"conditions": "a"}, statusWith(ready("True")), statusWith(complete("True", noon))},
		"OfManyZones": {"several of a type, in their order", statusWith(ready("True", "lastTransitionTime", then, "zone", "a"), ready("False", "lastTransitionTime", then, "zone", "b")), statusWith(ready("True"), ready("True")), statusWith(complete("True", then), complete("True", noon))},
	} {
		t.Run(name, func(t *testing.T) {
			new(ParentMemory).CompleteConditions(tc.status, tc.live, 3, atNoon(t))
			require.Equal(t, tc.want, tc.status, tc.reason)
		})
	}
}

// Types without generations have none, and who has no clock gives no time.
func TestCompleteConditions_LeavesOut(t *testing.T) {
	status := statusWith(ready("True"))
	new(ParentMemory).CompleteConditions(status, nil, 0, time.Time{})
	require.Equal(t, statusWith(ready("True", "message", "")), status)
}

// A time that was given is kept until the live condition changes: the write was refused, or
// the API server drops the time.
func TestCompleteConditions_GivesATimeOnce(t *testing.T) {
	var p ParentMemory
	timeOf := func(status string, live any, after time.Duration) any {
		want := statusWith(ready(status))
		p.CompleteConditions(want, live, 0, atNoon(t).Add(after))
		return want["conditions"].([]any)[0].(map[string]any)["lastTransitionTime"]
	}
	require.Equal(t, noon, timeOf("True", nil, 0))
	require.Equal(t, noon, timeOf("True", nil, time.Hour))
	require.Equal(t, "2026-01-02T14:00:00Z", timeOf("False", nil, 2*time.Hour), "it is another status")
	require.Equal(t, "2026-01-02T15:00:00Z", timeOf("True", nil, 3*time.Hour), "and again")
	pruned := statusWith(ready("True"))
	require.Equal(t, "2026-01-02T16:00:00Z", timeOf("True", pruned, 4*time.Hour), "the live one has changed")
	require.Equal(t, "2026-01-02T16:00:00Z", timeOf("True", pruned, 5*time.Hour))
	require.Equal(t, then, timeOf("True", statusWith(ready("True", "lastTransitionTime", then)), 6*time.Hour))
	require.Nil(t, p.conditions, "nothing is left to remember")
}

func TestCheckConditions(t *testing.T) {
	require.NoError(t, CheckConditions(nil))
	require.NoError(t, CheckConditions(statusWith(ready("True"), "a", map[string]any{"type": "A"})))
	require.EqualError(t, CheckConditions(statusWith(ready("True"), map[string]any{"type": "Live", "status": "True"})),
		"conditions[1]: Live: reason: missing; every condition needs one, a word in CamelCase")
	require.Error(t, CheckConditions(statusWith(ready("True", "reason", ""))), "metav1.Condition encodes an empty one")
	require.NoError(t, CheckConditions(statusWith(map[string]any{"type": "A", "status": "True", "reason": int64(1)})), "the API server says what is wrong with that")
}

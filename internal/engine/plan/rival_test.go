package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

func TestRivalOf(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	want := desiredOf(t, s, parent, testConfigMap("v"))
	markPath := `"f:metadata":{"f:annotations":{"f:` + s.Mark + `":{}}}`
	entry := func(manager, fields string, minute int) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(int64(60*minute), 0))
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", Time: &at, FieldsV1: metav1.NewFieldsV1("{" + fields + "}")}
	}
	entries := func(all ...metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry { return all }
	status := entry("kubelet", `"f:status":{}`, 9)
	status.Subresource = "status"
	ours := s.Config.Name
	drift := []merge.Difference{{Path: "data.k", Live: "theirs", Desired: "v"}}
	for name, tc := range map[string]struct {
		reason  string
		verb    Verb
		diffs   []merge.Difference
		marked  any // the desired child of which the mark tells
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"another manager": {
			"who owns the field is named", VerbUpdate, drift, testConfigMap("v"),
			entries(entry(ours, markPath, 1), entry("kubectl-edit", `"f:data":{"f:k":{}}`, 2), entry("hpa", `"f:data":{"f:other":{}}`, 3), status), `the field manager "kubectl-edit" does that (Update)`,
		},
		"two managers": {
			"the later one", VerbUpdate, drift, testConfigMap("v"),
			entries(entry("b", `"f:data":{"f:k":{}}`, 3), entry("a", `"f:data":{"f:k":{}}`, 2)), `the field manager "b" does that (Update)`,
		},
		"namesake": {
			"the field is this operator's, and the value isn't", VerbUpdate, drift, testConfigMap("v"),
			entries(entry(ours, `"f:data":{"f:k":{}},`+markPath, 2)), "another process",
		},
		"namesake that drops a field": {
			"nobody owns what isn't there, but the mark is another one", VerbUpdate, []merge.Difference{{Path: "data.k", Desired: "v"}}, testConfigMap("w"),
			entries(entry(ours, `"f:data":{},`+markPath, 2)), "another process",
		},
		"a field that somebody removed": {
			"nobody knows who, and it isn't said to be a namesake", VerbUpdate, []merge.Difference{{Path: "data.k", Desired: "v"}}, testConfigMap("v"),
			entries(entry(ours, markPath, 2)), "",
		},
		"a field that another removed": {
			"who has written last", VerbUpdate, []merge.Difference{{Path: "data.k", Desired: "v"}}, testConfigMap("v"),
			entries(entry(ours, markPath, 2), entry("kubectl", `"f:data":{"f:x":{}}`, 3), status), `the field manager "kubectl" does that (Update)`,
		},
		"a child of a namesake": {
			"this process never made it", VerbDelete, nil, testConfigMap("v"), entries(entry("kubectl", `"f:data":{}`, 3), entry(ours, markPath, 2)), "another process",
		},
		"a child of somebody": {
			"who has written it last", VerbDelete, nil, testConfigMap("v"), entries(entry("kubectl", `"f:data":{}`, 3)), `the field manager "kubectl" does that (Update)`,
		},
		"no managedFields": {"the server drops them on large objects", VerbUpdate, drift, testConfigMap("v"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Action{Verb: tc.verb, Kind: want.kind, Ref: want.ref, Live: lived(t, s, parent, tc.marked, nil), Diffs: tc.diffs, Restores: tc.verb != VerbDelete}
			if tc.verb != VerbDelete {
				a.Want = want
			}
			require.True(t, a.Contested(false))
			got := RivalOf(s, a, tc.entries, ours).String(ours, want.kind)
			if tc.want == "" {
				require.Empty(t, got, tc.reason)
				return
			}
			require.Contains(t, got, tc.want, tc.reason)
		})
	}
	secret := desiredOf(t, secretSettings(config.Replace), parent, secretOf(nil)).kind
	require.NotContains(t, Rival{Manager: "hunter2", Operation: "hunter2"}.String(ours, secret), "hunter2", "whoever writes a Secret chooses that name")
	require.Contains(t, Rival{Namesake: true}.String(ours, secret), "another process")
	require.False(t, (&Action{Verb: VerbDelete, Live: parent}).Contested(true), "the handler doesn't want what it has wanted")
	require.False(t, (&Action{Verb: VerbCreate, Want: want, Restores: true}).Contested(false), "there is nothing to look at")

	later := entry("other", `"f:status":{}`, 9)
	later.Subresource = "status"
	earlier := entry(ours, `"f:status":{}`, 8)
	earlier.Subresource = "status"
	require.Equal(t, Rival{Manager: "other", Operation: "Update"}, StatusRivalOf(entries(earlier, later, entry("x", "", 20)), ours))
	require.True(t, StatusRivalOf(entries(earlier), ours).Namesake)
	require.Empty(t, StatusRivalOf(nil, ours))
}

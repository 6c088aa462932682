package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

func TestWrittenFields(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.Deployment, Strategy: config.Replace}, config.Child{Type: k8s.Secret, Strategy: config.Replace})
	entry := func(manager, subresource, fields string, minute int) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(int64(60*minute), 0))
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", Subresource: subresource, Time: &at, FieldsV1: metav1.NewFieldsV1("{" + fields + "}")}
	}
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	image := `"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}}}`
	side := `"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"side\"}":{".":{},"f:image":{}}}}}}`
	replicas := `"f:spec":{"f:replicas":{}}`
	imageDiff := merge.Difference{Path: `spec.template.spec.containers[name="main"].image`, Live: "b", Desired: "a"}
	for name, tc := range map[string]struct {
		reason  string
		secret  bool
		diff    merge.Difference
		entries []metav1.ManagedFieldsEntry
		by      *Writer
		perhaps *Writer
	}{
		"KeyedItem": {
			"the item is found by its key", false, imageDiff, []metav1.ManagedFieldsEntry{entry("a", "", side, 3), entry("b", "", image, 2)},
			&Writer{Manager: "b", Operation: "Update", Time: at(2)}, nil,
		},
		"Shared": {
			"of several the one that wrote last", false, imageDiff, []metav1.ManagedFieldsEntry{entry("a", "", image, 3), entry("b", "", image, 2)},
			&Writer{Manager: "a", Operation: "Update", Time: at(3)}, nil,
		},
		"Scale": {
			"a subresource writes fields of the object", false, merge.Difference{Path: "spec.replicas", Live: int64(5), Desired: int64(2)},
			[]metav1.ManagedFieldsEntry{entry("hpa", "scale", replicas, 2), entry(s.Config.Name, "", image, 9)}, &Writer{Manager: "hpa", Operation: "Update", Subresource: "scale", Time: at(2)}, nil,
		},
		"Self": {
			"the desired state has changed since", false, imageDiff, []metav1.ManagedFieldsEntry{entry(s.Config.Name, "", image, 1)},
			&Writer{Manager: s.Config.Name, Operation: "Update", Time: at(1), Self: true}, nil,
		},
		"Exact": {
			"who owns the field counts, not who has written beside it since", false, merge.Difference{Path: "spec.replicas", Live: int64(5), Desired: int64(2)},
			[]metav1.ManagedFieldsEntry{entry("a", "", replicas, 1), entry("b", "", `"f:spec":{"f:paused":{}}`, 9)}, &Writer{Manager: "a", Operation: "Update", Time: at(1)}, nil,
		},
		"Inside": {
			"of a whole object it is who owns something in it", false, merge.Difference{Path: "spec.strategy", Live: map[string]any{"type": "x"}, Desired: map[string]any{"type": "y"}},
			[]metav1.ManagedFieldsEntry{entry("a", "", `"f:spec":{"f:strategy":{"f:type":{}}}`, 4)}, &Writer{Manager: "a", Operation: "Update", Time: at(4)}, nil,
		},
		"Removed": {
			"nobody owns what isn't there: perhaps it was the last other writer", false, merge.Difference{Path: "spec.replicas", Desired: int64(2)},
			[]metav1.ManagedFieldsEntry{entry(s.Config.Name, "", image, 9), entry("b", "", image, 3), entry("kubelet", "status", `"f:status":{}`, 8)}, nil, &Writer{Manager: "b", Operation: "Update", Time: at(3)},
		},
		"Nobody": {"the API server has dropped managedFields", false, imageDiff, nil, nil, nil},
		"Broken": {"what can't be read tells nothing", false, imageDiff, []metav1.ManagedFieldsEntry{entry(s.Config.Name, "", `"x`, 1)}, nil, nil},
		"Secret": {
			"the name of another manager may quote it", true, merge.Difference{Path: "data.password", Live: "b", Desired: "a"},
			[]metav1.ManagedFieldsEntry{entry("b", "", `"f:data":{"f:password":{}}`, 1)}, &Writer{Manager: Hidden, Operation: "Update", Time: at(1)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := s.Types.Of(k8s.Deployment)
			live, desired := tc.diff.Live, tc.diff.Desired
			if tc.secret {
				kind, live, desired = s.Types.Of(k8s.Secret), Hidden, Hidden
			}
			got := WrittenFields(&Action{Kind: kind, Diffs: []merge.Difference{tc.diff}}, tc.entries, s.Config.Name)
			require.Equal(t, []WrittenField{{FieldChange{tc.diff.Path, live, desired}, tc.by, tc.perhaps}}, got, tc.reason)
		})
	}
}

package plan

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// The children of a rollout, by letters: o is outdated, n has the new desired state, d has it and
// differs (somebody has changed it); a capital is Current. x doesn't exist, w doesn't, since it
// waits, a doesn't, which is created after the first, and t is being deleted. The result has the
// letters u of a child that is updated, c of one that is created, q of one that is queued, and - of
// all others.
func TestBuild_Roll(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		roll     config.Roll
		updated  any // the value of the partition's field
		children string
		want     string
	}{
		"None":            {"nothing is outdated", config.Roll{}, nil, "NNn", "---"},
		"First":           {"one at a time", config.Roll{}, nil, "OOO", "uqq"},
		"Two":             {"as many as may be", config.Roll{MaxUnavailable: "2"}, nil, "OOO", "uuq"},
		"Share":           {"rounded down", config.Roll{MaxUnavailable: "50%"}, nil, "OOOOO", "uuqqq"},
		"SmallShare":      {"never none", config.Roll{MaxUnavailable: "1%"}, nil, "OOO", "uqq"},
		"Waits":           {"the first isn't ready", config.Roll{}, nil, "nOO", "-qq"},
		"GoesOn":          {"the first is ready", config.Roll{}, nil, "NOO", "-uq"},
		"Stands":          {"a child that has the new state breaks", config.Roll{}, nil, "NnO", "--q"},
		"Broken":          {"what isn't ready goes first", config.Roll{}, nil, "OoO", "quq"},
		"BrokenFirst":     {"and takes the place of others", config.Roll{MaxUnavailable: "2"}, nil, "OOoO", "uquq"},
		"AllBroken":       {"what they are given may be what breaks them", config.Roll{MaxUnavailable: "2"}, nil, "oooo", "uuqq"},
		"BrokenAndNew":    {"the one that has it may break as well", config.Roll{}, nil, "no", "-q"},
		"ManyBroken":      {"no other becomes unavailable", config.Roll{MaxUnavailable: "3"}, nil, "oonOOO", "uu-qqq"},
		"Terminating":     {"it isn't Current", config.Roll{}, nil, "tO", "-q"},
		"Missing":         {"it isn't Current when it is created", config.Roll{}, nil, "xO", "cq"},
		"Gated":           {"it isn't meant to be there", config.Roll{}, nil, "wO", "-u"},
		"NotGatedAnyMore": {"a restarted operator may have deleted it", config.Roll{}, nil, "NaO", "-cq"},
		"GatedByBroken":   {"that one isn't Current", config.Roll{}, nil, "naO", "--q"},
		"GatedByOutdated": {"it must not hold up what it waits for", config.Roll{}, nil, "oa", "u-"},
		"GatedByKept":     {"that one isn't to be written", config.Roll{Partition: "spec.updated"}, 1, "OaO", "-cq"},
		"GatedByCurrent":  {"that one can wait", config.Roll{}, nil, "Oa", "qc"},
		"GatedByQueued":   {"and so can others", config.Roll{}, nil, "Ooa", "qqc"},
		"GatedByTaken":    {"that one isn't ready any more", config.Roll{MaxUnavailable: "2"}, nil, "Oa", "u-"},
		"Drift":           {"it is corrected at once, and counts", config.Roll{}, nil, "DO", "uq"},
		"DriftUnlimited":  {"correcting isn't bounded", config.Roll{}, nil, "nDDO", "-uuq"},
		"Partition":       {"the last ones", config.Roll{MaxUnavailable: "9", Partition: "spec.updated"}, 2, "OOOO", "--uu"},
		"PartitionNone":   {"none at all", config.Roll{Partition: "spec.updated"}, 0, "OO", "--"},
		"PartitionMore":   {"all there are", config.Roll{Partition: "spec.updated"}, 9, "OO", "uq"},
		"PartitionAbsent": {"all", config.Roll{Partition: "spec.updated"}, nil, "OO", "uq"},
		"PartitionBad":    {"CheckPartitions tells", config.Roll{Partition: "spec.updated"}, "x", "OO", "--"},
		"PartitionDown":   {"whatever isn't Current counts", config.Roll{Partition: "spec.updated"}, 1, "oO", "-q"},
		"PartitionMend":   {"but nothing that isn't to be mended", config.Roll{Partition: "spec.updated"}, 1, "oo", "-u"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, rolled(t, tc.roll, tc.updated, tc.children), tc.reason)
		})
	}
}

// rolled returns what becomes of the children, in letters.
func rolled(t *testing.T, roll config.Roll, updated any, children string) string {
	t.Helper()
	s := settings.For(config.Child{Type: k8s.Deployment, Strategy: config.Replace, Roll: &roll})
	parent := ofStatus(t, sample.ParentType(), "p", nil, nil)
	if updated != nil {
		var err error
		parent, err = resource.New(map[string]any{
			"apiVersion": parent.Type().APIVersion, "kind": parent.Type().Kind, "metadata": map[string]any{"name": "p", "namespace": "ns", "uid": "uid-p", "resourceVersion": "1"},
			"spec": map[string]any{"updated": updated},
		})
		require.NoError(t, err)
	}
	memory := &ParentMemory{}
	desire := func(value string) []*Desired {
		var returned []any
		first := shipOf(0, value)
		for i, c := range children {
			var child any = shipOf(i, value)
			if c == 'w' {
				child = handler.When(child, false)
			}
			if c == 'a' {
				child = handler.After(child, first)
			}
			returned = append(returned, child)
		}
		desired, err := Desire(s, parent, returned, memory)
		require.NoError(t, err)
		require.NoError(t, FindNeeds(s, parent, desired, returned, Needed{}))
		return desired
	}
	former, desired := desire("old"), desire("new")
	in := Input{Parent: parent, Desired: desired, Memory: memory, Now: time.Now()}
	for i, c := range children {
		switch c {
		case 'x', 'w', 'a':
			continue
		case 'o', 'O':
			in.Children = append(in.Children, shipLive(t, i, "old", c == 'O', false))
			memory.Accept(former[i], in.Children[len(in.Children)-1], nil)
		default:
			value := "new"
			if c == 'd' || c == 'D' {
				value = "changed"
			}
			in.Children = append(in.Children, shipLive(t, i, value, c < 'a', c == 't'))
			memory.Accept(desired[i], in.Children[len(in.Children)-1], nil)
			if value == "changed" {
				in.Children[len(in.Children)-1] = withVersion(t, in.Children[len(in.Children)-1], "8")
			}
		}
	}
	p := Build(s, in)
	out := make([]byte, len(children))
	for i := range out {
		ref := object.Ref{Type: k8s.Deployment, Key: desired[i].ref.Key}
		out[i] = '-'
		for _, a := range p.Writes {
			if a.Ref == ref && a.Verb != VerbMark {
				out[i] = a.Verb[0]
			}
		}
		for _, q := range p.Queued {
			if q.Ref == ref {
				require.Equal(t, byte('-'), out[i])
				require.NotEmpty(t, q.For)
				require.NotContains(t, q.For, ref)
				require.Contains(t, q.String(), "waits for Deployment ns/s-")
				out[i] = 'q'
			}
		}
	}
	require.Empty(t, p.Refused)
	return string(out)
}

func shipOf(i int, value string) map[string]any {
	d := plain(k8s.Deployment, fmt.Sprintf("s-%02d", i))
	d["spec"] = map[string]any{"replicas": 1, "minReadySeconds": 0, "paused": false, "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"v": value}}}}
	return d
}

func shipLive(t *testing.T, i int, value string, ready, deleting bool) *resource.Resource {
	t.Helper()
	d := shipOf(i, value)
	meta := d["metadata"].(map[string]any)
	maps.Copy(meta, map[string]any{"namespace": "ns", "uid": fmt.Sprint("uid-", i), "resourceVersion": "7", "generation": 1, "ownerReferences": []any{ownerOfP()}})
	if deleting {
		meta["deletionTimestamp"], meta["finalizers"] = "2026-01-01T00:00:00Z", []any{"a/b"}
	}
	available := 0
	if ready {
		available = 1
	}
	d["status"] = map[string]any{
		"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": available, "availableReplicas": available,
		"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
	}
	res, err := resource.New(d)
	require.NoError(t, err)
	return res
}

func ownerOfP() map[string]any {
	of := sample.ParentType()
	return map[string]any{"apiVersion": of.APIVersion, "kind": of.Kind, "name": "p", "uid": "uid-p", "controller": true, "blockOwnerDeletion": true}
}

func withVersion(t *testing.T, res *resource.Resource, version string) *resource.Resource {
	t.Helper()
	object := res.Unstructured().Object
	object["metadata"].(map[string]any)["resourceVersion"] = version
	out, err := resource.New(object)
	require.NoError(t, err)
	return out
}

func TestQueued_String(t *testing.T) {
	q := Queued{}
	for i := range 5 {
		q.For = append(q.For, object.Ref{Type: k8s.Pod, Key: object.RefOf(sample.Object(t, k8s.Pod, fmt.Sprint("p", i), "u", 1, "")).Key})
	}
	require.Equal(t, "waits for Pod ns/p0, Pod ns/p1, Pod ns/p2 and 2 more", q.String())
}

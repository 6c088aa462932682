package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

func TestMemoryExceptions(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("1000m")}, &ParentMemory{})
	require.NoError(t, err)
	d := desired[0]
	m := NewMemory()
	p := m.Of("p")
	require.Same(t, p, m.Of("p"))
	normalized := merge.Difference{Path: "data.k", Live: "1", Desired: "1000m"}
	explains := func(c *childMemory, d merge.Difference) bool {
		explained, others := c.split([]merge.Difference{d})
		require.Len(t, append(explained, others...), 1)
		return len(explained) == 1
	}
	live := lived(t, s, parent, testConfigMap("1"), nil)
	p.Accept(d, live, []merge.Difference{normalized})
	known := p.child(d.ref, "uid")

	for name, tc := range map[string]struct {
		reason string
		diff   merge.Difference
		want   bool
	}{
		"the same":       {"the server made this of it", normalized, true},
		"live changed":   {"somebody has changed it", merge.Difference{Path: "data.k", Live: "2", Desired: "1000m"}, false},
		"desired":        {"the handler wants something else", merge.Difference{Path: "data.k", Live: "1", Desired: "2000m"}, false},
		"another field":  {"that one was taken as it is", merge.Difference{Path: "data.x", Live: "1", Desired: "1000m"}, false},
		"to be removed":  {"what shall go was never accepted", merge.Difference{Path: "data.k", Live: "1", Desired: "1000m", Removed: true}, false},
		"nothing stored": {"an absent value is a value too", merge.Difference{Path: "data.k", Desired: "1000m"}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, explains(known, tc.diff), tc.reason) })
	}
	require.False(t, explains(nil, normalized))
	require.Nil(t, p.child(d.ref, "another"), "another object under the name")
	require.True(t, known.settled(d, live))

	newer := lived(t, s, parent, testConfigMap("1"), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["resourceVersion"] = "11"
	})
	require.False(t, known.settled(d, newer))
	p.Carry(&Action{Want: d, Live: newer})
	require.True(t, p.child(d.ref, "uid").settled(d, newer))
	require.True(t, explains(p.child(d.ref, "uid"), normalized), "what is known of normalized fields stays")

	p.KeepOnly(desired)
	require.NotNil(t, p.child(d.ref, "uid"))
	p.KeepOnly(nil)
	require.Nil(t, p.child(d.ref, "uid"), "dropped with the child")
	p.KeepOnly(nil)
	m.Forget("p")
	require.NotSame(t, p, m.Of("p"))
}

func TestMark(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	good, hash := newMark(s, desired[0]), desired[0].hash.String()
	head, _, _ := strings.Cut(good, hash)
	for name, tc := range map[string]struct {
		reason, text string
		hash         jsonvalue.Digest
	}{
		"as written":   {"read back", good, desired[0].hash},
		"none":         {"a mark of nothing", "", jsonvalue.Digest{}},
		"another kind": {"of a later version, perhaps", "v9:" + hash + ":data{k}", jsonvalue.Digest{}},
		"no paths":     {"cut short", head + hash, jsonvalue.Digest{}},
		"no hash":      {"cut short", "v2", jsonvalue.Digest{}},
		"half a hash":  {"cut short", head + hash[:16] + ":data{k}", jsonvalue.Digest{}},
		"broken hash":  {"tampered with", head + hash[1:] + "x:data{k}", jsonvalue.Digest{}},
		"broken paths": {"tampered with", head + hash + ":{{{{", jsonvalue.Digest{}},
		"too long":     {"tampered with", head + hash + ":" + strings.Repeat("x", 3*maxMark), jsonvalue.Digest{}},
		"foreign":      {"another operator's", strings.Replace(good, s.Config.Name, "other", 1), jsonvalue.Digest{}},
		"copied": {
			"made for another child of this operator", strings.Replace(good, markedName(desired[0].ref), "1234", 1), jsonvalue.Digest{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["annotations"] = map[string]any{s.Mark: tc.text}
				if tc.text == "" {
					delete(meta, "annotations")
				}
			})
			m := readMark(s, live)
			require.Equal(t, tc.hash, m.hash, tc.reason)
			if tc.hash == (jsonvalue.Digest{}) {
				require.Nil(t, m.applied, tc.reason)
			}
		})
	}
}

func TestForeignMark(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	ours, hash := newMark(s, desired[0]), desired[0].hash.String()
	for name, tc := range map[string]struct {
		reason, annotation, text string
		maker                    string
		foreign, marked          bool
	}{
		"none":              {reason: "nothing is said", annotation: "a", text: "b"},
		"ours":              {reason: "the mark names this operator", annotation: s.Mark, text: ours, marked: true},
		"copied":            {reason: "this operator made it, for another object", annotation: s.Mark, text: "v2:" + s.Config.Name + ":0:" + hash + ":", marked: true},
		"another's":         {reason: "the mark names another operator", annotation: s.Mark, text: "v2:other:0:" + hash + ":", maker: "other", foreign: true},
		"elsewhere":         {reason: "an operator with another domain made it", annotation: "example.com/applied", text: "v2:other:0:" + hash + ":", maker: "other", foreign: true},
		"our former domain": {reason: "the mark names this operator", annotation: "example.com/applied", text: "v2:" + s.Config.Name + ":0:" + hash + ":"},
		"no mark":           {reason: "an annotation of that name says something else", annotation: "example.com/applied", text: "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			live := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["annotations"] = map[string]any{tc.annotation: tc.text}
			})
			maker, foreign := ForeignMark(s, live)
			require.Equal(t, tc.foreign, foreign, tc.reason)
			require.Equal(t, tc.maker, maker, tc.reason)
			require.Equal(t, tc.marked, Marked(s, live), tc.reason)
		})
	}
}

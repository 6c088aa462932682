package plan

import (
	"errors"
	"fmt"
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
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, known.explains(tc.diff), tc.reason) })
	}
	require.False(t, (*childMemory)(nil).explains(normalized))
	require.Nil(t, p.child(d.ref, "another"), "another object under the name")
	require.True(t, known.settled(d, live))

	newer := lived(t, s, parent, testConfigMap("1"), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["resourceVersion"] = "11"
	})
	require.False(t, known.settled(d, newer))
	p.Carry(d, newer)
	require.True(t, p.child(d.ref, "uid").settled(d, newer))
	require.True(t, p.child(d.ref, "uid").explains(normalized), "what is known of normalized fields stays")

	p.KeepOnly(desired)
	require.NotNil(t, p.child(d.ref, "uid"))
	p.KeepOnly(nil)
	require.Nil(t, p.child(d.ref, "uid"), "dropped with the child")
	p.KeepOnly(nil)
	m.Forget("p")
	require.NotSame(t, p, m.Of("p"))
}

func TestMemoryIsBounded(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	var many []merge.Difference
	for i := range maxExceptions + 1 {
		many = append(many, merge.Difference{Path: fmt.Sprint("data.", i)})
	}
	p := NewMemory().Of("p")
	p.Accept(desired[0], lived(t, s, parent, testConfigMap("v"), nil), many)
	require.Empty(t, p.child(desired[0].ref, "uid").exceptions)
}

func TestMemoryRefusals(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	d, no := desired[0], errors.New("no")
	live := lived(t, s, parent, testConfigMap("v"), nil)
	p := NewMemory().Of("p")
	require.NoError(t, p.remembered(d).refuses(d, nil))
	p.Refuse(d, nil, no)
	require.Equal(t, no, p.remembered(d).refuses(d, nil))
	require.NoError(t, p.remembered(d).refuses(d, live), "it is there now")
	p.Refuse(d, live, no)
	require.Equal(t, no, p.remembered(d).refuses(d, live))
	require.NoError(t, p.remembered(d).refuses(d, nil), "it is gone now")
	p.Accept(d, live, nil)
	require.NoError(t, p.remembered(d).refuses(d, live))
}

func TestMark(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	good, hash := newMark(desired[0]), desired[0].hash.String()
	for name, tc := range map[string]struct {
		reason, text string
		hash         jsonvalue.Digest
	}{
		"as written":   {"read back", good, desired[0].hash},
		"none":         {"a mark of nothing", "", jsonvalue.Digest{}},
		"another kind": {"of a later version, perhaps", "v9:" + hash + ":data{k}", jsonvalue.Digest{}},
		"no paths":     {"cut short", "v1:" + hash, jsonvalue.Digest{}},
		"no hash":      {"cut short", "v1", jsonvalue.Digest{}},
		"half a hash":  {"cut short", "v1:" + hash[:16] + ":data{k}", jsonvalue.Digest{}},
		"broken hash":  {"tampered with", "v1:" + hash[1:] + "x:data{k}", jsonvalue.Digest{}},
		"broken paths": {"tampered with", "v1:" + hash + ":{{{{", jsonvalue.Digest{}},
		"too long":     {"tampered with", "v1:" + hash + ":" + strings.Repeat("x", 3*maxMark), jsonvalue.Digest{}},
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

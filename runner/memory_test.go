package runner

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource/k8s"
)

func TestMemoryExceptions(t *testing.T) {
	s := testSettings(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := testObject(t, testParentType(), "p", "p", 1, "")
	desired, err := s.desire(parent, []any{testConfigMap("1000m")}, &parentMemory{})
	require.NoError(t, err)
	d := desired[0]
	m := newMemory()
	p := m.of("p")
	require.Same(t, p, m.of("p"))
	normalized := difference{Path: "data.k", Live: "1", Desired: "1000m"}
	live := lived(t, s, parent, testConfigMap("1"), nil)
	p.accepted(d, live, []difference{normalized})
	known := p.child(d.ref, "uid")

	for name, tc := range map[string]struct {
		reason string
		diff   difference
		want   bool
	}{
		"the same":       {"the server made this of it", normalized, true},
		"live changed":   {"somebody has changed it", difference{Path: "data.k", Live: "2", Desired: "1000m"}, false},
		"desired":        {"the handler wants something else", difference{Path: "data.k", Live: "1", Desired: "2000m"}, false},
		"another field":  {"that one was taken as it is", difference{Path: "data.x", Live: "1", Desired: "1000m"}, false},
		"to be removed":  {"what shall go was never accepted", difference{Path: "data.k", Live: "1", Desired: "1000m", Removed: true}, false},
		"nothing stored": {"an absent value is a value too", difference{Path: "data.k", Desired: "1000m"}, false},
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
	p.carry(d, newer)
	require.True(t, p.child(d.ref, "uid").settled(d, newer))
	require.True(t, p.child(d.ref, "uid").explains(normalized), "what is known of normalized fields stays")

	p.children.keepOnly(desired)
	require.NotNil(t, p.child(d.ref, "uid"))
	p.children.keepOnly(nil)
	require.Nil(t, p.child(d.ref, "uid"), "dropped with the child")
	p.children.keepOnly(nil)
	m.forget("p")
	require.NotSame(t, p, m.of("p"))
}

func TestMemoryIsBounded(t *testing.T) {
	s := testSettings(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := testObject(t, testParentType(), "p", "p", 1, "")
	desired, err := s.desire(parent, []any{testConfigMap("v")}, &parentMemory{})
	require.NoError(t, err)
	var many []difference
	for i := range maxExceptions + 1 {
		many = append(many, difference{Path: fmt.Sprint("data.", i)})
	}
	p := newMemory().of("p")
	p.accepted(desired[0], lived(t, s, parent, testConfigMap("v"), nil), many)
	require.Empty(t, p.child(desired[0].ref, "uid").exceptions)
}

func TestMemoryRefusals(t *testing.T) {
	s := testSettings(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := testObject(t, testParentType(), "p", "p", 1, "")
	desired, err := s.desire(parent, []any{testConfigMap("v")}, &parentMemory{})
	require.NoError(t, err)
	d, no := desired[0], errors.New("no")
	live := lived(t, s, parent, testConfigMap("v"), nil)
	p := newMemory().of("p")
	require.NoError(t, p.remembered(d).refuses(d, nil))
	p.refuse(d, nil, no)
	require.Equal(t, no, p.remembered(d).refuses(d, nil))
	require.NoError(t, p.remembered(d).refuses(d, live), "it is there now")
	p.refuse(d, live, no)
	require.Equal(t, no, p.remembered(d).refuses(d, live))
	require.NoError(t, p.remembered(d).refuses(d, nil), "it is gone now")
	p.accepted(d, live, nil)
	require.NoError(t, p.remembered(d).refuses(d, live))
}

func TestMark(t *testing.T) {
	s := testSettings(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := testObject(t, testParentType(), "p", "p", 1, "")
	desired, err := s.desire(parent, []any{testConfigMap("v")}, &parentMemory{})
	require.NoError(t, err)
	good, hash := newMark(desired[0], nil), desired[0].hash.String()
	for name, tc := range map[string]struct {
		reason, text string
		hash         digest
	}{
		"as written":   {"read back", good, desired[0].hash},
		"none":         {"a mark of nothing", "", digest{}},
		"another kind": {"of a later version, perhaps", "v9:" + hash + ":data{k}", digest{}},
		"no paths":     {"cut short", "v1:" + hash, digest{}},
		"no hash":      {"cut short", "v1", digest{}},
		"half a hash":  {"cut short", "v1:" + hash[:16] + ":data{k}", digest{}},
		"broken hash":  {"tampered with", "v1:" + hash[1:] + "x:data{k}", digest{}},
		"broken paths": {"tampered with", "v1:" + hash + ":{{{{", digest{}},
		"too long":     {"tampered with", "v1:" + hash + ":" + strings.Repeat("x", 3*maxMark), digest{}},
	} {
		t.Run(name, func(t *testing.T) {
			live := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["annotations"] = map[string]any{s.mark: tc.text}
				if tc.text == "" {
					delete(meta, "annotations")
				}
			})
			m := s.readMark(live)
			require.Equal(t, tc.hash, m.hash, tc.reason)
			if tc.hash == (digest{}) {
				require.Nil(t, m.applied, tc.reason)
			}
		})
	}
}

package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

// TestDesireKnowsWhatItHasSeen: an answer that was given before is recognised
// by its bytes, wherever it stands, and nothing else is.
func TestDesireKnowsWhatItHasSeen(t *testing.T) {
	for _, n := range []int{1, fewChildren, fewChildren + 1, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Secret, Strategy: config.Replace})
			parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
			memory := &ParentMemory{}
			children := make([]any, n)
			for i := range children {
				cm := &corev1.ConfigMap{Data: map[string]string{"v": "1"}}
				cm.Name = fmt.Sprintf("c%d", i)
				children[i] = cm
			}
			first, err := Desire(s, parent, children, memory)
			require.NoError(t, err)
			for _, d := range first {
				require.NotNil(t, d.object, "nothing is known yet")
				memory.Accept(d, lived(t, s, parent, d.object, nil), nil)
			}
			memory.KeepOnly(first)

			again, err := Desire(s, parent, children, memory)
			require.NoError(t, err)
			for i, d := range again {
				require.Nil(t, d.object, "known by its sum alone")
				require.Equal(t, first[i].ref, d.ref)
				require.Equal(t, first[i].hash, d.hash)
				require.Same(t, first[i].kind, d.kind)
				require.NoError(t, d.load(s, parent))
				require.Equal(t, first[i].object, d.object, "and the same once it is needed")
			}

			changed, ok := children[n-1].(*corev1.ConfigMap)
			require.True(t, ok)
			changed.Data["v"] = "2"
			secret := &corev1.Secret{}
			secret.Name = "c0"
			later, err := Desire(s, parent, append([]any{secret}, children...), memory)
			require.NoError(t, err)
			require.NotNil(t, later[0].object, "new")
			require.NotNil(t, later[n].object, "changed")
			for _, d := range later[1:n] {
				require.Nil(t, d.object, "moved by one")
			}
			memory.KeepOnly(later[1:n])
			require.Len(t, memory.children.list, n-1)
			require.Nil(t, memory.children.of(later[n].ref))
			for _, d := range later[1:n] {
				require.Equal(t, d.ref, memory.children.of(d.ref).ref())
			}
		})
	}
}

// TestDesireTellsTypesApart: objects of two Go types may have the same JSON,
// since neither says what it is.
func TestDesireTellsTypesApart(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Secret, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	memory := &ParentMemory{}
	cm, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	cm.Name, secret.Name = "c", "c"
	first, err := Desire(s, parent, []any{cm}, memory)
	require.NoError(t, err)
	memory.Accept(first[0], lived(t, s, parent, first[0].object, nil), nil)
	second, err := Desire(s, parent, []any{secret}, memory)
	require.NoError(t, err)
	require.Equal(t, k8s.Secret, second[0].ref.Type)
}

// TestDuplicateOfAKnownChild: what was accepted once is refused twice.
func TestDuplicateOfAKnownChild(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	memory := &ParentMemory{}
	first, err := Desire(s, parent, []any{testConfigMap("v")}, memory)
	require.NoError(t, err)
	memory.Accept(first[0], lived(t, s, parent, first[0].object, nil), nil)
	_, err = Desire(s, parent, []any{testConfigMap("v"), testConfigMap("v")}, memory)
	require.ErrorContains(t, err, "return each child once")
}

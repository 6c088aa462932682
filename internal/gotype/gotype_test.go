package gotype

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type inner struct {
	Name   string `json:"name"`
	Shared int    `json:"shared"`
}

type outer struct {
	*inner
	metav1.TypeMeta `json:",inline"`
	Named           inner `json:"named"`
	Untagged        bool
	Left            string `json:"-"`
	private         string
	Shared          string `json:"shared"`
}

func TestFields(t *testing.T) {
	fields := Fields(reflect.TypeFor[outer]())
	require.Equal(t, []string{"Untagged", "apiVersion", "kind", "name", "named", "shared"}, slices.Sorted(maps.Keys(fields)))
	require.Equal(t, reflect.String, fields["shared"].Kind(), "the outer field hides the inner one")
	require.Empty(t, outer{}.private)
	require.Contains(t, Fields(reflect.TypeFor[corev1.Volume]()), "configMap", "of an embedded struct")
}

func TestEncodesItself(t *testing.T) {
	for name, tc := range map[string]struct {
		typ              reflect.Type
		encodes, decodes bool
	}{
		"struct":       {reflect.TypeFor[corev1.Pod](), false, false},
		"quantity":     {reflect.TypeFor[resource.Quantity](), true, true},
		"pointer":      {reflect.TypeFor[*resource.Quantity](), true, true},
		"port":         {reflect.TypeFor[intstr.IntOrString](), true, true},
		"by text":      {reflect.TypeFor[time.Time](), true, true},
		"named map":    {reflect.TypeFor[corev1.ResourceList](), false, false},
		"named text":   {reflect.TypeFor[corev1.PodPhase](), false, false},
		"an interface": {reflect.TypeFor[any](), false, false},
	} {
		require.Equal(t, tc.encodes, EncodesItself(tc.typ), name)
		require.Equal(t, tc.decodes, DecodesItself(tc.typ), name)
	}
}

package leave

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// kind is a type of the test.
func kind(name string) resource.Type { return resource.Type{APIVersion: "example.com/v1", Kind: name} }

// of returns an operator of a type of parents, with these types of children.
func of(parent resource.Type, children ...resource.Type) Operator {
	types := &catalog.Catalog{Parent: &catalog.Kind{Type: parent}}
	for _, c := range children {
		types.Children = append(types.Children, &catalog.Kind{Type: c})
	}
	return Operator{Settings: catalog.NewSettings(config.Operator{Name: parent.Kind, Parent: parent, Domain: "example.com"}, nil, types)}
}

func TestInOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		given  []Operator
		want   []string
	}{
		"Strangers": {"the order stays", []Operator{of(kind("A")), of(kind("B"))}, []string{"A", "B"}},
		"Chain":     {"who makes parents leaves before who has them", []Operator{of(kind("A")), of(kind("B"), kind("A")), of(kind("C"), kind("B"))}, []string{"C", "B", "A"}},
		"Circle":    {"there is no right order, but an end", []Operator{of(kind("A"), kind("B")), of(kind("B"), kind("A"))}, []string{"A", "B"}},
		"Itself":    {"a parent that is another one's child", []Operator{of(kind("A"), kind("A")), of(kind("B"), kind("A"))}, []string{"B", "A"}},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, o := range InOrder(tc.given) {
				names = append(names, o.name())
			}
			require.Equal(t, tc.want, names, tc.reason)
		})
	}
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		of     Operator
		how    How
		err    string
	}{
		"Own":        {"that is what uninstall is for", of(kind("A")), How{}, ""},
		"Built in":   {"they hold what people have", of(k8s.Namespace), How{}, "use --keep-parents"},
		"Its other":  {"another version is the same objects", of(resource.Type{APIVersion: "apps/v1beta1", Kind: "Deployment"}), How{}, "use --keep-parents"},
		"Kept":       {"nothing is deleted", of(k8s.Namespace), How{KeepParents: true}, ""},
		"Negative":   {"no time runs backwards", of(kind("A")), How{Drain: -1}, "--drain: -1ns is negative"},
		"Contradict": {"nothing of it is finalized", of(kind("A")), How{KeepParents: true, Finalize: true}, "contradict each other"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]Operator{tc.of}, tc.how)
			if tc.err == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.err, tc.reason)
		})
	}
}

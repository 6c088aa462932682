package storm

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func site() resource.Type { return resource.Type{APIVersion: "example.com/v1", Kind: "Site"} }

func aSite(namespace, name string) map[string]any {
	return map[string]any{"apiVersion": site().APIVersion, "kind": site().Kind, "metadata": map[string]any{"namespace": namespace, "name": name}}
}

func TestScenarioRefusesBadObjects(t *testing.T) {
	for verb, add := range map[string]func(*Scenario, any){
		"create": (*Scenario).Create,
		"update": (*Scenario).Update,
		"change": func(s *Scenario, obj any) { s.Change(obj, func(map[string]any) {}) },
		"delete": (*Scenario).Delete,
	} {
		for name, tc := range map[string]struct {
			reason string
			object any
		}{
			"Nil":       {"there is no object", nil},
			"NilTyped":  {"nor is there one in a pointer to none", (*corev1.ConfigMap)(nil)},
			"NoObject":  {"a text is none", "a"},
			"Channel":   {"this can't be written as JSON", map[string]any{"spec": make(chan int)}},
			"BadNumber": {"nor can this", map[string]any{"spec": func() {}}},
		} {
			t.Run(verb+" "+name, func(t *testing.T) {
				s := &Scenario{}
				add(s, tc.object)
				require.ErrorContains(t, s.err, "scenario: "+verb+": ", tc.reason)
				require.Empty(t, s.steps, "such a step can't be taken")
			})
		}
	}
}

func TestScenarioKeepsTheFirstMistake(t *testing.T) {
	s := &Scenario{}
	s.Create(configMap("ns", "a"))
	require.NoError(t, s.err, "a good step is no mistake")
	s.Delete(nil)
	s.Create(nil)
	s.Create(configMap("ns", "b"))
	require.ErrorContains(t, s.err, "scenario: delete: ", "the first is what the author has to mend")
	require.Len(t, s.steps, 2)
}

func TestScenarioCopiesObjects(t *testing.T) {
	s, object := &Scenario{}, aSite("ns", "a")
	s.Create(object)
	object["spec"] = "changed"
	require.NotContains(t, s.steps[0].object, "spec", "what the author does to an object later isn't part of the step")
}

func TestStepsSayWhatTheyDo(t *testing.T) {
	s := &Scenario{}
	s.Create(configMap("ns", "a"))
	s.Update(aSite("ns", "b"))
	s.Change(configMap("", "c"), func(map[string]any) {})
	s.Delete(namespace("d"))
	var texts []string
	for _, one := range s.steps {
		texts = append(texts, one.String())
	}
	require.Equal(t, []string{"create ConfigMap ns/a", "update Site ns/b", "change ConfigMap c", "delete Namespace d"}, texts)
}

// A lateCase says until when each step may be put off.
type lateCase struct {
	reason string
	steps  func(s *Scenario)
	want   []int
}

func TestLate(t *testing.T) {
	holdsLate(t, map[string]lateCase{
		"None":    {"no steps", func(*Scenario) {}, []int{}},
		"Parent":  {"the parent comes when it comes", func(s *Scenario) { s.Create(aSite("ns", "a")) }, []int{-1}},
		"Other":   {"nothing speaks of it again", func(s *Scenario) { s.Create(configMap("ns", "a")); s.Create(aSite("ns", "a")) }, []int{2, -1}},
		"Changes": {"only creations come late", func(s *Scenario) { s.Update(configMap("ns", "a")); s.Delete(configMap("ns", "a")) }, []int{-1, -1}},
	})
}

func TestLateHasBounds(t *testing.T) {
	nop := func(map[string]any) {}
	holdsLate(t, map[string]lateCase{
		"SameObject": {
			"it must be there before it is changed",
			func(s *Scenario) {
				s.Create(configMap("ns", "a"))
				s.Create(aSite("ns", "a"))
				s.Change(configMap("ns", "a"), nop)
				s.Delete(configMap("ns", "a"))
			},
			[]int{2, -1, -1, -1},
		},
		"DefaultNamespace": {
			"an object without a namespace is in default",
			func(s *Scenario) {
				s.Create(configMap("", "a"))
				s.Create(aSite("", "a"))
				s.Delete(configMap("default", "a"))
			},
			[]int{2, -1, -1},
		},
		"Recreated": {
			"each creation comes before what undoes it",
			func(s *Scenario) {
				s.Create(configMap("ns", "a"))
				s.Delete(configMap("ns", "a"))
				s.Create(configMap("ns", "a"))
			},
			[]int{1, -1, 3},
		},
		"SameName": {
			"another type, namespace or name is another object",
			func(s *Scenario) {
				s.Create(configMap("ns", "a"))
				s.Create(secret("ns", "a"))
				s.Delete(configMap("other", "a"))
				s.Delete(configMap("ns", "b"))
			},
			[]int{4, 4, -1, -1},
		},
		"Namespace": {
			"it must be there before what is in it, parents included",
			func(s *Scenario) {
				s.Create(namespace("ns"))
				s.Create(namespace("other"))
				s.Create(aSite("ns", "a"))
				s.Create(configMap("other", "a"))
			},
			[]int{2, 3, -1, 4},
		},
		"NotANamespace": {
			"an object that has a namespace's name is no namespace",
			func(s *Scenario) { s.Create(configMap("x", "ns")); s.Create(aSite("ns", "a")) },
			[]int{2, -1},
		},
	})
}

func holdsLate(t *testing.T, cases map[string]lateCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &Scenario{}
			tc.steps(s)
			require.NoError(t, s.err)
			require.Equal(t, tc.want, s.late(site()), tc.reason)
		})
	}
}

func TestScenarioTypes(t *testing.T) {
	s := &Scenario{}
	require.Empty(t, s.types(), "without steps there are none")
	s.Create(configMap("ns", "a"))
	s.Create(aSite("ns", "a"))
	s.Delete(configMap("ns", "b"))
	s.Controller(k8s.Job, func(map[string]any) {})
	s.Controller(k8s.Job, func(map[string]any) {})
	require.Equal(t, []resource.Type{k8s.Job, site(), k8s.ConfigMap}, s.types(), "each once, by name")
}

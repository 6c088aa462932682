package testkit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/handler"
)

func TestNamespaceFor(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]string{
		"TestCache": "cache-abcdef",
		"TestCacheIsResizedWhenItsParentChanges/with_a_volume": "cacheisresizedwh-abcdef",
		"TestTheNameEndsIn/a_dash_here":                        "thenameendsin-a-abcdef",
		"Test3Things":                                          "t3things-abcdef",
		"Test/_":                                               "t-abcdef",
		"TestÄÖÜ":                                              "t-abcdef",
		"Fuzz":                                                 "fuzz-abcdef",
	} {
		got := namespaceFor(test, "abcdef")
		require.Equal(t, want, got, test)
		require.LessOrEqual(t, len(got), maxNamespace)
		require.Empty(t, validation.IsDNS1035Label(got), test)
	}
}

func TestNamesMadeOfANamespaceAreShortEnoughForATestOfALongName(t *testing.T) {
	t.Parallel()
	kit := New(t, cluster, widgets("kit-names"), handler.SyncFunc(nil))
	name := kit.Namespace + "-" + strings.Repeat("x", 39)
	kit.Create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	made := kit.Get(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kit.Namespace}})
	require.Equal(t, t.Name(), made.Annotations()[testLabel])
}

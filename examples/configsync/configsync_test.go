package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func labelled(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func terminating(name string, labels map[string]string) *corev1.Namespace {
	namespace := labelled(name, labels)
	namespace.DeletionTimestamp = new(metav1.Now())
	return namespace
}

func settings(namespace, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: namespace},
		Data:       map[string]string{"color": color},
		BinaryData: map[string][]byte{"logo": {0xff, 0x00}},
	}
}

// gold selects the Namespaces of a tier.
func gold(selector map[string]any) map[string]any {
	if selector == nil {
		selector = map[string]any{"matchLabels": map[string]any{"tier": "gold"}}
	}
	return object("settings", map[string]any{
		"source": map[string]any{"namespace": "platform", "name": "settings"}, "namespaceSelector": selector,
	})
}

// What the operator does about a ConfigSync, by what there is. Without a cluster.
func TestSync(t *testing.T) {
	tier := map[string]string{"tier": "gold"}
	there := testkit.Related(settings("platform", "red"), labelled("a", tier), labelled("b", tier), labelled("c", map[string]string{"tier": "tin"}), terminating("d", tier), labelled("platform", tier))
	without := testkit.Related(settings("elsewhere", "red"), labelled("a", tier), terminating("d", tier))
	cases := map[string]struct {
		reason   string
		selector map[string]any
		live     []any
		want     func(*testkit.Plan)
		status   map[string]any
	}{
		"First": {
			reason: "A copy for each Namespace of the tier, but for the source's own and one that is being deleted.",
			live:   []any{there},
			want: func(p *testkit.Plan) {
				p.WantCreate(settings("a", "red")).WantCreate(settings("b", "red"))
			},
			status: map[string]any{"namespaces": 2, "copies": 0},
		},
		"Differs": {
			reason: "What isn't as the source is gets its data.",
			live:   []any{there, settings("a", "blue"), settings("b", "red")},
			want:   func(p *testkit.Plan) { p.WantUpdate(settings("a", "red")) },
			status: map[string]any{"namespaces": 2, "copies": 2},
		},
		"Leaves": {
			reason: "A copy where the selector doesn't match is deleted.",
			live:   []any{there, settings("a", "red"), settings("b", "red"), settings("c", "red")},
			want:   func(p *testkit.Plan) { p.WantDelete(settings("c", "")) },
			status: map[string]any{"namespaces": 2, "copies": 2},
		},
		"Terminating": {
			reason: "In a Namespace that is being deleted nothing is written, whatever the copy says.",
			live:   []any{there, settings("a", "red"), settings("b", "red"), settings("d", "blue")},
			status: map[string]any{"namespaces": 2, "copies": 2},
		},
		"NoSource": {
			reason: "Without a source there is nothing to copy, and no reason to delete.",
			live:   []any{without, settings("a", "red"), settings("c", "red"), settings("d", "red")},
			want:   func(p *testkit.Plan) { p.WantDelete(settings("c", "")) },
			status: map[string]any{"namespaces": 1, "copies": 1, "message": "ConfigMap platform/settings: doesn't exist; its copies stay as they are"},
		},
		"Expressions": {
			reason:   "A selector may say more than labels.",
			selector: map[string]any{"matchExpressions": []any{map[string]any{"key": "tier", "operator": "NotIn", "values": []any{"gold"}}}},
			live:     []any{there},
			want:     func(p *testkit.Plan) { p.WantCreate(settings("c", "red")) },
			status:   map[string]any{"namespaces": 1, "copies": 0},
		},
		"Empty": {
			reason:   "It would match every Namespace.",
			selector: map[string]any{},
			live:     []any{there, settings("a", "blue")},
			want: func(p *testkit.Plan) {
				p.WantError("spec.namespaceSelector: empty; to match every namespace, say that the label kubernetes.io/metadata.name exists")
			},
			status: map[string]any{"message": "spec.namespaceSelector: empty; to match every namespace, say that the label kubernetes.io/metadata.name exists"},
		},
		"NoSuchOperator": {
			reason:   "Copies stay when an edit went wrong.",
			selector: map[string]any{"matchExpressions": []any{map[string]any{"key": "tier", "operator": "Is", "values": []any{"gold"}}}},
			live:     []any{there, settings("a", "blue"), settings("c", "red")},
			want:     func(p *testkit.Plan) { p.WantError(`spec.namespaceSelector: "Is" is not a valid`) },
			status:   map[string]any{},
		},
		"SourceIsACopy": {
			reason: "As a copy that isn't wanted it would be deleted.",
			live:   []any{there, settings("platform", "red")},
			want: func(p *testkit.Plan) {
				p.WantError("spec.source: ConfigMap platform/settings is a copy that this ConfigSync has made")
			},
			status: map[string]any{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			plan := testkit.Sync(t, operator, configSyncs, gold(tc.selector), tc.live...)
			if tc.want != nil {
				tc.want(plan)
			}
			plan.WantStatus(tc.status) // what isn't expected fails the test
		})
	}
}

func TestCopyHasTheDataAlone(t *testing.T) {
	source := settings("platform", "red")
	source.Labels, source.Annotations, source.Immutable = map[string]string{"app": "x"}, map[string]string{"by": "x"}, new(true)
	require.Equal(t, settings("a", "red"), copyOf(source, "a"))
}

func TestFailures(t *testing.T) {
	failed := func(namespace, message string) handler.ChildError {
		return handler.ChildError{Type: k8s.ConfigMap, Key: types.NamespacedName{Namespace: namespace, Name: "settings"}, Verb: "create", Message: message}
	}
	cases := map[string]struct {
		reason string
		errs   []handler.ChildError
		want   string
	}{
		"None":    {"All is well.", nil, ""},
		"One":     {"Which, and why.", []handler.ChildError{failed("a", "no")}, "ConfigMap a/settings: can't create: no"},
		"Several": {"The same one each time, in whatever order they failed.", []handler.ChildError{failed("b", "2"), failed("a", "1"), failed("c", "3")}, "ConfigMap a/settings: can't create: 1 (and 2 more)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, failures(tc.errs), tc.reason) })
	}
}

// A ConfigSync with an invalid selector is synced all the same, so that its status
// can say what is wrong.
func TestRelate(t *testing.T) {
	cases := map[string]struct {
		reason   string
		selector map[string]any
		want     []handler.Ref
	}{
		"Labels": {
			reason: "The source by its name, Namespaces by their labels.",
			want:   []handler.Ref{{Type: k8s.ConfigMap, Namespace: "platform", Name: "settings"}, {Type: k8s.Namespace, Selector: "tier=gold"}},
		},
		"Invalid": {
			reason:   "It refers to no Namespace, rather than to all.",
			selector: map[string]any{"matchExpressions": []any{map[string]any{"key": "tier", "operator": "In"}}},
			want:     []handler.Ref{{Type: k8s.ConfigMap, Namespace: "platform", Name: "settings"}},
		},
		"Empty": {
			reason:   "The same.",
			selector: map[string]any{},
			want:     []handler.Ref{{Type: k8s.ConfigMap, Namespace: "platform", Name: "settings"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			sync := gold(tc.selector)
			sync["metadata"] = map[string]any{"name": "settings", "uid": "u", "resourceVersion": "1"}
			parent, err := resource.New(sync)
			require.NoError(t, err)
			refs, err := configSyncs.Relate(parent)
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, refs, tc.reason)
		})
	}
}

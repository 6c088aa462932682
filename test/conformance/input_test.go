package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// explosive is a child whose encoding panics.
type explosive struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              fuse `json:"spec"`
}

type fuse struct{}

func (fuse) MarshalJSON() ([]byte, error) { panic("boom") }

// A badAnswer is what a handler must not answer.
type badAnswer struct {
	reason string
	answer func() (*handler.SyncResponse, error)
	want   []string // in the error
}

// badChild is an answer with a good child and this one.
func badChild(reason string, child any, want ...string) badAnswer {
	return badAnswer{reason, func() (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"phase": "Done"}, Children: []any{configMap("good", "k", "v"), child}}, nil
	}, want}
}

// object returns a map with these metadata.
func object(t resource.Type, metadata map[string]any) map[string]any {
	out := map[string]any{"metadata": metadata}
	if t.APIVersion != "" {
		out["apiVersion"] = t.APIVersion
	}
	if t.Kind != "" {
		out["kind"] = t.Kind
	}
	return out
}

// deep returns JSON values nested to a depth.
func deep(depth int) any {
	var value any = "bottom"
	for range depth {
		value = map[string]any{"a": value}
	}
	return value
}

func badAnswers() map[string]badAnswer {
	named := map[string]any{"name": "bad"}
	with := func(field string, value any) map[string]any {
		return object(k8s.ConfigMap, map[string]any{"name": "bad", field: value})
	}
	data := func(value any) map[string]any {
		child := object(k8s.ConfigMap, named)
		child["data"] = map[string]any{"k": value}
		return child
	}
	return map[string]badAnswer{
		"nothing": {"neither a response nor an error", func() (*handler.SyncResponse, error) { return nil, nil }, []string{"neither a response nor an error"}},
		"panics":  {"a panic is an error", func() (*handler.SyncResponse, error) { panic("boom") }, []string{"Sync: panic: boom"}},
		"fails":   {"an error", func() (*handler.SyncResponse, error) { return nil, errors.New("no") }, []string{"handler: Sync: no"}},
		"negative-resync": {"no time of the future", func() (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{configMap("good", "k", "v")}, Resync: -1}, nil
		}, []string{"Resync"}},
		"bad-status": {"what isn't JSON", func() (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Status: map[string]any{"n": math.NaN()}, KeepChildren: true}, nil
		}, []string{"Parent", "status"}},
		"explosive-status": {"a panic is an error", func() (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Status: explosive{}, KeepChildren: true}, nil
		}, []string{"panic: boom"}},
		"nil":               badChild("no object", nil, "child 1", "nil"),
		"nil-pod":           badChild("no object", (*corev1.Pod)(nil), "child 1", "nil *v1.Pod"),
		"text":              badChild("no object", "Pod", "child 1", "not an object"),
		"no-kind":           badChild("what is it", object(resource.Type{APIVersion: "v1"}, named), "child 1", `"bad"`, "kind: missing"),
		"no-api-version":    badChild("what is it", object(resource.Type{Kind: "ConfigMap"}, named), "child 1", "ConfigMap", "apiVersion: missing"),
		"no-name":           badChild("which is it", object(k8s.ConfigMap, map[string]any{}), "ConfigMap", "metadata.name: missing"),
		"no-metadata":       badChild("which is it", map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, "ConfigMap", "metadata.name: missing"),
		"metadata-list":     badChild("a map", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": []any{}}, "ConfigMap", "metadata"),
		"name-number":       badChild("a string", object(k8s.ConfigMap, map[string]any{"name": 5}), "ConfigMap", "metadata.name"),
		"name-path":         badChild("it would be another request", object(k8s.ConfigMap, map[string]any{"name": "../../secrets/x"}), "metadata.name"),
		"generate-name":     badChild("another one each time", object(k8s.ConfigMap, map[string]any{"generateName": "bad-"}), "ConfigMap", "metadata.generateName", `"bad-"`),
		"both-names":        badChild("which is it", with("generateName", "bad-"), "ConfigMap", "bad", "metadata.generateName"),
		"other-type":        badChild("nobody watches it", object(k8s.Pod, named), "v1/Pod", "bad", "not a configured child type"),
		"own-type":          badChild("a parent is no child", object(parentType, named), "Parent", "bad", "not a configured child type"),
		"other-namespace":   badChild("owner references end there", with("namespace", "default"), "ConfigMap", "default/bad", "metadata.namespace"),
		"twice":             badChild("which one counts", configMap("good", "k", "w"), "ConfigMap", "good", "the same object"),
		"twice-namespace":   badChild("an empty namespace is the parent's", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "good"}}, "good", "the same object"),
		"label-value":       badChild("no label", with("labels", map[string]any{"app": "not a label!"}), "ConfigMap", "bad", "metadata.labels", "not a label!"),
		"label-key":         badChild("no label", with("labels", map[string]any{"a b": "v"}), "ConfigMap", "bad", "metadata.labels", "a b"),
		"label-number":      badChild("a string", with("labels", map[string]any{"app": 5}), "ConfigMap", "bad", "metadata.labels"),
		"tracking-label":    badChild("the engine's", with("labels", map[string]any{"roperator.com/parent-uid": "other"}), "ConfigMap", "bad", `metadata.labels["roperator.com/parent-uid"]`),
		"ownership-label":   badChild("the engine's", with("labels", map[string]any{"roperator.com/operator": "other"}), "ConfigMap", "bad", `metadata.labels["roperator.com/operator"]`),
		"controller":        badChild("the parent is", with("ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": true}}), "ConfigMap", "bad", "metadata.ownerReferences"),
		"not-utf8":          badChild("silently another text", data("\xff\xfe"), "ConfigMap", "bad", "data.k", "UTF-8"),
		"not-utf8-typed":    badChild("silently another text", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Data: map[string]string{"k": "\xff"}}, "ConfigMap", "bad", "data.k", "UTF-8"),
		"beyond-int64":      badChild("silently another number", data(uint64(math.MaxUint64)), "ConfigMap", "bad", "data.k", "64 bits"),
		"beyond-int64-json": badChild("silently another number", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad"},"data":{"k":18446744073709551615}}`), "data.k", "64 bits"),
		"beyond-float64":    badChild("infinite", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad"},"data":{"k":1e999}}`), "data.k", "float64"),
		"not-a-number":      badChild("no JSON", data(math.NaN()), "ConfigMap", "bad", "data.k", "number"),
		"function":          badChild("no JSON", data(func() {}), "ConfigMap", "bad", "data.k"),
		"too-deep":          badChild("endless", data(deep(20_000)), "ConfigMap", "bad", "nested too deep"),
		"explosive":         badChild("a panic is an error", explosive{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}, "explosive", "panic: boom"),
	}
}

func TestC213_RefusedBeforeAnyWrite(t *testing.T) {
	scenario(t, "C213", "a response that is wrong in one child: an error that names child and field, nothing written, others undisturbed")
	log := needsAudit(t)
	from := log.mark(t)
	cases := badAnswers()
	sync := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if tc, ok := cases[req.Parent.Name()]; ok && req.Parent.Generation() == 1 {
			return tc.answer()
		}
		return copier(ctx, req)
	}
	kit := testkit.New(t, cluster, operator("badinput", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}), handler.SyncFunc(sync))
	for name := range cases {
		kit.Create(parent(name, nil))
	}
	for name, tc := range cases {
		it := parent(name, nil)
		eventually(t, name+" fails", func() bool { return len(kit.HandlerErrors(it)) > 0 })
		text := kit.HandlerErrors(it)[0].Error()
		for _, want := range tc.want {
			require.Contains(t, text, want, "%s: %s", name, tc.reason)
		}
		require.Less(t, len(text), 2000, "%s: an error is for reading", name)
		eventually(t, name+" has an Event", func() bool { return anyContains(kit.Events(it), "Warning", tc.want[len(tc.want)-1]) })
	}
	good := parent("undisturbed", withData("k", "v"))
	kit.Create(good)
	kit.Eventually(configMap("undisturbed", "k", "v"), patience)
	require.Empty(t, kit.HandlerErrors(good))
	for _, r := range log.since(t, from, "badinput") {
		if r.persists() && r.Resource != "events" {
			require.Equal(t, "undisturbed", nameIn(r), "nothing is written: %s", r)
		}
	}
	for name := range cases { // one that was mended is like any other
		kit.Update(parent(name, withData("k", "v")))
	}
	for name := range cases {
		kit.Eventually(configMap(name, "k", "v"), patience)
	}
	settle(t, kit)
}

// nameIn returns the name of what a request is about; kube-apiserver doesn't
// log that of a create that is refused.
func nameIn(r request) string {
	if r.Name == "" && r.Verb == "create" {
		return fmt.Sprintf("(a new one of %s)", strings.TrimSuffix(r.Resource, "s"))
	}
	return r.Name
}

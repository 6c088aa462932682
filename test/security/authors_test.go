package security

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// naive is the handler of somebody who trusts the authors of parents: a child
// is whatever the spec says.
func naive(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	child, ok := req.Parent.Field("spec", "child")
	if !ok {
		return &handler.SyncResponse{}, nil
	}
	return &handler.SyncResponse{Children: []any{child}}, nil
}

func child(kind string, meta map[string]any) map[string]any {
	version := map[string]string{"ClusterRole": "rbac.authorization.k8s.io/v1"}[kind]
	if version == "" {
		version = "v1"
	}
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": meta}
}

// attempts are what the author of a parent may try, and what it is answered.
// None of it may touch the victims: another namespace, somebody's object in the
// same one, and another parent's child.
func attempts(elsewhere, victim, victimUID, ownerUID string) map[string]struct {
	reason string
	child  map[string]any
	want   []string // in the error; none: it is a child like any other
} {
	named := func(more map[string]any) map[string]any {
		meta := map[string]any{"name": "attempt"}
		maps.Copy(meta, more)
		return child("ConfigMap", meta)
	}
	type attempt = struct {
		reason string
		child  map[string]any
		want   []string
	}
	return map[string]attempt{
		"namespace":       {"another namespace", named(map[string]any{"namespace": elsewhere}), []string{"ConfigMap", elsewhere + "/attempt", "metadata.namespace"}},
		"kube-system":     {"the system's namespace", child("Secret", map[string]any{"name": "s", "namespace": "kube-system"}), []string{"Secret", "kube-system/s", "metadata.namespace"}},
		"cluster-scoped":  {"rights for everything", child("ClusterRole", map[string]any{"name": "cluster-admin"}), []string{"ClusterRole", "cluster-admin", "not a configured child type"}},
		"namespace-kind":  {"a namespace", child("Namespace", map[string]any{"name": elsewhere}), []string{"Namespace", elsewhere, "not a configured child type"}},
		"parent-kind":     {"another parent", parent("owner", nil), []string{"Parent", "owner", "not a configured child type"}},
		"foreign-name":    {"somebody's object", child("ConfigMap", map[string]any{"name": victim}), []string{"ConfigMap", victim, "already exists and is not managed by"}},
		"siblings-name":   {"another parent's child", child("ConfigMap", map[string]any{"name": "owned"}), []string{"ConfigMap", "owned", "already exists and is not managed by"}},
		"path-up":         {"another path", child("ConfigMap", map[string]any{"name": "../secrets/s"}), []string{"ConfigMap", "../secrets/s", "metadata.name"}},
		"path-escaped":    {"the same, escaped", child("ConfigMap", map[string]any{"name": "..%2fsecrets%2fs"}), []string{"ConfigMap", "metadata.name"}},
		"path-dots":       {"the list", child("ConfigMap", map[string]any{"name": ".."}), []string{"ConfigMap", "metadata.name"}},
		"query":           {"parameters", child("ConfigMap", map[string]any{"name": "a?dryRun=All"}), []string{"ConfigMap", "a?dryRun=All", "metadata.name"}},
		"namespace-path":  {"another path", named(map[string]any{"namespace": "../" + elsewhere}), []string{"ConfigMap", "metadata.namespace"}},
		"generate-name":   {"one more at each pass", child("ConfigMap", map[string]any{"generateName": "many-"}), []string{"ConfigMap", "metadata.generateName"}},
		"both-names":      {"the same", named(map[string]any{"generateName": "many-"}), []string{"ConfigMap", "attempt", "metadata.generateName"}},
		"tracking-label":  {"given to another parent", named(map[string]any{"labels": map[string]any{"roperator.com/parent-uid": ownerUID}}), []string{"ConfigMap", "attempt", `metadata.labels["roperator.com/parent-uid"]`}},
		"operator-label":  {"given to another operator", named(map[string]any{"labels": map[string]any{"roperator.com/operator": "other"}}), []string{"ConfigMap", "attempt", `metadata.labels["roperator.com/operator"]`}},
		"controller":      {"owned by another parent", named(map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "name": "owner", "uid": ownerUID, "controller": true}}}), []string{"ConfigMap", "attempt", "metadata.ownerReferences"}},
		"no-object":       {"not even an object", map[string]any{"metadata": []any{}}, []string{"child 0"}},
		"victims-uid":     {"the identity of another object is the server's to say", named(map[string]any{"uid": victimUID, "resourceVersion": "1", "name": "with-uid"}), nil},
		"second-owner":    {"one owner more makes nobody else's child", named(map[string]any{"name": "with-owner", "ownerReferences": []any{map[string]any{"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "name": "owner", "uid": ownerUID}}}), nil},
		"crafted-mark":    {"the mark is the engine's", named(map[string]any{"name": "with-mark", "annotations": map[string]any{"roperator.com/applied": "v1:0:*"}}), nil},
		"garbled-mark":    {"whatever it says", named(map[string]any{"name": "with-garbage", "annotations": map[string]any{"roperator.com/applied": "((((((((\x00"}}), nil},
		"own-annotations": {"annotations are the author's", named(map[string]any{"name": "with-annotations", "annotations": map[string]any{"roperator.com/paused": "true"}}), nil},
	}
}

func TestParentAuthorsReachOnlyTheirOwnChildren(t *testing.T) {
	t.Parallel()
	elsewhere := bystander(t, "authors-elsewhere")
	elsewhere.Create(child("ConfigMap", map[string]any{"name": "attempt"}))
	kit := testkit.New(t, cluster, operator("authors"), handler.SyncFunc(naive))
	kit.Create(child("ConfigMap", map[string]any{"name": "victim"}))
	kit.Create(parent("owner", map[string]any{"child": child("ConfigMap", map[string]any{"name": "owned"})}))
	kit.EventuallyExists(child("ConfigMap", map[string]any{"name": "owned"}), patience)
	require.NoError(t, kit.Settle(patience))
	before, outside := everything(t, kit.Namespace), everything(t, elsewhere.Namespace)
	require.Len(t, before, 2)
	require.Equal(t, []string{"ConfigMap owned"}, writtenBy(t, kit.Namespace, "authors"))

	cases := attempts(elsewhere.Namespace, "victim", string(kit.Get(child("ConfigMap", map[string]any{"name": "victim"})).UID()), string(kit.Get(parent("owner", nil)).UID()))
	for name, tc := range cases {
		kit.Create(parent(name, map[string]any{"child": tc.child}))
	}
	children := 0
	for name, tc := range cases {
		if tc.want == nil {
			children++
			kit.EventuallyExists(tc.child, patience)
			continue
		}
		failsWith(t, kit, name, tc.want...)
	}
	after := everything(t, kit.Namespace)
	for what, version := range before {
		require.Equal(t, version, after[what], what)
	}
	require.Len(t, after, len(before)+children, "%v", after)
	require.Equal(t, outside, everything(t, elsewhere.Namespace))
	require.Empty(t, writtenBy(t, "kube-system", "authors"), "where the API server writes at any time")
	require.NotNil(t, kit.Get(parent("owner", nil)))

	// What wasn't written isn't deleted either, with the parents of the attempts.
	for name := range cases {
		kit.Delete(parent(name, nil))
	}
	for name := range cases {
		kit.EventuallyGone(parent(name, nil), patience)
	}
	require.NoError(t, kit.Settle(patience))
	after = everything(t, kit.Namespace)
	for what, version := range before {
		require.Equal(t, version, after[what], what)
	}
	require.Equal(t, outside, everything(t, elsewhere.Namespace))
}

// Others craft objects that pretend to be children; an operator of all
// namespaces sees them.
func TestForgedChildrenAreNotTaken(t *testing.T) {
	t.Parallel()
	home, elsewhere := bystander(t, "forged-home"), bystander(t, "forged-elsewhere")
	o := &observed{}
	rc := o.options().Runner.RESTConfig
	seen := make(chan []string, 1000)
	h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if req.Parent.Namespace() == home.Namespace {
			names := []string{}
			for c := range req.Children.All() {
				names = append(names, c.Namespace()+"/"+c.Name())
			}
			seen <- names
		}
		return naive(ctx, req)
	})
	cfg := operator("forged")
	cfg.Namespaces = []string{home.Namespace, elsewhere.Namespace}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // until cancel
		err := context.DeadlineExceeded
		for errors.Is(err, context.DeadlineExceeded) { // of the start, if the API server is busy
			err = runner.Run(ctx, cfg, h, runner.Options{RESTConfig: rc, Logger: slog.New(slog.DiscardHandler)})
		}
		ended <- err
	}()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	home.Create(parent("mine", map[string]any{"child": child("ConfigMap", map[string]any{"name": "real"})}))
	home.EventuallyExists(child("ConfigMap", map[string]any{"name": "real"}), patience)
	genuine := home.Get(child("ConfigMap", map[string]any{"name": "real"}))

	// A copy in another namespace, with everything a child has; and in the same
	// one, with less: labels and mark alone.
	forge := func(namespace, name string, owners []metav1.OwnerReference) {
		_, err := clients(t).CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: genuine.Labels(), Annotations: genuine.Annotations(), OwnerReferences: owners,
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	forge(elsewhere.Namespace, "forged", genuine.OwnerReferences())
	forge(home.Namespace, "labelled", nil)
	other := genuine.OwnerReferences()
	other[0].UID = "00000000-0000-0000-0000-000000000000"
	forge(home.Namespace, "another-uid", other)

	home.Update(parent("mine", map[string]any{"child": child("ConfigMap", map[string]any{"name": "real"}), "changed": true}))
	home.Update(child("ConfigMap", map[string]any{"name": "real", "labels": map[string]any{"drop": "me"}}))
	// Another parent's life tells that the watches have come past the forgeries.
	elsewhere.Create(parent("later", map[string]any{"child": child("ConfigMap", map[string]any{"name": "later"})}))
	elsewhere.EventuallyExists(child("ConfigMap", map[string]any{"name": "later"}), patience)
	home.Update(parent("mine", map[string]any{"child": child("ConfigMap", map[string]any{"name": "next"})}))
	home.EventuallyExists(child("ConfigMap", map[string]any{"name": "next"}), patience)
	home.EventuallyGone(child("ConfigMap", map[string]any{"name": "real"}), patience)
	shown := map[string]bool{}
	for range len(seen) {
		for _, name := range <-seen {
			shown[name] = true
		}
	}
	delete(shown, home.Namespace+"/next") // which may or may not have been shown by now
	require.Equal(t, map[string]bool{home.Namespace + "/real": true}, shown, "no forged child")
	// The garbage collector may delete a forgery whose owner doesn't exist, or is in another namespace.
	for _, request := range o.made() {
		verb, object, _ := strings.Cut(request, " ")
		for _, forgery := range []string{elsewhere.Namespace + "/forged", home.Namespace + "/labelled", home.Namespace + "/another-uid"} {
			require.False(t, verb != "get" && object == "configmaps "+forgery, request)
		}
	}
	require.Contains(t, o.made(), "delete configmaps "+home.Namespace+"/real", "it writes beside them")
	require.Contains(t, everything(t, home.Namespace), "ConfigMap labelled")
}

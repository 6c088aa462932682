package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// thing returns a Thing with this spec.
func thing(t *testing.T, group, spec string) map[string]any {
	t.Helper()
	return manifest(t, `{apiVersion: `+group+`/v1, kind: Thing, metadata: {name: one}, spec: `+spec+`}`)
}

// addItem has somebody else add an item to a list in the spec of a Thing.
func (s *stage) addItem(of resource.Type, list, item string) {
	s.t.Helper()
	_, untyped := clients(s.t, "somebody")
	patch := `[{"op": "add", "path": "/spec/` + list + `/-", "value": ` + item + `}]`
	_, err := untyped.Resource(plural(of)).Namespace(s.Namespace).Patch(s.t.Context(), "one", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// items returns a list in the spec of a child as text, in alphabetic order.
func (s *stage) items(of map[string]any, list string) []string {
	s.t.Helper()
	items, _ := s.field(of, "spec", list).([]any)
	out := make([]string, 0, len(items))
	for _, item := range items {
		text := fmt.Sprint(item)
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(text, "map["), "]"))
	}
	slices.Sort(out)
	return out
}

func TestC134_SchemaThatCantBeRead(t *testing.T) {
	scenario(t, "C134", "while a schema can't be read, children are created and not updated; once it is there, everything is as if it always had been")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			group := "c134-" + lower(strategy) + ".roperator.com"
			installThing(t, group, thingLists("id"))
			g := &gate{closed: true}
			s := newStageWith(t, operator("c134-"+lower(strategy), childrenBy(strategy, thingOf(group))...), testkit.KitOptions{Runner: runner.Options{RESTConfig: g.behind()}})
			of := thing(t, group, `{}`)
			s.want(thing(t, group, `{size: 1, byID: [{id: 1, value: x}, {id: 3, value: gone}], named: [{name: a, protocol: TCP}], tags: [a], args: [x]}`))
			s.addItem(thingOf(group), "byID", `{"id": 2, "value": "theirs"}`)
			s.addItem(thingOf(group), "named", `{"name": "a", "protocol": "UDP", "value": "theirs"}`)
			s.addItem(thingOf(group), "tags", `"theirs"`)
			theirs := func(what string) {
				t.Helper()
				require.Contains(t, s.items(of, "byID"), "id:2 value:theirs", what)
				require.Contains(t, s.items(of, "named"), "name:a protocol:UDP value:theirs", what)
				require.Contains(t, s.items(of, "tags"), "theirs", what)
			}
			settle(t, s.Kit)
			theirs("before a change of ours")
			second := `{size: 2, byID: [{id: 1, value: new}], named: [{name: a, protocol: TCP, value: ours}], tags: [b], args: [new, z]}`
			s.want(thing(t, group, second))
			require.Equal(t, int64(1), s.field(of, "spec", "size"), "nothing is updated")
			require.Contains(t, s.Waits(s.it()), "not updating Thing "+fmt.Sprint(metadata(of)["name"])+" before the schema of "+thingOf(group).String()+" is read")
			theirs("without a schema")

			g.shut(false)
			eventually(t, "the schema is read, and the change arrives", func() bool {
				return slices.Contains(s.items(of, "byID"), "id:1 value:new")
			})
			eventually(t, "what we had put there is known", func() bool {
				return slices.Equal([]string{"id:1 value:new", "id:2 value:theirs"}, s.items(of, "byID"))
			})
			settle(t, s.Kit)
			require.Empty(t, s.errors())
			require.Equal(t, []string{"name:a protocol:TCP value:ours", "name:a protocol:UDP value:theirs"}, s.items(of, "named"))
			require.Equal(t, []string{"b", "theirs"}, s.items(of, "tags"))
			require.Equal(t, []string{"new", "z"}, s.items(of, "args"))
			s.silent()

			s.want(thing(t, group, `{size: 3}`)) // by the marks, everything of ours goes
			require.Equal(t, []string{"id:2 value:theirs"}, s.items(of, "byID"))
			require.Equal(t, []string{"name:a protocol:UDP value:theirs"}, s.items(of, "named"))
			require.Equal(t, []string{"theirs"}, s.items(of, "tags"))
			require.Empty(t, s.items(of, "args"))
			s.silent()
			s.restart()
		})
	}
}

func TestC134b_RestartWithoutSchema(t *testing.T) {
	scenario(t, "C134b", "a restart while schemas can't be read: no write, and the marks stay what they were")
	const group = "c134-again.roperator.com"
	installThing(t, group, thingLists("id"))
	g := &gate{}
	s := newStageWith(t, operator("c134-again", childrenBy(config.Replace, thingOf(group))...), testkit.KitOptions{Runner: runner.Options{RESTConfig: g.behind()}})
	of := thing(t, group, `{}`)
	s.want(thing(t, group, `{size: 1, byID: [{id: 1, value: x}, {id: 3, value: gone}], tags: [a], args: [x]}`))
	s.silent()
	s.addItem(thingOf(group), "byID", `{"id": 2, "value": "theirs"}`)
	s.addItem(thingOf(group), "tags", `"theirs"`)
	settle(t, s.Kit)
	g.shut(true)
	version := s.Get(of).ResourceVersion()
	s.rebuild(s.config, nil, thing(t, group, `{size: 1, byID: [{id: 1, value: x}, {id: 3, value: gone}], tags: [a], args: [x]}`))
	require.Equal(t, version, s.Get(of).ResourceVersion())
	s.want(thing(t, group, `{size: 2, byID: [{id: 1, value: new}], tags: [b], args: [new]}`))
	require.Contains(t, s.items(of, "byID"), "id:2 value:theirs")
	require.Contains(t, s.items(of, "tags"), "theirs")
	g.shut(false)
	eventually(t, "the schema is read", func() bool { return slices.Equal(s.items(of, "args"), []string{"new"}) })
	settle(t, s.Kit)
	require.Equal(t, []string{"id:1 value:new", "id:2 value:theirs"}, s.items(of, "byID"))
	require.Equal(t, []string{"b", "theirs"}, s.items(of, "tags"))
	s.silent()
}

func TestC134c_StartRightAfterTheCRD(t *testing.T) {
	scenario(t, "C134c", "an operator that is started right after its child's CRD reads the schema")
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			group := fmt.Sprintf("c134-early%d.roperator.com", i)
			installThing(t, group, thingLists("id"))
			s := newStage(t, fmt.Sprint("c134-early", i), childrenBy(config.Replace, thingOf(group))...)
			s.want(thing(t, group, `{byID: [{id: 1, value: x}]}`))
			s.addItem(thingOf(group), "byID", `{"id": 2, "value": "theirs"}`)
			s.want(thing(t, group, `{byID: [{id: 1, value: new}]}`))
			of := thing(t, group, `{}`)
			eventually(t, "the change arrives", func() bool { return slices.Contains(s.items(of, "byID"), "id:1 value:new") })
			require.Contains(t, s.items(of, "byID"), "id:2 value:theirs")
		})
	}
}

func TestC134d_CRDThatChanges(t *testing.T) {
	scenario(t, "C134d", "a schema is read again when the CRD changes, or is made anew")
	const group = "c134-change.roperator.com"
	installThing(t, group, thingLists("id"))
	g := &gate{}
	s := newStageWith(t, operator("c134-change", childrenBy(config.Replace, thingOf(group))...), testkit.KitOptions{Runner: runner.Options{RESTConfig: g.behind()}})
	of := thing(t, group, `{}`)
	s.want(thing(t, group, `{size: 1, byID: [{id: 1, port: 1}], args: [x]}`))
	s.silent()
	crds, _ := crdsOf(t)

	// The atomic list args becomes a set while it has elements.
	changed := strings.Replace(thingLists("id"), "args: {type: array, x-kubernetes-list-type: atomic", "args: {type: array, x-kubernetes-list-type: set", 1)
	live, err := crds.Get(t.Context(), "things."+group, metav1.GetOptions{})
	require.NoError(t, err)
	live.Object["spec"] = thingCRD(t, group, changed).Object["spec"]
	before := len(g.asked())
	_, err = crds.Update(t.Context(), live, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually(t, "a schema is read", func() bool { return slices.ContainsFunc(g.asked()[before:], isDocument(group)) })
	settle(t, s.Kit)
	s.addItem(thingOf(group), "args", `"theirs"`)
	settle(t, s.Kit)
	require.Equal(t, []string{"theirs", "x"}, s.items(of, "args"))
	s.want(thing(t, group, `{size: 2, byID: [{id: 1, port: 1}], args: [new]}`))
	require.Equal(t, []string{"new", "theirs"}, s.items(of, "args"), "what we had put there is known")

	// The CRD is made anew, with another key.
	deleteThings(t, group)
	createThing(t, group, thingLists("port"))
	s.EventuallyExists(of, patience)
	s.addItem(thingOf(group), "byID", `{"port": 2, "id": 1}`)
	s.ask(thing(t, group, `{size: 3, byID: [{id: 1, port: 1, value: new}]}`)) // there were errors: the CRD was going
	eventually(t, "the change arrives", func() bool { return slices.Contains(s.items(of, "byID"), "id:1 port:1 value:new") })
	require.Equal(t, []string{"id:1 port:1 value:new", "id:1 port:2"}, s.items(of, "byID"))
	settle(t, s.Kit)
	s.ask(thing(t, group, `{size: 3, byID: [{id: 1, port: 3}]}`))
	eventually(t, "the change arrives", func() bool { return slices.Contains(s.items(of, "byID"), "id:1 port:3") })
	require.Equal(t, []string{"id:1 port:2", "id:1 port:3"}, s.items(of, "byID"))
}

// isDocument says whether a request is for the schemas of this group.
func isDocument(group string) func(uri string) bool {
	return func(uri string) bool { return strings.HasPrefix(uri, "/openapi/v3/apis/"+group+"/") }
}

func TestC181_SchemasAtAStart(t *testing.T) {
	scenario(t, "C181", "a start reads the schemas of its custom children alone, each document once, side by side; what it can't read in time it names")
	var types []resource.Type
	groups := []string{"c170-one.roperator.com", "c170-two.roperator.com", "c170-three.roperator.com"}
	for _, group := range groups {
		installThing(t, group, thingLists("id"))
		types = append(types, thingOf(group))
	}
	typed, _ := clients(t, "somebody")
	for _, group := range groups {
		eventually(t, "the schemas are told", func() bool {
			text, err := typed.Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis", group, "v1").DoRaw(t.Context())
			return err == nil && strings.Contains(string(text), ".v1.Thing\"")
		})
	}
	children := append(childrenBy(config.Replace, types[0], types[1]), config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Deployment, Strategy: config.Replace})
	both := make(chan struct{}, 2)
	together := make(chan struct{})
	go func() {
		<-both
		<-both
		close(together)
	}()
	g := &gate{each: func(req *http.Request) error {
		if !isDocument(groups[0])(req.URL.Path) && !isDocument(groups[1])(req.URL.Path) {
			return nil
		}
		both <- struct{}{}
		select {
		case <-together:
			return nil
		case <-req.Context().Done():
			return req.Context().Err()
		}
	}}
	log := &rig.Logs{}
	opts := testkit.KitOptions{Runner: runner.Options{RESTConfig: g.behind(), Logger: slog.New(slog.NewTextHandler(log, nil))}}
	s := newStageWith(t, operator("c170", children...), opts)
	s.want(thing(t, groups[0], `{byID: [{id: 1}]}`))
	asked := g.asked()
	require.Len(t, slices.DeleteFunc(slices.Clone(asked), func(uri string) bool { return uri != "/openapi/v3" }), 1, "%q", asked)
	require.Len(t, slices.DeleteFunc(slices.Clone(asked), func(uri string) bool { return !strings.Contains(uri, "hash=") }), 2, "%q", asked)
	require.Len(t, asked, 3, "nothing of built-in kinds and of other custom kinds: %q", asked)
	require.NotContains(t, log.String(), "schemas ")

	// One document never comes: the start goes on without it, and says so.
	g.mu.Lock()
	g.each = func(req *http.Request) error {
		if isDocument(groups[1])(req.URL.Path) {
			<-req.Context().Done()
			return req.Context().Err()
		}
		return nil
	}
	g.mu.Unlock()
	s.rebuild(s.config, nil, thing(t, groups[0], `{byID: [{id: 1}]}`))
	for _, said := range []string{`msg="waiting for schemas" controller=c170 types=[`, `created and not updated" controller=c170 types=[`} {
		require.Contains(t, log.String(), said+groups[1]+`/v1/Thing]`)
	}
}

func TestC182_KindUnderTwoNames(t *testing.T) {
	scenario(t, "C182", "a kind that is served in two groups from one storage is refused at start, both named")
	h := handler.SyncFunc(nil)
	events := resource.Type{APIVersion: "events.k8s.io/v1", Kind: "Event"}
	core := resource.Type{APIVersion: "v1", Kind: "Event"}
	asParent := operator("c133-parent", childrenBy(config.Replace, events)...)
	asParent.Parent = core
	for name, cfg := range map[string]config.Operator{
		"two children":         operator("c133-children", childrenBy(config.Replace, core, k8s.ConfigMap, events)...),
		"the parent and child": asParent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := insist(func() error {
				return runner.Run(ctx, cfg, h, runner.Options{RESTConfig: cluster.RESTConfig(), Logger: slog.New(slog.DiscardHandler)})
			})
			require.ErrorContains(t, err, "v1/Event")
			require.ErrorContains(t, err, "events.k8s.io/v1/Event")
			require.ErrorContains(t, err, "the same objects")
		})
	}
	kit := testkit.New(t, cluster, operator("c133-one", childrenBy(config.Replace, events, k8s.ConfigMap, k8s.Secret, k8s.Deployment, k8s.DaemonSet, k8s.Ingress)...), h)
	settle(t, kit)
}

// ownerOf returns the owner reference of an object to its controller.
func ownersOf(t *testing.T, kit *testkit.Kit, obj any) []metav1.OwnerReference {
	t.Helper()
	live := kit.Get(obj)
	require.NotNil(t, live)
	return live.OwnerReferences()
}

func TestC141_OwnerReferenceIsKept(t *testing.T) {
	scenario(t, "C141", "our owner reference is kept as it should be, in place, under every strategy; those of others stay")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c141-"+lower(strategy), childrenBy(strategy, k8s.ConfigMap, k8s.Secret)...)
			secret := func(value string) map[string]any {
				return manifest(t, `{apiVersion: v1, kind: Secret, metadata: {name: two}, stringData: {a: "`+value+`"}}`)
			}
			s.want(configMap("one", "a", "1"), secret("1"))
			child := configMap("one", "", "")
			want := ownersOf(t, s.Kit, child)
			require.Len(t, want, 1)
			uid := s.Get(child).UID()
			_, untyped := clients(t, "somebody")
			spoil := func(of resource.Type, name, patch string) {
				t.Helper()
				_, err := untyped.Resource(plural(of)).Namespace(s.Namespace).Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
				require.NoError(t, err)
			}
			mended := func(more ...metav1.OwnerReference) {
				t.Helper()
				all := append(slices.Clone(want), more...)
				eventually(t, "the owner reference is mended", func() bool {
					now := ownersOf(t, s.Kit, child)
					return len(now) == len(all) && slices.EqualFunc(now, all, func(a, b metav1.OwnerReference) bool { return a.String() == b.String() })
				})
				settle(t, s.Kit)
				require.Empty(t, s.errors())
				require.Equal(t, uid, s.Get(child).UID(), "never a reason to recreate")
			}
			// Five such changes within a minute would be a conflict loop.
			spoil(k8s.ConfigMap, "one", `[{"op": "replace", "path": "/metadata/ownerReferences/0/apiVersion", "value": "conformance.roperator.com/v0"},
				{"op": "replace", "path": "/metadata/ownerReferences/0/blockOwnerDeletion", "value": false}]`)
			mended()
			spoil(k8s.ConfigMap, "one", `[{"op": "remove", "path": "/metadata/ownerReferences/0/blockOwnerDeletion"}]`)
			mended()
			s.Create(configMap("theirs", "", ""))
			theirs := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: s.Get(configMap("theirs", "", "")).UID()}
			spoil(k8s.ConfigMap, "one", `[{"op": "add", "path": "/metadata/ownerReferences/-", "value": {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "`+string(theirs.UID)+`"}},
				{"op": "replace", "path": "/metadata/ownerReferences/0/name", "value": "other"}]`)
			mended(theirs)
			s.silent()

			// While no operator runs, and together with a change of the desired state.
			s.rebuild(s.config, func() {
				spoil(k8s.ConfigMap, "one", `[{"op": "replace", "path": "/metadata/ownerReferences/0/apiVersion", "value": "conformance.roperator.com/v0"}]`)
				spoil(k8s.Secret, "two", `[{"op": "replace", "path": "/metadata/ownerReferences/0/apiVersion", "value": "conformance.roperator.com/v0"}]`)
			}, configMap("one", "a", "1"), secret("2"))
			mended(theirs)
			eventually(t, "the owner reference of the other is mended", func() bool {
				return slices.EqualFunc(ownersOf(t, s.Kit, secret("")), want, func(a, b metav1.OwnerReference) bool { return a.String() == b.String() })
			})
			s.silent()
		})
	}
}

func TestC141b_AnotherVersionOfTheParent(t *testing.T) {
	scenario(t, "C141b", "when the parent's version has changed, the children's owner references name the new one, which is served, once and in place")
	const group = "c141.roperator.com"
	installThing(t, group, `{type: object, x-kubernetes-preserve-unknown-fields: true}`, "v1", "v2")
	build := func(version string) config.Operator {
		cfg := operator("c141", childrenBy(config.OnDelete, k8s.ConfigMap)...)
		cfg.Parent.APIVersion, cfg.Parent.Kind = group+"/"+version, "Thing"
		return cfg
	}
	kit := testkit.New(t, cluster, build("v1"), handler.SyncFunc(copier))
	it := thing(t, group, `{data: {a: "1"}}`)
	kit.Create(it)
	child := configMap("one", "", "")
	kit.EventuallyExists(child, patience)
	settle(t, kit)
	kit.Restart(build("v2"), handler.SyncFunc(copier))
	settle(t, kit)
	owners := ownersOf(t, kit, child)
	require.Len(t, owners, 1)
	require.Equal(t, group+"/v2", owners[0].APIVersion)
	require.Equal(t, []string{"create", "patch"}, verbs(kit.Writes(), "ConfigMap", "one"))
	silentlyServed(t, kit, build("v2"))
}

// silentlyServed fails the test if a restart of the operator writes anything.
func silentlyServed(t *testing.T, kit *testkit.Kit, cfg config.Operator) {
	t.Helper()
	before := len(kit.Writes())
	kit.Restart(cfg, handler.SyncFunc(copier))
	settle(t, kit)
	require.Len(t, kit.Writes(), before)
}

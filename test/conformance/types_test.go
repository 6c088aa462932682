package conformance

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// thingNamed returns a Thing of a group.
func thingNamed(group, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": thingOf(group).APIVersion, "kind": "Thing", "metadata": map[string]any{"name": name}, "spec": spec}
}

// lateThings returns a handler that wants a Thing of each parent, whose spec is the parent's,
// and a ConfigMap that names the related Things of another group.
func lateThings(child, related string) handler.Handler {
	return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		spec, _ := req.Parent.Field("spec")
		values, _ := spec.(map[string]any)
		var names []string
		for res := range req.Related.OfType(thingOf(related)).All() {
			names = append(names, res.Name())
		}
		return &handler.SyncResponse{
			Status:   map[string]any{"things": req.Children.OfType(thingOf(child)).Len()},
			Children: []any{thingNamed(child, req.Parent.Name(), values), configMap(req.Parent.Name(), "related", strings.Join(names, " "))},
		}, nil
	})
}

// thingsOf returns how many Things the handler was shown last.
func thingsOf(kit *testkit.Kit) int64 {
	n, _ := kit.Get(parent("p", nil)).Field("status", "things")
	count, _ := n.(int64)
	return count
}

func TestC92_TypesThatComeAndGo(t *testing.T) {
	scenario(t, "C92", "a type is installed, removed and installed again while the operator runs: children and related objects follow, nothing else stops")
	const child, related = "c92-child.example.com", "c92-related.example.com"
	cfg := operator("c92", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: thingOf(child), Strategy: config.Replace, Optional: true})
	cfg.Related = []config.Related{{Type: thingOf(related), Fields: []string{"spec.tags"}, Optional: true}}
	kit := testkit.New(t, cluster, cfg, lateThings(child, related))
	wanted := func(size int) map[string]any {
		return map[string]any{"tags": []any{"one"}, "size": int64(size)}
	}
	kit.Create(parent("p", wanted(1)))
	kit.Eventually(configMap("p", "related", ""), patience)
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(parent("p", nil)))
	eventually(t, "an Event says what is waited for", func() bool {
		return anyContains(kit.Events(parent("p", nil)), "waiting until the API server serves "+thingOf(child).String()+", the type of Thing p")
	})
	observed, _ := kit.Get(parent("p", nil)).Field("status", "observedGeneration")
	require.Nil(t, observed, "nobody takes the status for that of a finished pass")

	t.Cleanup(func() { deleteThings(t, child); deleteThings(t, related) })
	for round, idKey := range []string{"id", "id, port"} {
		createThing(t, child, thingLists(idKey))
		kit.Eventually(thingNamed(child, "p", wanted(2*round+1)), patience)
		createThing(t, related, thingLists("id"))
		kit.Create(thingNamed(related, "one", map[string]any{"size": int64(1)}))
		kit.Eventually(configMap("p", "related", "one"), patience)
		settle(t, kit)
		require.EqualValues(t, 1, thingsOf(kit))
		kit.Update(parent("p", wanted(2*round+2)))
		kit.Eventually(thingNamed(child, "p", wanted(2*round+2)), patience)
		kit.Delete(thingNamed(child, "p", nil))
		kit.Eventually(thingNamed(child, "p", wanted(2*round+2)), patience)
		settle(t, kit)

		deleteThings(t, child)
		deleteThings(t, related)
		kit.Eventually(configMap("p", "related", ""), patience)
		kit.Update(parent("p", wanted(2*round+3)))
		eventually(t, "the end of the type is known", func() bool {
			return thingsOf(kit) == 0
		})
		settle(t, kit)
	}
}

func TestC93_ChildrenOfEarlierBuilds(t *testing.T) {
	scenario(t, "C93", "what an earlier build has made of types that this one hasn't is deleted, once, and never watched")
	log := needsAudit(t)
	former := operator("c93", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Secret, Strategy: config.Replace})
	s := newStageWith(t, former, testkit.KitOptions{})
	s.want(configMap("keep", "text", "1"), secretWith("former", "1"))
	s.undisturbed()
	foreign := secretWith("foreign", "1")
	live := s.Get(secretWith("former", ""))
	labels := map[string]any{}
	for key, value := range live.Labels() {
		labels[key] = value
	}
	foreign["metadata"].(map[string]any)["labels"] = labels
	s.Create(foreign)

	begin := log.mark(t)
	now := operator("c93", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	now.FormerChildren = []resource.Type{k8s.Secret}
	s.rebuild(now, nil, configMap("keep", "text", "1"))
	s.EventuallyGone(secretWith("former", ""), patience)
	s.silent()
	require.NotNil(t, s.Get(foreign), "it isn't a child")
	require.NotNil(t, s.Get(configMap("keep", "text", "1")))
	require.True(t, anyContains(s.Events(s.it()), "deleted Secret former: an earlier version of the operator had made them"))
	var asked []string
	for _, r := range log.all(t, begin) {
		if r.Namespace == s.Namespace && r.Resource == "secrets" && strings.HasPrefix(r.UserAgent, "c93/") {
			asked = append(asked, r.Verb)
		}
	}
	require.Equal(t, []string{"list", "get", "delete"}, asked)
}

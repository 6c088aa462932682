package conformance

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

// adopting is configMapChild with Adopt.
func adopting() config.Child {
	child := configMapChild()
	child.Adopt = true
	return child
}

// wanting is a Sync that always wants these children.
func wanting(children ...any) handler.SyncFunc {
	return func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: children}, nil
	}
}

// twoEntries is a ConfigMap that another operator has made.
func twoEntries(name string) map[string]any {
	cm := configMap(name, "theirs", "1")
	cm["data"] = map[string]any{"theirs": "1", "shared": "1"}
	return cm
}

func TestC148_AdoptionLeavesOtherOperatorsObjects(t *testing.T) {
	scenario(t, "C148", "an object with another operator's labels or mark is never adopted, and a foreign mark is never read for removal")
	first := testkit.New(t, cluster, operator("c148-a", configMapChild()), wanting(twoEntries("labelled"), twoEntries("marked"), twoEntries("bare")))
	first.Create(parent("one", nil))
	settle(t, first)
	first.Stop()
	// What happens to children when their operator is taken away in a hurry.
	patchMeta(t, first.Namespace, "labelled", `{"ownerReferences":null}`)
	patchMeta(t, first.Namespace, "marked", `{"ownerReferences":null,"labels":null}`)
	patchMeta(t, first.Namespace, "bare", `{"ownerReferences":null,"labels":null,"annotations":null}`)
	marks := first.Get(configMap("marked", "", "")).Annotations()
	require.Len(t, marks, 1)

	names := []string{"labelled", "marked"}
	before := map[string]string{}
	for _, name := range names {
		before[name] = first.Get(configMap(name, "", "")).ResourceVersion()
	}
	second := testkit.NewWithOptions(t, cluster, operator("c148-b", adopting()),
		wanting(configMap("labelled", "shared", "2"), configMap("marked", "shared", "2"), configMap("bare", "shared", "2")),
		testkit.KitOptions{Namespace: first.Namespace})
	failing(t, second, parent("one", nil), "ConfigMap "+first.Namespace+"/labelled: already exists and is not managed by c148-b (operator c148-a manages it)")
	failing(t, second, parent("one", nil), "ConfigMap "+first.Namespace+"/marked: already exists and is not managed by c148-b (it carries the mark of operator c148-a)")
	for _, name := range names {
		require.Equal(t, before[name], second.Get(configMap(name, "", "")).ResourceVersion(), name)
	}
	second.Eventually(configMap("bare", "shared", "2"), patience)
	second.Eventually(configMap("bare", "theirs", "1"), patience)

	// A mark that a child of ours carries without our making, such as that of the
	// object it was copied from, removes nothing.
	for name, annotations := range map[string]map[string]string{
		"another operator's": marks,
		"another object's":   second.Get(configMap("bare", "", "")).Annotations(),
	} {
		s := newStage(t, "c148-"+name[8:9]+name[len(name)-3:len(name)-2], adopting())
		copied := twoEntries("copied")
		set := map[string]any{}
		for key, value := range annotations {
			set[key] = value
		}
		s.want(configMap("copied", "shared", "1"))
		metadata(copied)["annotations"] = set
		s.Update(copied) // by hand: another entry, and the mark of something else
		settle(t, s.Kit)
		s.want(configMap("copied", "shared", "3"))
		require.Equal(t, map[string]any{"shared": "3", "theirs": "1"}, s.field(copied, "data"), name)
		require.Len(t, s.Get(copied).Annotations(), 1, name)
	}
}

// hash32 is in the place of a hash.
const hash32 = "0123456789abcdef0123456789abcdef"

func TestC226_AdoptOffered(t *testing.T) {
	scenario(t, "C226", "with AdoptOffered only what is offered to this operator is taken, and never what has another controller or another operator's mark")
	child := configMapChild()
	child.AdoptOffered = true
	s := newStage(t, "adopt-offered", child)
	offered := func(name, to string) map[string]any {
		cm := configMap(name, "whose", "theirs")
		if to != "" {
			metadata(cm)["annotations"] = map[string]any{"roperator.com/adopt": to}
		}
		s.Create(cm)
		return cm
	}
	offered("offered", "adopt-offered")
	offered("to-another", "adopt-elsewhere")
	offered("unasked", "")
	labelled := configMap("by-label", "whose", "theirs")
	metadata(labelled)["labels"] = map[string]any{"roperator.com/adopt": "adopt-offered"}
	s.Create(labelled)
	s.Create(configMap("owner", "k", "v"))
	controlled := configMap("controlled", "whose", "theirs")
	metadata(controlled)["annotations"] = map[string]any{"roperator.com/adopt": "adopt-offered"}
	metadata(controlled)["ownerReferences"] = []any{map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": string(s.Get(configMap("owner", "", "")).UID()), "controller": true,
	}}
	s.Create(controlled)
	marked := configMap("marked", "whose", "theirs")
	metadata(marked)["annotations"] = map[string]any{"roperator.com/adopt": "adopt-offered", "roperator.com/applied": "v2:someone:0:" + hash32 + ":data{whose}"}
	s.Create(marked)

	names := []string{"offered", "by-label", "to-another", "unasked", "controlled", "marked"}
	var wanted []any
	before := map[string]string{}
	for _, name := range names {
		wanted = append(wanted, configMap(name, "whose", "ours"))
		before[name] = s.Get(configMap(name, "", "")).ResourceVersion()
	}
	s.ask(wanted...)
	s.Eventually(configMap("offered", "whose", "ours"), patience)
	s.Eventually(configMap("by-label", "whose", "ours"), patience)
	for _, name := range names[2:] {
		failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/"+name+": already exists and is not managed by adopt-offered")
		require.Equal(t, before[name], s.Get(configMap(name, "", "")).ResourceVersion(), name)
	}
	patchMeta(t, s.Namespace, "to-another", `{"annotations":{"roperator.com/adopt":"adopt-offered"}}`)
	s.Eventually(configMap("to-another", "whose", "ours"), patience)
}

func TestC227_UnlabelledChildOfTheParent(t *testing.T) {
	scenario(t, "C227", "an object whose controller is the parent is restored if by its mark or its managedFields the operator made it, adopted with Adopt, and another operator's otherwise")
	for name, adopts := range map[string]bool{"adopt": true, "strict": false} {
		t.Run(name, func(t *testing.T) {
			child := configMapChild()
			child.Adopt = adopts
			s := newStage(t, "unlabelled-"+name, child)
			s.want(configMap("mark-left", "k", "v"), configMap("nothing-left", "k", "v"))
			s.Stop()
			patchMeta(t, s.Namespace, "mark-left", `{"labels":null}`)
			patchMeta(t, s.Namespace, "nothing-left", `{"labels":null,"annotations":null}`)
			theirs := configMap("theirs", "k", "theirs") // of another operator with the same parent
			metadata(theirs)["ownerReferences"] = []any{map[string]any{
				"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "name": "one", "uid": string(s.Get(parent("one", nil)).UID()), "controller": true,
			}}
			s.Create(theirs)
			s.mu.Lock()
			s.mu.wanted = func(*handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Children: []any{configMap("mark-left", "k", "v"), configMap("nothing-left", "k", "v"), configMap("theirs", "k", "ours")}}
			}
			s.mu.Unlock()
			s.Restart(s.config, handler.SyncFunc(s.sync))
			for _, restored := range []string{"mark-left", "nothing-left"} {
				eventually(t, restored+" is labelled again", func() bool { return len(s.Get(configMap(restored, "", "")).Labels()) == 2 })
			}
			if adopts {
				s.Eventually(configMap("theirs", "k", "ours"), patience)
				settle(t, s.Kit)
				require.Empty(t, s.errors())
				return
			}
			failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/theirs: already exists and is not managed by unlabelled-strict")
			require.Empty(t, s.Get(theirs).Labels())
		})
	}
}

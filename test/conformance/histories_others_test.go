package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/roperator/roperator/resource"
)

// replacedByOthers lets somebody replace a child by another of its states, as with a
// manifest from elsewhere. What can't be replaced stays.
func (h *history) replacedByOthers() {
	h.t.Helper()
	name, live := h.drawChild()
	if live == nil || ordered(h.table[name]) {
		return
	}
	state := h.random.IntN(len(h.table[name].states))
	_, untyped := clients(h.t, "somebody")
	other := h.dryCreate(untyped, live.Type(), h.table[name].state(h.t, name, state)).Object
	for {
		if live = h.Get(live); live == nil {
			return // it is being recreated
		}
		now := live.Unstructured()
		for field, value := range other {
			if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, field) {
				now.Object[field] = keepAllocated(now.Object[field], value)
			}
		}
		_, err := untyped.Resource(plural(live.Type())).Namespace(h.Namespace).Update(h.t.Context(), now, metav1.UpdateOptions{})
		switch {
		case apierrors.IsConflict(err):
			continue
		case apierrors.IsNotFound(err):
			return
		}
		h.note("somebody replaces %s by %s: %v", name, h.table[name].states[state], err)
		if err == nil {
			h.theirs[name] = live.UID()
		} else {
			require.True(h.t, apierrors.IsInvalid(err), err)
		}
		return
	}
}

// keepAllocated returns the other's field with what the API server has allocated for
// a Service that is there.
func keepAllocated(now, other any) any {
	live, _ := now.(map[string]any)
	out, ok := other.(map[string]any)
	if !ok {
		return other
	}
	for _, field := range []string{"clusterIP", "clusterIPs"} {
		if out[field] != nil && live[field] != nil {
			out[field] = live[field]
		}
	}
	return out
}

// labelledByOthers lets somebody give a child a label and an annotation, which stay.
func (h *history) labelledByOthers() {
	h.t.Helper()
	name, live := h.drawChild()
	if live == nil {
		return
	}
	h.note("somebody labels %s", name)
	if h.changed(live, `{"metadata": {"labels": {"theirs": "label"}, "annotations": {"theirs": "annotation"}}}`) {
		h.labelled[name] = live.UID()
	}
}

// changed patches a child. It returns false if the child is gone: in a hurry, it may be on
// its way to be recreated.
func (h *history) changed(live *resource.Resource, patch string) bool {
	h.t.Helper()
	err := h.tryPatch(live.Type(), live.Name(), patch)
	if apierrors.IsNotFound(err) {
		h.note("which is gone")
		return false
	}
	require.NoError(h.t, err)
	return true
}

// stripped lets somebody take from a child what the operator needs to know it by.
func (h *history) stripped() {
	h.t.Helper()
	name, live := h.drawChild()
	if live == nil {
		return
	}
	null := func(of map[string]string) string {
		var out []string
		for key := range of {
			if strings.Contains(key, "roperator.com") {
				out = append(out, `"`+key+`": null`)
			}
		}
		return strings.Join(out, ", ")
	}
	what := []string{"owner references", "labels", "annotations", "managedFields"}[h.random.IntN(4)]
	patch := map[string]string{
		"owner references": `{"metadata": {"ownerReferences": null}}`,
		"labels":           `{"metadata": {"labels": {` + null(live.Labels()) + `}}}`,
		"annotations":      `{"metadata": {"annotations": {` + null(live.Annotations()) + `}}}`,
		"managedFields":    `{"metadata": {"managedFields": [{}]}}`,
	}[what]
	h.note("somebody strips %s of its %s", name, what)
	if !h.changed(live, patch) {
		return
	}
	if what == "annotations" || what == "managedFields" { // nobody knows any more who has said what
		h.theirs[name] = live.UID()
	}
}

// deletedByOthers lets somebody delete a child.
func (h *history) deletedByOthers() {
	h.t.Helper()
	name, live := h.drawChild()
	if live == nil {
		return
	}
	h.note("somebody deletes %s", name)
	h.remove(live)
	eventually(h.t, "another child is there", func() bool {
		now := h.Get(live)
		return now != nil && now.UID() != live.UID()
	})
}

// deletedInPassing lets somebody delete a child, and goes on.
func (h *history) deletedInPassing() {
	h.t.Helper()
	if name, live := h.drawChild(); live != nil {
		h.note("somebody deletes %s in passing", name)
		h.remove(live)
	}
}

// remove lets somebody delete a child, unless it is gone by then. Who deletes what is
// created again and again within a minute is in a conflict loop with the operator, and
// nobody here means to be.
func (h *history) remove(live *resource.Resource) {
	h.t.Helper()
	const seldom, within = 4, 65 * time.Second
	times := h.removed[live.Key()]
	if n := len(times); n >= seldom {
		eventually(h.t, "more than a minute has passed", func() bool { return time.Since(times[n-seldom]) > within })
	}
	h.removed[live.Key()] = append(times, time.Now())
	_, untyped := clients(h.t, "somebody")
	err := untyped.Resource(plural(live.Type())).Namespace(h.Namespace).Delete(h.t.Context(), live.Name(), metav1.DeleteOptions{})
	require.NoError(h.t, client.IgnoreNotFound(err))
}

// giveUp is givenUp, and waits for the operator, which runs.
func (h *history) giveUp() {
	h.t.Helper()
	if h.givenUp(nil) {
		settle(h.t, h.Kit)
		h.told = len(h.errors())
	}
}

// givenUp lets somebody delete the children in which others have set what the API
// server refuses beside the desired state: both stand by what they said, as two who
// apply the same object do. The operator has to say so, in one of its errors since the
// last check or in err, and an apply of the desired state by a third one has to be
// refused as well. givenUp says whether there was such a child, and doesn't wait for
// what follows.
func (h *history) givenUp(err error) (some bool) {
	h.t.Helper()
	said := slices.Clone(h.errors()[h.told:])
	if err != nil {
		said = append(said, err)
	}
	_, untyped := clients(h.t, "somebody")
	for name, uid := range h.theirs {
		i, desired := h.at[name]
		if !desired {
			continue
		}
		child := &unstructured.Unstructured{Object: h.table[name].state(h.t, name, i)}
		live := h.Get(child.Object)
		told := slices.ContainsFunc(said, func(err error) bool { return strings.Contains(err.Error(), "/"+child.GetName()+": ") })
		if live == nil || live.UID() != uid || !told {
			continue
		}
		_, err = untyped.Resource(plural(live.Type())).Namespace(h.Namespace).Apply(h.t.Context(), live.Name(), child,
			metav1.ApplyOptions{FieldManager: "third", Force: true, DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			continue
		}
		h.note("somebody deletes %s, since nobody can have it so: %v", name, err)
		h.remove(live)
		some = true
	}
	return some
}

// underPolicy lets a policy deny all updates of children while other states are asked
// for, or another build starts.
func (h *history) underPolicy() {
	h.t.Helper()
	h.note("a policy denies updates")
	lift := h.freeze()
	h.hindered()
	h.note("the policy goes")
	lift()
	h.freed()
}

// underQuota lets a quota have no room for more objects while other states are asked
// for, or another build starts.
func (h *history) underQuota() {
	h.t.Helper()
	hard := map[string]any{}
	for _, c := range h.config.Children {
		if !strings.Contains(c.Type.APIVersion, "conformance.") {
			of := plural(c.Type)
			hard[strings.TrimSuffix("count/"+of.Resource+"."+of.Group, ".")] = "999"
		}
	}
	h.limit(hard)
	typed, _ := clients(h.t, "somebody")
	eventually(h.t, "the quota counts", func() bool {
		quota, err := typed.CoreV1().ResourceQuotas(h.Namespace).Get(h.t.Context(), "quota", metav1.GetOptions{})
		require.NoError(h.t, err)
		for name := range hard {
			used, ok := quota.Status.Used[corev1.ResourceName(name)]
			if !ok {
				return false
			}
			hard[name] = used.String()
		}
		return true
	})
	h.limit(hard)
	h.note("a quota is used up: %v", hard)
	h.hindered()
	h.note("the quota goes")
	require.NoError(h.t, typed.CoreV1().ResourceQuotas(h.Namespace).Delete(h.t.Context(), "quota", metav1.DeleteOptions{}))
	h.freed()
}

// hindered asks for other states while something is in the way.
func (h *history) hindered() {
	h.t.Helper()
	switch h.random.IntN(3) {
	case 0:
		h.change()
		settle(h.t, h.Kit)
	case 1:
		h.change()
		settle(h.t, h.Kit)
		h.note("restart")
		h.Stop()
		h.restartWith(false)
	default:
		h.note("another build")
		h.Stop()
		h.draw()
		h.restartWith(false)
	}
}

// freed waits until the operator has got done what was in the way, on its own.
func (h *history) freed() {
	h.t.Helper()
	for end := time.Now().Add(patience); ; {
		h.giveUp()
		wrong := ""
		for _, name := range h.names {
			if text := h.differs(name); text != "" && !h.replaceByHand(name) {
				wrong = text
			}
		}
		if wrong == "" {
			break
		}
		require.True(h.t, time.Now().Before(end), wrong)
		settle(h.t, h.Kit)
	}
	settle(h.t, h.Kit)
	h.told = len(h.errors())
}

// freeze lets a policy deny all updates of children, until lift is called. Both return
// when the API server goes by it.
func (h *history) freeze() (lift func()) {
	h.t.Helper()
	var of []schema.GroupResource
	for _, c := range h.config.Children {
		of = append(of, plural(c.Type).GroupResource())
	}
	return denyUpdates(h.t, h.Namespace, of...)
}

// injectAlways gives every container a variable, and adds a container, whatever is
// there already: an update gets what a creation gets.
func injectAlways(object map[string]any) {
	named := func(items []any, name string) bool {
		return slices.ContainsFunc(items, func(item any) bool { return item.(map[string]any)["name"] == name })
	}
	containers := containersOf(object)
	if !named(containers, "sidecar") {
		containers = append([]any{map[string]any{"name": "sidecar", "image": "example.com/mesh:1"}}, containers...)
	}
	for _, c := range containers {
		c := c.(map[string]any)
		if env, _ := c["env"].([]any); !named(env, "MESH") {
			c["env"] = append([]any{map[string]any{"name": "MESH", "value": "on"}}, env...)
		}
	}
	podSpec(object)["containers"] = containers
}

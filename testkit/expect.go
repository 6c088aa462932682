package testkit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/resource"
)

// Eventually waits until the live object satisfies obj, by the comparison by
// which the engine decides whether a child must be updated: what obj sets
// counts, what it doesn't is free, as for [Plan.WantCreate]. Unlike for children,
// a status in obj that isn't empty is compared too, with all that a typed one
// is encoded with, but for its conditions: these are compared by type. When the timeout expires, or the operator has
// stopped of itself, the test fails with the fields that differ; data of
// Secrets is left out.
func (k *Kit) Eventually(obj any, timeout time.Duration) {
	k.t.Helper()
	ref, wanted, err := k.wanted(obj)
	if err != nil {
		k.t.Fatalf("testkit: eventually: %v", err)
	}
	engine, err := k.engine()
	if err != nil {
		k.t.Fatalf("testkit: eventually: %v", err)
	}
	var state string
	err = k.await(timeout, func(ctx context.Context) (bool, error) {
		live, err := ref.get(ctx)
		if err != nil {
			return false, err
		}
		if live == nil {
			state = "it doesn't exist"
			return false, nil
		}
		differences, err := engine.Compare(live, wanted)
		if err != nil {
			return false, err
		}
		state = formatDifferences(ref.typ, differences)
		return len(differences) == 0, nil
	})
	if err != nil {
		k.t.Fatalf("testkit: %s isn't as wanted: %v\n%s", ref, err, k.withErrors(state))
	}
}

// EventuallyExists waits until the object exists.
func (k *Kit) EventuallyExists(obj any, timeout time.Duration) {
	k.t.Helper()
	ref, err := k.refer(obj)
	if err != nil {
		k.t.Fatalf("testkit: eventually exists: %v", err)
	}
	err = k.await(timeout, func(ctx context.Context) (bool, error) {
		live, err := ref.get(ctx)
		return live != nil, err
	})
	if err != nil {
		k.t.Fatalf("testkit: %s doesn't exist: %s", ref, k.withErrors(err.Error()))
	}
}

// EventuallyGone waits until the object doesn't exist. If obj carries a UID,
// as what Get returns does, an object of that name with another one isn't it.
func (k *Kit) EventuallyGone(obj any, timeout time.Duration) {
	k.t.Helper()
	ref, u, err := k.object(obj)
	if err != nil {
		k.t.Fatalf("testkit: eventually gone: %v", err)
	}
	var state string
	err = k.await(timeout, func(ctx context.Context) (bool, error) {
		live, err := ref.get(ctx)
		if err != nil || live == nil || u.GetUID() != "" && u.GetUID() != live.UID() {
			return err == nil, err
		}
		if state = "nobody has deleted it"; live.IsDeleting() {
			state = fmt.Sprintf("it is being deleted since %s; finalizers: %q",
				live.DeletionTimestamp().Format(time.TimeOnly), live.Finalizers())
		}
		return false, nil
	})
	if err != nil {
		k.t.Fatalf("testkit: %s still exists: %v\n%s", ref, err, k.withErrors(state))
	}
}

// await asks until done, an error, the timeout, or the operator's unexpected
// end: at once and then again and again, at least once however short the
// timeout is. The error for a timeout names it.
func (k *Kit) await(limit time.Duration, done wait.ConditionWithContextFunc) error {
	ctx, cancel := timeout(limit)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		request, cancel := timeout(requestTimeout) // the answer counts even if it is late
		defer cancel()
		ok, err := done(request)
		if !ok && err == nil && k.op != nil && !k.op.told {
			if ended := k.op.ended(); ended != nil && k.op.err != nil {
				return false, fmt.Errorf("the operator has %w", ended)
			}
		}
		return ok, err
	})
	if wait.Interrupted(err) && ctx.Err() != nil {
		return fmt.Errorf("after %v", limit)
	}
	return err
}

// engine returns that of the operator that was started last; stopped, it can
// still be asked.
func (k *Kit) engine() (*reconcile.Engine, error) {
	if k.op != nil {
		if e := k.op.manager.Engine(); e != nil {
			return e, nil
		}
	}
	return nil, fmt.Errorf("the operator hasn't started")
}

// wanted returns obj without what it doesn't set. A status is returned whole, unless it
// sets nothing.
func (k *Kit) wanted(obj any) (reference, map[string]any, error) {
	ref, encoded, err := k.object(obj)
	if err != nil {
		return ref, nil, err
	}
	out := encoded.DeepCopy().Object
	inner, _ := encode.Inner(obj)
	dropUnset(reflect.ValueOf(inner), out)
	status := out["status"]
	if fields, ok := status.(map[string]any); status == nil || ok && len(fields) == 0 {
		delete(out, "status")
	} else {
		out["status"] = encoded.Object["status"]
	}
	return ref, out, nil
}

// formatDifferences returns a line for each field.
func formatDifferences(t resource.Type, differences []merge.Difference) string {
	lines := make([]string, 0, len(differences))
	for _, d := range differences {
		live, wanted := formatValue(d.Live), formatValue(d.Desired)
		if isSecret(t, d.Path) {
			live, wanted = secretValue(d.Live), secretValue(d.Desired)
		}
		lines = append(lines, fmt.Sprintf("  %s: live %s, want %s", cmp.Or(d.Path, "(the whole object)"), live, wanted))
	}
	return strings.Join(lines, "\n")
}

// isSecret says whether a field's value may not be shown: what isn't known not
// to hold data of a Secret.
func isSecret(t resource.Type, path string) bool {
	if t.Kind != "Secret" {
		return false
	}
	for _, public := range []string{"type", "immutable", "kind", "apiVersion", "metadata.labels", "metadata.finalizers", "metadata.ownerReferences"} {
		if rest, ok := strings.CutPrefix(path, public); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return false
		}
	}
	return true
}

func secretValue(value any) string {
	if value == nil {
		return "absent"
	}
	return "(not shown)"
}

// maxValue is how much of a value is shown.
const maxValue = 500

func formatValue(value any) string {
	if value == nil {
		return "absent"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%v", value)
	}
	if len(text) > maxValue {
		return fmt.Sprintf("%s… (%d bytes)", text[:maxValue], len(text))
	}
	return string(text)
}

// parentKey returns the key of a parent, given any object that names it.
func (k *Kit) parentKey(parent any) types.NamespacedName {
	k.t.Helper()
	_, key, err := encode.Identity(parent)
	if err != nil {
		k.t.Fatalf("testkit: parent: %v", err)
	}
	if k.clusterScoped {
		key.Namespace = ""
	} else if key.Namespace == "" {
		key.Namespace = k.Namespace
	}
	return key
}

// Snapshot returns what the next call of the handler for the parent would get,
// nil if the operator doesn't know the parent. It includes everything that the
// Kit has written.
func (k *Kit) Snapshot(parent any) *handler.SyncRequest {
	k.t.Helper()
	key := k.parentKey(parent)
	engine, err := k.engine()
	if err != nil {
		k.t.Fatalf("testkit: snapshot of %s: %v", key, err)
	}
	var missing string
	err = k.await(requestTimeout, func(ctx context.Context) (bool, error) {
		missing, err = k.unobserved(ctx)
		return missing == "", err
	})
	if err != nil {
		k.t.Fatalf("testkit: snapshot of %s: %v: %s", key, err, missing)
	}
	req, _ := engine.Snapshot(key)
	return req
}

// HandlerErrors returns the errors of the parent's passes since the operator
// was started, oldest first, the newest 100: those that the handler returned,
// of invalid responses, and of writes.
//
// The first two fail the test in the end, or at a Restart, unless the
// test has asked for them: HandlerErrors has returned errors of the parent at some time
// before, or Events one about such an error. KitOptions.AllowHandlerErrors is for a test that
// doesn't care.
func (k *Kit) HandlerErrors(parent any) []error {
	k.t.Helper()
	key := k.parentKey(parent)
	engine, err := k.engine()
	if err != nil {
		k.t.Fatalf("testkit: errors of %s: %v", key, err)
	}
	errs := engine.Errors(key)
	if len(errs) > 0 {
		k.asked.add(key)
	}
	return errs
}

// Waits says what the parent's last pass waited for, in the words of the log and the Events,
// such as "not creating Deployment web before StatefulSet db is there and ready". It returns
// nothing if it waited for nothing. An operator that only waits has settled.
func (k *Kit) Waits(parent any) []string {
	k.t.Helper()
	key := k.parentKey(parent)
	engine, err := k.engine()
	if err != nil {
		k.t.Fatalf("testkit: waits of %s: %v", key, err)
	}
	return engine.Waits(key)
}

// Syncs returns how often the handler's Sync was called for the parent, by
// name: calls for a predecessor of that name count.
func (k *Kit) Syncs(parent any) int {
	k.t.Helper()
	return k.calls.get(k.calls.mu.syncs, k.parentKey(parent))
}

// Finalizes returns how often the handler's Finalize was called for the
// parent, as Syncs does.
func (k *Kit) Finalizes(parent any) int {
	k.t.Helper()
	return k.calls.get(k.calls.mu.finalizes, k.parentKey(parent))
}

// Events returns the Events about the object, oldest first, each as
// "Warning Reason Message". An Event that only counts how often it happened is
// listed once.
func (k *Kit) Events(obj any) []string {
	k.t.Helper()
	ref, err := k.refer(obj)
	if err != nil {
		k.t.Fatalf("testkit: events: %v", err)
	}
	namespace := ref.key.Namespace
	if namespace == "" {
		namespace = corev1.NamespaceAll
	}
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	list, err := k.clients.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		k.t.Fatalf("testkit: events of %s: %v", ref, err)
	}
	found := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		r := e.Regarding
		return r.Kind != ref.typ.Kind || r.Name != ref.key.Name || r.Namespace != ref.key.Namespace
	})
	slices.SortStableFunc(found, func(a, b eventsv1.Event) int {
		return cmp.Or(a.EventTime.Compare(b.EventTime.Time), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	lines := make([]string, 0, len(found))
	for _, e := range found {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Note))
		if ref.typ == k.config.Parent && slices.Contains(failureReasons(), e.Reason) {
			k.asked.add(ref.key)
		}
	}
	return lines
}

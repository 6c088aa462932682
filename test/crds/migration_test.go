package crds

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/definitions"
	"github.com/roperator/roperator/internal/testing/operatorproc"
)

// many are more objects than a migration lists at once, so that it tells of its progress
// when there are still some to rewrite.
const many = 700

// create creates an object.
func (w *world) create(version, name string, size int) {
	w.Helper()
	_, err := w.widgets(version).Create(w.Context(), w.widget(version, name, size), metav1.CreateOptions{})
	require.NoError(w, err)
}

// fill creates count objects, whose names have this format. Their sizes are their numbers.
func (w *world) fill(version, format string, count int) {
	w.Helper()
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(8)
	for i := range count {
		group.Go(func() error {
			_, err := w.widgets(version).Create(ctx, w.widget(version, fmt.Sprintf(format, i), i), metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(w, group.Wait())
}

func (w *world) widget(version, name string, size int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": w.group + "/" + version, "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": int64(size)},
	}}
}

// sizes returns the size of each object. That an API server can read an object says that it
// is stored in a version of the definition.
func (w *world) sizes(version string) map[string]int64 {
	w.Helper()
	list, err := w.widgets(version).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	out := map[string]int64{}
	for _, item := range list.Items {
		out[item.GetName()], _, err = unstructured.NestedInt64(item.Object, "spec", "size")
		require.NoError(w, err)
	}
	return out
}

// aged has a definition with many objects, half of the way from v1 to v2.
func aged(t *testing.T, group string) (w *world, want map[string]int64) {
	w = newWorld(t, group)
	require.NoError(t, w.install(w.text("v1"), definitions.Options{}))
	want = map[string]int64{}
	w.fill("v1", "w%03d", many)
	for i := range many {
		want[fmt.Sprintf("w%03d", i)] = int64(i)
	}
	require.NoError(t, w.install(w.text("v1", "v2"), definitions.Options{}))
	require.Equal(t, []string{"v1", "v2"}, w.stored())
	return w, want
}

// People edit, create and delete objects until they are told to stop, and keep want up to date.
func (w *world) people(want map[string]int64) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // ends when stop is called
		for i := 0; ctx.Err() == nil; i++ {
			edited, deleted, created := fmt.Sprintf("w%03d", i*37%many), fmt.Sprintf("w%03d", i*59%many), fmt.Sprint("new", i)
			version := []string{"v1", "v2"}[i%2]
			if _, ok := want[edited]; ok {
				_, err := w.widgets(version).Patch(w.Context(), edited, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"size":%d}}`, 1000+i), metav1.PatchOptions{})
				if w.NoError(err) {
					want[edited] = int64(1000 + i)
				}
			}
			if _, ok := want[deleted]; ok && i%5 == 0 {
				w.NoError(w.widgets(version).Delete(w.Context(), deleted, metav1.DeleteOptions{}))
				delete(want, deleted)
			}
			_, err := w.widgets(version).Create(w.Context(), w.widget(version, created, i), metav1.CreateOptions{})
			if w.NoError(err) {
				want[created] = int64(i)
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// NoError says whether an error is none. The test goes on if it is one, and fails.
func (w *world) NoError(err error) bool {
	w.Helper()
	if err != nil {
		w.Errorf("%v", err)
	}
	return err == nil
}

// ends goes the rest of the way to v2. It fails if an object is left in v1.
func (w *world) ends(want map[string]int64) {
	w.Helper()
	require.Equal(w, []string{"v2"}, w.stored())
	require.NoError(w, w.install(w.text("v2"), definitions.Options{}))
	require.Equal(w, []string{"v2"}, w.served())
	require.Equal(w, want, w.sizes("v2"))
}

// A migration that is stopped midway is done by the next one.
func TestMigrationStopped(t *testing.T) {
	t.Parallel()
	for group, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "terminated": syscall.SIGTERM} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			w, want := aged(t, group)
			stop := w.people(want)
			p := w.begun("v1+v2", "migrate-storage")
			p.Says(w.name() + ": 250 objects rewritten")
			p.Signal(signal)
			require.NotZero(t, p.Exit())
			require.NotContains(t, p.Said(), "status.storedVersions is [v2]", "it was stopped midway")
			if signal == syscall.SIGTERM {
				require.Contains(t, p.Said(), "status.storedVersions is left as it is: run migrate-storage again")
			}
			require.Equal(t, []string{"v1", "v2"}, w.stored())
			require.ErrorContains(t, w.install(w.text("v2"), definitions.Options{}), "run migrate-storage")

			p, second := w.begun("v1+v2", "migrate-storage"), w.begun("v1+v2", "migrate-storage")
			require.Zero(t, p.Exit())
			require.Zero(t, second.Exit(), "two at once are harmless")
			stop()
			w.ends(want)
		})
	}
}

// rolledBack begins a migration and stops it in the middle, where it stands still, and has the
// definition store in the old version again.
func (w *world) rolledBack() *operatorproc.Process {
	w.T.Helper()
	p := w.begun("v1+v2", "migrate-storage")
	p.Says(w.name() + ": 250 objects rewritten")
	p.Freeze()
	w.store("v1")
	return p
}

// Whoever rolls back in the middle of a migration, and forward again, has objects stored in
// the old version that the migration has been at already.
func TestMigrationRolledBack(t *testing.T) {
	t.Parallel()
	w, want := aged(t, "midway")
	p := w.rolledBack()
	for i := range 20 {
		name := fmt.Sprint("late", i)
		w.create("v1", name, i)
		want[name] = int64(i)
		_, err := w.widgets("v2").Patch(t.Context(), fmt.Sprintf("w%03d", i), types.MergePatchType, []byte(`{"spec":{"size":-1}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		want[fmt.Sprintf("w%03d", i)] = -1
	}
	w.store("v2")
	p.Signal(syscall.SIGCONT)
	require.Zero(t, p.Exit())
	require.Contains(t, p.Said(), "the definition has changed meanwhile; the objects are rewritten once more")
	w.ends(want)
}

// A roll-back that stays ends the migration, and drops nothing.
func TestMigrationRolledBackForGood(t *testing.T) {
	t.Parallel()
	w, _ := aged(t, "forgood")
	p := w.rolledBack()
	p.Signal(syscall.SIGCONT)
	require.Equal(t, 1, p.Exit())
	require.Contains(t, p.Said(), "the storage version was v2 and is v1 now")
	require.Equal(t, []string{"v1", "v2"}, w.stored())
}

// store has objects stored in one of two versions, and waits until the API server does so.
func (w *world) store(version string) {
	w.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/0/storage","value":%t},{"op":"replace","path":"/spec/versions/1/storage","value":%t}]`, version == "v1", version == "v2")
	_, err := w.definitions().Patch(w.Context(), w.name(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: "widgets"})
	require.NoError(w, err)
	// An object that is stored in the other version has another resourceVersion after a
	// patch that changes nothing.
	probe := w.widgets("v2")
	before, err := probe.Get(w.Context(), "w000", metav1.GetOptions{})
	require.NoError(w, err)
	require.Eventually(w, func() bool {
		after, err := probe.Patch(w.Context(), "w000", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		return err == nil && after.GetResourceVersion() != before.GetResourceVersion()
	}, generous, 20*time.Millisecond, "objects are stored in %s", version)
}

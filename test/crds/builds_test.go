package crds

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/runner"
)

// groupVariable is the environment variable that has the group of a build's definition.
const groupVariable = "ROPERATOR_TEST_GROUP"

// beBuild is the main function of a build in a process of its own. versions are those of its
// definition, separated by "+"; it watches the first one. It begins when it is told to.
func beBuild(versions string) {
	fmt.Println("waiting for the word")
	_, _ = fmt.Fscanln(os.Stdin) // what it reads doesn't matter
	group, names := os.Getenv(groupVariable), strings.Split(versions, "+")
	cfg := config.Operator{
		Name: "widgets", Domain: "crds.example.com", Parent: resource.Type{APIVersion: group + "/" + names[0], Kind: "Widget"},
		CRDs: [][]byte{[]byte(definitionText(group, names...))},
	}
	runner.Main(cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{}}, nil
	}))
}

// build starts a build, which waits for the word.
func (w *world) build(versions string, args ...string) *operatorproc.Process {
	w.Helper()
	p := operatorproc.Command{Name: versions, Args: args, Env: []string{"KUBECONFIG=" + cluster.Kubeconfig(), groupVariable + "=" + w.group}}.Start(w.T)
	p.Says("waiting for the word")
	return p
}

// begun starts a build that doesn't wait.
func (w *world) begun(versions string, args ...string) *operatorproc.Process {
	w.Helper()
	p := w.build(versions, args...)
	p.Word()
	return p
}

// watched notes each state of the definition, until stop is called: its versions, of which
// the stored one has a star.
func (w *world) watched() (stop func() []string) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	watcher, err := w.definitions().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.name()})
	require.NoError(w, err)
	var seen []string
	ended := make(chan struct{})
	go func() { // ends with the watch, which stop ends
		defer close(ended)
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			var names []string
			for _, v := range crd.Of(object.Object).Versions {
				if v.Storage {
					v.Name += "*"
				}
				names = append(names, v.Name)
			}
			seen = append(seen, fmt.Sprint(object.GetGeneration(), " ", strings.Join(names, "+")))
		}
	}()
	return func() []string {
		cancel()
		<-ended
		return slices.Compact(seen)
	}
}

// Builds of which one is newer begin as processes at the same moment, on a cluster without
// the definition or with the older one. Whatever the order, the newer definition is there in
// the end, and was never taken back; the newer build works, and the older one works or says
// what to do.
func TestProcessesAtOnce(t *testing.T) {
	t.Parallel()
	for round := range 8 {
		w := newWorld(t, fmt.Sprint("processes", round))
		installed := round%2 == 1
		if installed {
			require.Zero(t, w.installOnce("v1").Exit())
			w.create("v1", "kept", 7)
		}
		states := w.watched()
		older := []*operatorproc.Process{w.build("v1", atWork()...), w.build("v1", atWork()...)}
		newer := []*operatorproc.Process{w.build("v1+v2", atWork()...), w.build("v1+v2", atWork()...)}
		all := append(slices.Clone(older), newer...)
		if round%4 >= 2 {
			slices.Reverse(all) // who is told first is a little ahead
		}
		for _, p := range all {
			p.Word()
		}
		for _, p := range all {
			require.Eventually(t, func() bool { return p.Ended() || strings.Contains(p.Said(), "msg=started") }, generous, 50*time.Millisecond, "it works, or ends")
		}
		require.Equal(t, []string{"v1", "v2"}, w.served())
		if !installed {
			w.create("v1", "kept", 7)
		}
		require.EqualValues(t, 7, w.sizes("v2")["kept"], "no object is lost")
		for i, p := range older {
			if p.Ended() {
				require.Equal(t, 1, p.Exit(), "build %d", i)
				require.Contains(t, p.Said(), "run this build without --install-crds", "it says what to do")
				continue
			}
			p.Signal(syscall.SIGTERM)
			require.Zero(t, p.Exit())
		}
		for _, p := range newer {
			require.False(t, p.Ended(), "the newer build works: %s", p.Said())
			p.Signal(syscall.SIGTERM)
			require.Zero(t, p.Exit())
		}
		seen := states()
		if len(seen) > 0 && seen[0] == "1 v1*" {
			seen = seen[1:]
		}
		require.Len(t, seen, 1, "nothing is taken back")
		require.Contains(t, []string{"1 v1+v2*", "2 v1+v2*"}, seen[0])
	}
}

// atWork are the arguments of a build that installs its definition and works.
func atWork() []string {
	return []string{"run", "--install-crds", "--namespace=default", "--metrics-bind-address=0", "--health-probe-bind-address=0"}
}

// installOnce has a build install its definition, and end.
func (w *world) installOnce(versions string) *operatorproc.Process {
	w.Helper()
	p := w.begun(versions, atWork()...)
	p.Says("msg=started")
	p.Signal(syscall.SIGTERM)
	return p
}

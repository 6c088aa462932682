package uninstall

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/internal/testing/operatorproc"
)

// patience only bounds a hang.
const patience = 4 * time.Minute

// finalizer is the operator's on its parents.
const finalizer = "roperator.com/leaver"

// A stage is a namespace in which an operator works, and has its Lease.
type stage struct {
	t         *testing.T
	namespace string
	admin     *kubernetes.Clientset
	dynamic   dynamic.Interface
	parents   dynamic.ResourceInterface
	program   string // the name of the processes
}

func newStage(t *testing.T, program string) *stage {
	t.Helper()
	if !cluster.HasControllerManager() {
		t.Skip("needs a kube-controller-manager, which collects garbage")
	}
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	made, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "uninstall-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return &stage{t: t, namespace: made.Name, admin: admin, dynamic: client, parents: client.Resource(resourceOf("parents")).Namespace(made.Name), program: program}
}

func resourceOf(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "conformance.roperator.com", Version: "v1", Resource: plural}
}

// start starts a process of the program, as an administrator.
func (s *stage) start(args ...string) *operatorproc.Process {
	s.t.Helper()
	return operatorproc.Start(s.t, s.program, cluster.Kubeconfig(), append(args, "--namespace="+s.namespace, "--leader-elect-resource-namespace="+s.namespace)...)
}

// run starts the operator, and waits until it works.
func (s *stage) run() *operatorproc.Process {
	s.t.Helper()
	p := s.start("run", "--leader-elect", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	p.Says("msg=leading")
	return p
}

// uninstall carries out the subcommand, and returns the exit code and what it said.
func (s *stage) uninstall(args ...string) (int, string) {
	s.t.Helper()
	p := s.start(append([]string{"uninstall"}, args...)...)
	code := p.Exit()
	return code, p.Said()
}

// create creates a parent, and waits until it is served.
func (s *stage) create(name string, annotations map[string]any) {
	s.t.Helper()
	_, err := s.parents.Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": parentType().APIVersion, "kind": parentType().Kind, "metadata": map[string]any{"name": name, "annotations": annotations},
	}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.eventually("the child of "+name, func() bool { return len(s.children(name)) == 1 })
}

func (s *stage) eventually(what string, condition func() bool) {
	s.t.Helper()
	require.Eventually(s.t, condition, patience, 50*time.Millisecond, what)
}

// children returns the ConfigMap of this name, if there is one.
func (s *stage) children(names ...string) []corev1.ConfigMap {
	s.t.Helper()
	all, err := s.admin.CoreV1().ConfigMaps(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	var out []corev1.ConfigMap
	for _, c := range all.Items {
		for _, name := range names {
			if c.Name == name {
				out = append(out, c)
			}
		}
	}
	return out
}

// all returns the parents.
func (s *stage) all() []unstructured.Unstructured {
	s.t.Helper()
	list, err := s.parents.List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	return list.Items
}

// stop ends the operator.
func stop(t *testing.T, p *operatorproc.Process) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	require.Zero(t, p.Exit())
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason               string
		args                 []string
		keepParents, keepAll bool // keepAll: the children, as nobody's
	}{
		"Everything":   {"the operator finalizes, the garbage collector collects", nil, false, false},
		"KeepChildren": {"nobody collects what is nobody's", []string{"--keep-children"}, false, true},
		"KeepParents":  {"nothing is deleted", []string{"--keep-parents"}, true, false},
		"KeepBoth":     {"nothing is deleted", []string{"--keep-parents", "--keep-children"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "leaver")
			operator := s.run()
			names := []string{"a", "b", "c"}
			for _, name := range names {
				s.create(name, nil)
			}
			before := s.children(names...)
			code, said := s.uninstall(append([]string{"--dry-run"}, tc.args...)...)
			require.Zero(t, code, said)
			require.Contains(t, said, "3 parents: "+s.namespace+"/a, ")
			require.Contains(t, said, "3 ConfigMaps: "+s.namespace+"/a, ")
			code, said = s.uninstall(tc.args...)
			require.Equal(t, 1, code, said)
			require.Contains(t, said, "no terminal to ask on; use --yes")
			require.Len(t, s.all(), 3, "nothing was done")

			code, said = s.uninstall(append([]string{"--yes"}, tc.args...)...)
			require.Zero(t, code, said)
			require.Contains(t, said, "leaver: nothing is left", tc.reason)
			require.Contains(t, said, "Remove next")
			if tc.keepParents {
				require.Contains(t, said, "The parents stay paused, since an operator works")
			}
			stop(t, operator)
			require.NotContains(t, operator.Said(), "level=ERROR")
			code, said = s.uninstall(append([]string{"--yes"}, tc.args...)...)
			require.Zero(t, code, said)
			require.NotContains(t, said, "paused")

			if left := s.all(); tc.keepParents {
				require.Len(t, left, 3, tc.reason)
				for _, parent := range left {
					require.Empty(t, parent.GetFinalizers())
					require.Empty(t, parent.GetAnnotations())
				}
			} else {
				require.Empty(t, left, tc.reason)
			}
			left := s.children(names...)
			if !tc.keepParents && !tc.keepAll {
				require.Empty(t, left)
				return
			}
			require.Len(t, left, 3)
			for i, child := range left {
				require.Equal(t, before[i].UID, child.UID, "the same one as before")
				require.Equal(t, tc.keepAll, len(child.OwnerReferences) == 0)
				require.Equal(t, tc.keepAll, len(child.Labels) == 0)
			}
		})
	}
}

// What outlives its parent by its configuration stays, whoever finalizes, and isn't told of as something that goes.
func TestUninstall_Retain(t *testing.T) {
	t.Parallel()
	for name, working := range map[string]bool{"by the operator": true, "by this process": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "retains")
			operator := s.run()
			s.create("a", nil)
			before := s.children("a")
			args := []string{"--yes"}
			if !working {
				stop(t, operator)
				args = append(args, "--finalize")
			}
			code, said := s.uninstall(args...)
			require.Zero(t, code, said)
			require.Contains(t, said, "  keeps, as nobody's, for their types have Retain, 1 child\n    1 ConfigMap: "+s.namespace+"/a\n")
			require.NotContains(t, said, "with them go")
			require.Contains(t, said, "leaver: nothing is left but children that were to stay, since their types have Retain.")
			require.Empty(t, s.all())
			left := s.children("a")
			require.Len(t, left, 1)
			require.Equal(t, before[0].UID, left[0].UID)
			require.Empty(t, left[0].OwnerReferences)
			if working {
				stop(t, operator)
			}
		})
	}
}

// Without an operator nobody finalizes: that is said, and --finalize mends it.
func TestUninstall_NoOperator(t *testing.T) {
	t.Parallel()
	s := newStage(t, "leaver")
	operator := s.run()
	s.create("a", nil)
	code, said := s.uninstall("--yes", "--finalize")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "so an operator works, and finalizes the parents; leave out --finalize")
	require.Nil(t, s.all()[0].GetDeletionTimestamp())
	operator.Signal(syscall.SIGKILL) // it doesn't give its Lease back
	operator.Exit()

	code, said = s.uninstall("--yes", "--drain=4m")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "so no operator works that would take its finalizer off")
	require.Contains(t, said, "held by the finalizers "+finalizer)
	code, said = s.uninstall("--yes", "--finalize")
	require.Zero(t, code, said)
	require.Empty(t, s.all())
	require.Empty(t, s.children("a"))
}

// Parents that come meanwhile, an interruption, and a second run.
func TestUninstall_Interrupted(t *testing.T) {
	t.Parallel()
	s := newStage(t, "leaver")
	operator := s.run()
	s.create("a", nil)
	s.create("held", map[string]any{"held": "yes"})
	first := s.start("uninstall", "--yes")
	s.eventually("a is finalized", func() bool { return len(s.all()) == 1 })
	s.create("late", nil)
	first.Signal(syscall.SIGINT)
	require.Equal(t, 1, first.Exit())
	require.Contains(t, first.Said(), "run it again to go on")
	require.Contains(t, first.Said(), "leaver: created meanwhile, and left alone: 1 parent: "+s.namespace+"/late")
	require.Contains(t, first.Said(), "Parent "+s.namespace+"/held is being deleted")

	code, said := s.uninstall("--yes", "--drain=3s")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "leaver: left are 1 parent: "+s.namespace+"/held")
	_, err := s.parents.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"annotations":{"held":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	code, said = s.uninstall("--yes")
	require.Zero(t, code, said)
	require.Empty(t, s.all())
	require.Empty(t, s.children("a", "held", "late"))
	stop(t, operator)
}

// The operator whose children are the parents of the other one leaves first.
func TestUninstall_TwoOperators(t *testing.T) {
	t.Parallel()
	s := newStage(t, "both")
	operator := s.run()
	above := s.dynamic.Resource(schema.GroupVersionResource{Group: "uninstall.roperator.com", Version: "v1", Resource: "aboves"}).Namespace(s.namespace)
	_, err := above.Create(t.Context(), &unstructured.Unstructured{Object: object("uninstall.roperator.com/v1", "Above", "top")}, metav1.CreateOptions{})
	require.NoError(t, err)
	s.create("own", nil)
	s.eventually("the parent that is a child", func() bool { return len(s.children("own", "made")) == 2 })
	code, said := s.uninstall("--yes")
	require.Zero(t, code, said)
	require.Contains(t, said, "above: nothing is left.\nleaver: nothing is left.\n")
	require.Empty(t, s.all())
	stop(t, operator)
}

// What isn't allowed is named before anything is done.
func TestUninstall_Forbidden(t *testing.T) {
	t.Parallel()
	s := newStage(t, "leaver")
	kubeconfig := operatorproc.Kubeconfig(t, cluster.Kubeconfig(), "nobody", false)
	operator := s.run()
	s.create("a", nil)
	for _, args := range [][]string{{}, {"--keep-children"}, {"--keep-parents"}} {
		p := operatorproc.Start(t, "leaver", kubeconfig, append([]string{"uninstall", "--yes", "--namespace=" + s.namespace, "--leader-elect-resource-namespace=" + s.namespace}, args...)...)
		require.Equal(t, 1, p.Exit())
		require.Contains(t, p.Said(), "parents.conformance.roperator.com: ")
		require.Contains(t, p.Said(), fmt.Sprintf("forbidden in the namespace %s; add the rule", s.namespace))
	}
	require.Nil(t, s.all()[0].GetDeletionTimestamp())
	require.Empty(t, s.all()[0].GetAnnotations())
	stop(t, operator)
}

// TestUninstall_Shards: shards share their leases, so that nothing can be let go beside them. Nothing is deleted then.
// Once they are gone, all is done.
func TestUninstall_Shards(t *testing.T) {
	t.Parallel()
	s := newStage(t, "leaver")
	p := s.start("run", "--shards=2", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	p.Says("msg=leading")
	names := []string{"a", "b", "c"}
	for _, name := range names {
		s.create(name, nil)
	}
	code, said := s.uninstall("--yes", "--keep-children")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "scale the deployed operator to zero first")
	require.Len(t, s.all(), 3)
	require.Len(t, s.children(names...), 3)
	stop(t, p)
	code, said = s.uninstall("--yes", "--keep-children", "--finalize")
	require.Zero(t, code, said)
	require.Empty(t, s.all())
	require.Len(t, s.children(names...), 3, "they stay")
}

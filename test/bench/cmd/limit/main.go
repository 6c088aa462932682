// Command limit is no operator but what one would be at best: it issues the
// writes that are needed and no others by plain client-go, and reads of the
// watches, whose bytes it discards, only which parent has changed and which
// ConfigMap is gone.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/test/bench/app"
	"github.com/roperator/roperator/test/bench/measure"
)

// workers is how many parents are worked on at once.
const workers = 16

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		os.Exit(1)
	}
}

// A task is what there is to do.
type task struct {
	parent  app.App
	restore string // suffix of the one ConfigMap to create; "": the parent has changed
}

type limit struct {
	client   kubernetes.Interface
	rest     rest.Interface
	measured *measure.Operator
	tasks    *queue

	mu struct {
		sync.Mutex
		parents map[string]app.App
	}
}

func run(ctx context.Context) error {
	measured, cfg, err := measure.Start()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &limit{client: client, rest: client.CoreV1().RESTClient(), measured: measured, tasks: newQueue()}
	l.mu.parents = map[string]app.App{}
	context.AfterFunc(ctx, l.tasks.close)

	var group sync.WaitGroup
	watch := func(path string, each func([]byte) error) {
		group.Go(func() {
			err := measure.Events(ctx, l.rest, path, func(line []byte) bool {
				if err := each(line); err != nil {
					cancel(err)
					return false
				}
				return true
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	watch(parentsPath, l.parentEvent)
	watch("/api/v1/namespaces/"+app.Namespace+"/configmaps", l.configMapEvent)
	watch("/api/v1/namespaces/"+app.Namespace+"/services", func([]byte) error { return nil })
	watch("/apis/apps/v1/namespaces/"+app.Namespace+"/deployments", func([]byte) error { return nil })
	for range workers {
		group.Go(func() {
			for {
				t, ok := l.tasks.take()
				if !ok {
					return
				}
				if err := l.do(ctx, t); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

const parentsPath = "/apis/bench.roperator.com/v1/namespaces/" + app.Namespace + "/apps"

func (l *limit) parentEvent(line []byte) error {
	var event struct{ Object app.App }
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("parents: %w", err)
	}
	parent := event.Object
	parent.ManagedFields = nil
	l.mu.Lock()
	known, ok := l.mu.parents[parent.Name]
	l.mu.parents[parent.Name] = parent
	l.mu.Unlock()
	if ok && known.Generation == parent.Generation {
		return nil // an echo
	}
	l.measured.Handled(parent.Name)
	if parent.Status.ObservedGeneration != parent.Generation {
		l.tasks.put(task{parent: parent})
	}
	return nil
}

func (l *limit) configMapEvent(line []byte) error {
	if !measure.IsEvent(line, "DELETED") {
		return nil
	}
	name := measure.NameOf(line)
	for _, suffix := range app.Suffixes() {
		if owner, ok := strings.CutSuffix(name, suffix); ok {
			l.mu.Lock()
			parent := l.mu.parents[owner]
			l.mu.Unlock()
			l.tasks.put(task{parent: parent, restore: suffix})
		}
	}
	return nil
}

func (l *limit) do(ctx context.Context, t task) error {
	if t.restore != "" {
		_, err := l.client.CoreV1().ConfigMaps(app.Namespace).Create(ctx, owned(t.parent.ConfigMap(t.restore), t.parent), metav1.CreateOptions{})
		return err
	}
	changed := len(t.parent.Finalizers) > 0
	if !changed {
		patch := fmt.Sprintf(`{"metadata":{"finalizers":[%q],"resourceVersion":%q}}`, app.Finalizer, t.parent.ResourceVersion)
		if err := l.patch(ctx, &t.parent, patch); err != nil {
			return err
		}
	}
	for _, suffix := range app.Suffixes() {
		var err error
		cm := owned(t.parent.ConfigMap(suffix), t.parent)
		if changed {
			_, err = l.client.CoreV1().ConfigMaps(app.Namespace).Update(ctx, cm, metav1.UpdateOptions{})
		} else {
			_, err = l.client.CoreV1().ConfigMaps(app.Namespace).Create(ctx, cm, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	if !changed {
		if _, err := l.client.CoreV1().Services(app.Namespace).Create(ctx, owned(t.parent.Service(), t.parent), metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := l.client.AppsV1().Deployments(app.Namespace).Create(ctx, owned(t.parent.Deployment(), t.parent), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	t.parent.Status = app.Status{ObservedGeneration: t.parent.Generation, Children: app.Children}
	body, err := json.Marshal(&t.parent)
	if err != nil {
		return err
	}
	return l.rest.Verb(http.MethodPut).AbsPath(parentsPath, t.parent.Name, "status").SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
}

// patch changes the parent in the cluster and here.
func (l *limit) patch(ctx context.Context, parent *app.App, patch string) error {
	raw, err := l.rest.Patch(types.MergePatchType).AbsPath(parentsPath, parent.Name).Body([]byte(patch)).Do(ctx).Raw()
	if err != nil {
		return err
	}
	*parent = app.App{}
	return json.Unmarshal(raw, parent)
}

// owned makes a child the parent's, with the labels that tell so as this
// library has them.
func owned[T interface {
	*corev1.ConfigMap | *corev1.Service | *appsv1.Deployment
	metav1.Object
}](child T, parent app.App) T {
	labels := child.GetLabels()
	labels["roperator.com/operator"] = "bench"
	labels["roperator.com/parent-uid"] = string(parent.UID)
	child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(&parent, app.GroupVersion().WithKind("App"))})
	return child
}

// A queue is a list of tasks without bound.
type queue struct {
	mu     sync.Mutex
	filled *sync.Cond
	tasks  []task
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *queue) put(t task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, t)
	q.filled.Signal()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}

// take waits for a task; it returns false once the queue is closed.
func (q *queue) take() (task, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 && !q.closed {
		q.filled.Wait()
	}
	if q.closed {
		return task{}, false
	}
	t := q.tasks[0]
	q.tasks = q.tasks[1:]
	return t, true
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/test/bench/app"
	"github.com/roperator/roperator/test/bench/measure"
)

const (
	parentsPath    = "/apis/bench.roperator.com/v1/namespaces/" + app.Namespace + "/apps"
	configMapsPath = "/api/v1/namespaces/" + app.Namespace + "/configmaps"

	writers = 8 // requests of the benchmark's own at once
)

// A world is the cluster as the benchmark itself sees and changes it.
type world struct {
	client  kubernetes.Interface
	rest    rest.Interface
	parents int
}

func newWorld(cfg *rest.Config, parents int) (*world, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &world{client: client, rest: client.CoreV1().RESTClient(), parents: parents}, nil
}

func parentName(i int) string { return fmt.Sprintf("app-%06d", i) }

// populate creates the namespace and the parents.
func (w *world) populate(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: app.Namespace}}
	if _, err := w.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	return w.each(ctx, func(ctx context.Context, i int) error {
		parent := app.App{Spec: app.Spec{Value: "first"}}
		parent.APIVersion, parent.Kind = app.GroupVersion().String(), "App"
		parent.Name, parent.Namespace = parentName(i), app.Namespace
		body, err := json.Marshal(&parent)
		if err != nil {
			return err
		}
		return w.rest.Post().AbsPath(parentsPath).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	})
}

// each calls do for every parent, writers at once.
func (w *world) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range w.parents {
		group.Go(func() error {
			if err := do(ctx, i); err != nil {
				return fmt.Errorf("%s: %w", parentName(i), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// change changes the spec of one parent.
func (w *world) change(ctx context.Context, i int, value string) error {
	patch := fmt.Sprintf(`{"spec":{"value":%q}}`, value)
	return w.rest.Patch(types.MergePatchType).AbsPath(parentsPath, parentName(i)).Body([]byte(patch)).Do(ctx).Error()
}

// deleteConfigMaps deletes those of every parent.
func (w *world) deleteConfigMaps(ctx context.Context) error {
	return w.client.CoreV1().ConfigMaps(app.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app"})
}

// A waiter is told of by a watch and ends when it has seen enough.
type waiter struct {
	done <-chan error
	at   func() time.Time // when that was
}

func (w waiter) wait(ctx context.Context, timeout time.Duration) (time.Time, error) {
	select {
	case err := <-w.done:
		return w.at(), err
	case <-time.After(timeout):
		return time.Time{}, fmt.Errorf("not done after %s", timeout)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// until watches a path until each says that it was enough.
func (w *world) until(ctx context.Context, path string, each func(line []byte) (enough bool, err error)) waiter {
	done := make(chan error, 1)
	var at time.Time
	go func() { // ends with ctx or when it has seen enough
		var failed error
		err := measure.Events(ctx, w.rest, path, func(line []byte) bool {
			enough, err := each(line)
			failed = err
			return !enough && err == nil
		})
		at = time.Now()
		done <- errors.Join(failed, err)
	}()
	return waiter{done: done, at: func() time.Time { return at }}
}

// settled waits until every parent's status tells of its spec, with at least
// the generation.
func (w *world) settled(ctx context.Context, generation int64) waiter {
	settled := make(map[string]struct{}, w.parents)
	return w.until(ctx, parentsPath, func(line []byte) (bool, error) {
		name, at, status := parentOf(line)
		if name == "" {
			return false, fmt.Errorf("parents: not an event: %s", line)
		}
		if at >= generation && status.ObservedGeneration == at {
			settled[name] = struct{}{}
		}
		return len(settled) == w.parents, nil
	})
}

// restored waits until every ConfigMap has been deleted and created again.
func (w *world) restored(ctx context.Context) (ready <-chan struct{}, done waiter) {
	want := w.parents * len(app.Suffixes())
	existing := make(chan struct{})
	before := map[string]struct{}{}
	gone, back := 0, 0
	return existing, w.until(ctx, configMapsPath, func(line []byte) (bool, error) {
		name := measure.NameOf(line)
		if !strings.HasPrefix(name, "app-") {
			return false, nil
		}
		switch {
		case measure.IsEvent(line, "DELETED"):
			gone++
		case measure.IsEvent(line, "ADDED") && len(before) < want:
			before[name] = struct{}{}
			if len(before) == want {
				close(existing)
			}
		case measure.IsEvent(line, "ADDED"):
			back++
		}
		return gone == want && back == want, nil
	})
}

// verify finds every child as its parent's spec wants it, and no other.
func (w *world) verify(ctx context.Context, value string) error {
	cms, err := w.client.CoreV1().ConfigMaps(app.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app"})
	if err != nil {
		return err
	}
	services, err := w.client.CoreV1().Services(app.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app"})
	if err != nil {
		return err
	}
	deployments, err := w.client.AppsV1().Deployments(app.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app"})
	if err != nil {
		return err
	}
	if got, want := len(cms.Items)+len(services.Items)+len(deployments.Items), w.parents*app.Children; got != want {
		return fmt.Errorf("there are %d children, not %d", got, want)
	}
	for _, cm := range cms.Items {
		if value != "" && cm.Data["value"] != value {
			return fmt.Errorf("ConfigMap %s: has the value %q, not %q", cm.Name, cm.Data["value"], value)
		}
		if metav1.GetControllerOf(&cm) == nil {
			return fmt.Errorf("ConfigMap %s: has no controller", cm.Name)
		}
	}
	return nil
}

// parentOf reads the event of a parent; the name is empty if it isn't one.
func parentOf(line []byte) (name string, generation int64, status app.Status) {
	var event struct {
		Object struct {
			Metadata struct {
				Name       string
				Generation int64
			}
			Status app.Status
		}
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return "", 0, app.Status{}
	}
	return event.Object.Metadata.Name, event.Object.Metadata.Generation, event.Object.Status
}

package soak

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

//go:embed testdata/crd.yaml
var crd []byte

const (
	namespace = "default"
	// passerby begins the names of parents that come and go.
	passerby  = "passerby-"
	residents = 50
	// patience only bounds a hang.
	patience = 5 * time.Minute
)

func parents() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "soak.roperator.com", Version: "v1", Resource: "parents"}
}

// A client is for those who change parents.
type client struct {
	dynamic.Interface
	http *http.Client
}

func newClient(cfg *rest.Config) (*client, error) {
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	api, err := dynamic.NewForConfigAndClient(cfg, httpClient)
	return &client{api, httpClient}, err
}

// idle closes connections that aren't used.
func (c *client) idle() { c.http.CloseIdleConnections() }

func (c *client) of(resource string) dynamic.ResourceInterface {
	r := parents()
	if resource != r.Resource {
		r = schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	return c.Resource(r).Namespace(namespace)
}

// A stage is a control plane with operators at work.
type stage struct {
	api     *client
	metrics string // where it is served
	manager *manager.Manager
	runner  *running
	lives   atomic.Int64 // of parents that have come
}

// A running is the operators' process, as far as it is one.
type running struct {
	stop  context.CancelFunc
	ended chan error // has one error when it has ended
}

// prepare makes the parents' kind, and the parents that stay.
func (s *stage) prepare(ctx context.Context) error {
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(crd, &definition.Object); err != nil {
		return err
	}
	crds := s.api.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := plane.Until(ctx, patience, func() error {
		_, err := s.api.of("parents").List(ctx, metav1.ListOptions{})
		return err
	}); err != nil {
		return err
	}
	for i := range residents {
		if err := s.create(ctx, fmt.Sprint("resident-", i)); err != nil {
			return err
		}
	}
	return nil
}

// start starts so many operators.
func (s *stage) start(cfg *rest.Config, operators int) error {
	port, err := plane.FreePort()
	if err != nil {
		return err
	}
	s.metrics = "127.0.0.1:" + port
	var specs []manager.Spec
	for i := range operators {
		specs = append(specs, manager.Spec{
			Config: config.Operator{
				Name:     fmt.Sprint("soak-", i),
				Parent:   resource.Type{APIVersion: "soak.roperator.com/v1", Kind: "Parent"},
				Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.Secret, Strategy: config.Recreate}, {Type: k8s.Service, Strategy: config.Apply}},
			},
			Handler: &worker{suffix: fmt.Sprint("-", i), first: i == 0},
		})
	}
	ctx, stop := context.WithCancel(context.Background())
	s.runner = &running{stop: stop, ended: make(chan error, 1)}
	opts := manager.Options{RESTConfig: cfg, Logger: slog.New(slog.DiscardHandler), MetricsAddress: s.metrics}
	if s.manager, err = manager.New(opts, specs...); err != nil {
		stop()
		return err
	}
	go func() { s.runner.ended <- s.manager.Start(ctx) }() // until stop
	return nil
}

// sizes are those of the first operator.
func (s *stage) sizes() map[string]int { return s.manager.Engine().Sizes() }

// settle returns when everybody who came has gone, and nothing is going on.
func (s *stage) settle(ctx context.Context, objects int) error {
	var passes uint64
	quiet := 0
	var ended error
	err := plane.Until(ctx, patience, func() error {
		select {
		case err := <-s.runner.ended:
			s.runner.ended <- err
			ended = fmt.Errorf("the operators have ended: %w", err)
			return nil
		default:
		}
		engine := s.manager.Engine()
		if engine == nil {
			return errors.New("no operator runs yet")
		}
		sizes, activity := engine.Sizes(), engine.Activity()
		at := func(kind string) int { return sizes["objects "+kind] }
		if n := at("soak.roperator.com/v1/Parent"); n != objects {
			return fmt.Errorf("%d parents, not %d", n, objects)
		}
		for _, kind := range []string{"v1/ConfigMap", "v1/Secret", "v1/Service"} {
			if n := at(kind); n != objects {
				return fmt.Errorf("%d %s, not %d", n, kind, objects)
			}
		}
		if activity.Running+activity.Due+activity.Events > 0 || activity.Passes != passes {
			passes, quiet = activity.Passes, 0
			return fmt.Errorf("still at work: %+v", activity)
		}
		if quiet++; quiet < 10 {
			return errors.New("quiet only for a moment")
		}
		return nil
	})
	return errors.Join(ended, err)
}

func (s *stage) create(ctx context.Context, name string) error {
	_, err := s.api.of("parents").Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "soak.roperator.com/v1", "kind": "Parent", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"value": "new", "port": int64(80)},
	}}, metav1.CreateOptions{})
	return err
}

// A life is that of a parent: it comes, changes, loses a child, has one
// changed by others, and goes.
func (s *stage) life(ctx context.Context, pause time.Duration) error {
	name := fmt.Sprint(passerby, s.lives.Add(1))
	if err := s.create(ctx, name); err != nil {
		return err
	}
	api := s.api.of("parents")
	patch := func(of dynamic.ResourceInterface, name, text string) error {
		_, err := of.Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return ignoreAbsent(err)
	}
	for _, step := range []func() error{
		func() error { return patch(api, name, `{"spec":{"value":"changed"}}`) },
		func() error {
			return ignoreAbsent(s.api.of("secrets").Delete(ctx, name+"-0", metav1.DeleteOptions{}))
		},
		func() error { return patch(s.api.of("configmaps"), name+"-0", `{"data":{"value":"other"}}`) },
		func() error { return patch(api, name, `{"spec":{"port":81}}`) },
		func() error { return api.Delete(ctx, name, metav1.DeleteOptions{}) },
	} {
		select {
		case <-time.After(pause):
		case <-ctx.Done(): // what was begun is ended
		}
		if err := step(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/testing/kubelet"
)

// A teller has what the chapters of the story need.
type teller struct {
	cluster *cluster
	client  dynamic.Interface
	world   *world
	screen  *screen
}

// story is the demo from the first process to the last observation.
func story(ctx context.Context, c *cluster, opts options) error {
	t := &teller{cluster: c, screen: c.screen}
	if err := t.startCluster(ctx, opts); err != nil {
		return err
	}
	chapters := []struct {
		title string
		who   string // the EchoServer that it is about, all if empty
		tell  func(context.Context) error
	}{
		{"The operator starts, as a process of its own", "", t.startOperator},
		{"Three EchoServers are applied; the operator makes a Pod and a Service for each", "", t.applyThree},
		{"alpha's servicePort changes; Services have the strategy Replace: updated in place, same UID", "alpha", t.changePort},
		{"alpha's serviceName changes; Pods have the strategy Recreate: deleted, then created anew", "alpha", t.changeName},
		{"beta gets a serviceName that no Service may have; the error becomes its status", "beta", t.makeMistake},
		{"beta's Pod is deleted by hand; the operator creates it again, with a new UID", "beta", t.deletePod},
		{"gamma is deleted; its children go with it", "", t.deleteParent},
	}
	for _, chapter := range chapters {
		c.screen.chapter("%s", chapter.title)
		if err := chapter.tell(ctx); err != nil {
			return err
		}
		v, _ := t.world.view()
		c.screen.tree(v, chapter.who)
		c.screen.pause(ctx)
	}
	return nil
}

// end is the last chapter, unless the cluster is kept.
func end(ctx context.Context, c *cluster) error {
	c.screen.chapter("Everything stops")
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := c.stopOperator(); err != nil {
		c.screen.logTail(c, err)
		return err
	}
	c.screen.note("the operator ended with exit code 0 on SIGTERM")
	return nil
}

func (t *teller) startCluster(ctx context.Context, opts options) error {
	t.screen.chapter("A local cluster starts (in %s)", t.cluster.dir)
	if err := t.cluster.startServers(ctx); err != nil {
		return err
	}
	t.screen.note("etcd and kube-apiserver are ready at %s", t.cluster.config.Host)
	var err error
	if t.client, err = dynamic.NewForConfig(t.cluster.config); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	// Before the controllers start: the garbage collector looks for new types only every half minute.
	if err := t.installCRD(ctx, opts.crd); err != nil {
		return err
	}
	t.screen.note("the CustomResourceDefinition of %s is installed", opts.crd)
	if err := t.cluster.startControllers(ctx); err != nil {
		return err
	}
	t.screen.note("kube-controller-manager, kube-scheduler and kwok run, the nodes %s are ready", strings.Join(kubelet.NodeNames(), " and "))
	t.world, err = watchWorld(ctx, t.client, t.screen)
	return err
}

func (t *teller) installCRD(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("CRD: %w", err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		return fmt.Errorf("CRD: %s: %w", path, err)
	}
	crds := t.client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("CRD: %s: %w", path, err)
	}
	return t.cluster.await(ctx, "the CRD is served", func(ctx context.Context) bool {
		_, err := t.echoServers().List(ctx, metav1.ListOptions{})
		return err == nil
	})
}

func (t *teller) startOperator(ctx context.Context) error {
	kubeconfig, err := t.cluster.startOperator()
	if err != nil {
		return err
	}
	t.screen.note("%s --kubeconfig=%s --metrics-bind-address=0 --health-probe-bind-address=0", t.cluster.binary, kubeconfig)
	if t.cluster.window != "" {
		return t.cluster.openWindow(ctx)
	}
	return nil
}

func (t *teller) applyThree(ctx context.Context) error {
	names := []string{"alpha", "beta", "gamma"}
	for _, name := range names {
		echo := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.roperator.com/v1alpha1",
			"kind":       echoKind,
			"metadata":   map[string]any{"name": name},
			"spec":       map[string]any{"serviceName": name + "-service"},
		}}
		options := metav1.ApplyOptions{FieldManager: "demo"}
		if _, err := t.echoServers().Apply(ctx, name, echo, options); err != nil {
			return fmt.Errorf("EchoServer %s: %w", name, err)
		}
	}
	return t.until(ctx, "all three have a running Pod, a Service and a status that says so", func(v view) bool {
		return v.settled("alpha") && v.settled("beta") && v.settled("gamma")
	})
}

func (t *teller) changePort(ctx context.Context) error {
	before, _ := t.world.view()
	if err := t.patch(ctx, "alpha", `{"spec":{"servicePort":8080}}`); err != nil {
		return err
	}
	err := t.until(ctx, "alpha-service has port 8080", func(v view) bool {
		service := v.objects[id{serviceKind, "alpha-service"}]
		return v.settled("alpha") && service != nil && phase(service) == "port 8080"
	})
	if err != nil {
		return err
	}
	if err := t.same(before, serviceKind, "alpha-service"); err != nil {
		return err
	}
	return t.same(before, podKind, "alpha")
}

func (t *teller) changeName(ctx context.Context) error {
	before, _ := t.world.view()
	if err := t.patch(ctx, "alpha", `{"spec":{"serviceName":"aleph-service"}}`); err != nil {
		return err
	}
	return t.until(ctx, "alpha has a new Pod, and a new Service instead of the old one", func(v view) bool {
		return v.settled("alpha") && v.uid(podKind, "alpha") != before.uid(podKind, "alpha") &&
			v.uid(serviceKind, "alpha-service") == ""
	})
}

func (t *teller) makeMistake(ctx context.Context) error {
	before, _ := t.world.view()
	if err := t.patch(ctx, "beta", `{"spec":{"serviceName":"Not A Name"}}`); err != nil {
		return err
	}
	err := t.until(ctx, "beta's status tells of the mistake", func(v view) bool {
		echo := v.objects[id{echoKind, "beta"}]
		return echo != nil && message(echo) != "" && message(echo) != "Pod beta is Running"
	})
	if err != nil {
		return err
	}
	if err := t.same(before, podKind, "beta"); err != nil {
		return err
	}
	t.screen.note("its children are as they were; the mistake is mended")
	if err := t.patch(ctx, "beta", `{"spec":{"serviceName":"beta-service"}}`); err != nil {
		return err
	}
	return t.until(ctx, "beta is well again", func(v view) bool { return v.settled("beta") })
}

func (t *teller) deletePod(ctx context.Context) error {
	before, _ := t.world.view()
	if err := t.resource(podKind).Delete(ctx, "beta", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("Pod beta: %w", err)
	}
	was := before.uid(podKind, "beta")
	return t.until(ctx, "beta's Pod is back with a new UID", func(v view) bool {
		return v.settled("beta") && v.uid(podKind, "beta") != was
	})
}

func (t *teller) deleteParent(ctx context.Context) error {
	if err := t.echoServers().Delete(ctx, "gamma", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("EchoServer gamma: %w", err)
	}
	return t.until(ctx, "gamma, its Pod and its Service are gone", func(v view) bool {
		return v.uid(echoKind, "gamma") == "" && v.uid(podKind, "gamma") == "" && v.uid(serviceKind, "gamma-service") == ""
	})
}

func (t *teller) until(ctx context.Context, what string, met func(view) bool) error {
	return t.world.until(ctx, t.cluster.died, what, met)
}

// same returns an error unless an object has the UID it had before.
func (t *teller) same(before view, kind, name string) error {
	now, _ := t.world.view()
	if now.uid(kind, name) != before.uid(kind, name) {
		return fmt.Errorf("%s %s: is another object than before", kind, name)
	}
	return nil
}

func (t *teller) patch(ctx context.Context, name, patch string) error {
	if _, err := t.echoServers().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("EchoServer %s: %w", name, err)
	}
	return nil
}

func (t *teller) echoServers() dynamic.ResourceInterface { return t.resource(echoKind) }

func (t *teller) resource(kind string) dynamic.ResourceInterface {
	return t.client.Resource(kinds()[kind]).Namespace(demoNamespace)
}

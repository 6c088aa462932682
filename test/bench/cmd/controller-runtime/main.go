// Command controller-runtime is the measured operator on controller-runtime,
// written as kubebuilder scaffolds it and its book goes on: CreateOrUpdate,
// Owns, a finalizer, a status update when the status differs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/roperator/roperator/test/bench/app"
	"github.com/roperator/roperator/test/bench/measure"
)

func main() {
	workers := flag.Int("workers", 1, "MaxConcurrentReconciles")
	untyped := flag.Bool("unstructured", false, "children as unstructured.Unstructured")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*workers, *untyped); err != nil {
		fmt.Fprintln(os.Stderr, "controller-runtime:", err)
		os.Exit(1)
	}
}

func run(workers int, untyped bool) error {
	measured, rest, err := measure.Start()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(app.AddToScheme(scheme))
	manager, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		// Else reads of unstructured objects go to the API server.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	reconciler := &Reconciler{Client: manager.GetClient(), Scheme: scheme, measured: measured, untyped: untyped}
	builder := ctrl.NewControllerManagedBy(manager).
		For(&app.App{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if untyped {
		builder = builder.Owns(object("ConfigMap")).Owns(object("Service"))
	} else {
		builder = builder.Owns(&corev1.ConfigMap{}).Owns(&corev1.Service{})
	}
	if err := builder.Complete(reconciler); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

// A Reconciler makes a cluster as the Apps want it.
type Reconciler struct {
	client.Client

	Scheme   *runtime.Scheme
	measured *measure.Operator
	untyped  bool
}

// Reconcile handles one App.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.measured.Handled(req.Name)
	var parent app.App
	if err := r.Get(ctx, req.NamespacedName, &parent); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !parent.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&parent, app.Finalizer) {
			return ctrl.Result{}, r.Update(ctx, &parent)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&parent, app.Finalizer) {
		if err := r.Update(ctx, &parent); err != nil {
			return ctrl.Result{}, err
		}
	}
	children := r.typedChildren
	if r.untyped {
		children = r.untypedChildren
	}
	if err := children(ctx, &parent); err != nil {
		return ctrl.Result{}, err
	}
	status := app.Status{ObservedGeneration: parent.Generation, Children: app.Children}
	if parent.Status == status {
		return ctrl.Result{}, nil
	}
	parent.Status = status
	return ctrl.Result{}, r.Status().Update(ctx, &parent)
}

func (r *Reconciler) typedChildren(ctx context.Context, parent *app.App) error {
	for _, suffix := range app.Suffixes() {
		cm := &corev1.ConfigMap{}
		cm.Namespace, cm.Name = parent.Namespace, parent.Name+suffix
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
			cm.Labels = parent.ChildLabels()
			cm.Data = parent.Data(suffix)
			return controllerutil.SetControllerReference(parent, cm, r.Scheme)
		})
		if err != nil {
			return err
		}
	}
	service := &corev1.Service{}
	service.Namespace, service.Name = parent.Namespace, parent.Name
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.Labels = parent.ChildLabels()
		service.Spec.ClusterIP = corev1.ClusterIPNone
		service.Spec.Selector = parent.ChildLabels()
		service.Spec.Ports = parent.Ports()
		return controllerutil.SetControllerReference(parent, service, r.Scheme)
	})
	return err
}

func (r *Reconciler) untypedChildren(ctx context.Context, parent *app.App) error {
	for _, suffix := range app.Suffixes() {
		cm := object("ConfigMap")
		cm.SetNamespace(parent.Namespace)
		cm.SetName(parent.Name + suffix)
		_, err := controllerutil.CreateOrUpdate(ctx, r.Client, cm, func() error {
			cm.SetLabels(parent.ChildLabels())
			if err := unstructured.SetNestedStringMap(cm.Object, parent.Data(suffix), "data"); err != nil {
				return err
			}
			return controllerutil.SetControllerReference(parent, cm, r.Scheme)
		})
		if err != nil {
			return err
		}
	}
	service := object("Service")
	service.SetNamespace(parent.Namespace)
	service.SetName(parent.Name)
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.SetLabels(parent.ChildLabels())
		spec, _, err := unstructured.NestedMap(service.Object, "spec")
		if err != nil {
			return err
		}
		if spec == nil {
			spec = map[string]any{}
		}
		spec["clusterIP"] = corev1.ClusterIPNone
		spec["selector"] = map[string]any{"app": parent.Name}
		var ports []any
		for _, port := range parent.Ports() {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&port)
			if err != nil {
				return err
			}
			ports = append(ports, fields)
		}
		spec["ports"] = ports
		service.Object["spec"] = spec
		return controllerutil.SetControllerReference(parent, service, r.Scheme)
	})
	return err
}

// object returns an empty object of core/v1.
func object(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind(kind)
	return u
}

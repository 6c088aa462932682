// Command controller-runtime is the measured operator on controller-runtime,
// written as kubebuilder scaffolds it and its book goes on: CreateOrUpdate,
// Owns, a finalizer, a status update when the status differs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
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
		builder = builder.Owns(object("v1", "ConfigMap")).Owns(object("v1", "Service")).Owns(object("apps/v1", "Deployment"))
	} else {
		builder = builder.Owns(&corev1.ConfigMap{}).Owns(&corev1.Service{}).Owns(&appsv1.Deployment{})
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
		service.Spec.Selector = parent.ChildLabels()
		if service.CreationTimestamp.IsZero() { // what has defaults, or can't be changed
			service.Spec.ClusterIP, service.Spec.Ports = corev1.ClusterIPNone, parent.Ports()
		}
		service.Spec.Ports[0].Name, service.Spec.Ports[0].Port = parent.Ports()[0].Name, parent.Ports()[0].Port
		return controllerutil.SetControllerReference(parent, service, r.Scheme)
	})
	if err != nil {
		return err
	}
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = parent.Namespace, parent.Name
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.Labels = parent.ChildLabels()
		if deployment.CreationTimestamp.IsZero() {
			deployment.Spec = parent.Deployment().Spec
		}
		// Were all of it set again, each pass would update it: it differs in its defaults.
		deployment.Spec.Template.Spec.Containers[0].Image = app.Image
		return controllerutil.SetControllerReference(parent, deployment, r.Scheme)
	})
	return err
}

func (r *Reconciler) untypedChildren(ctx context.Context, parent *app.App) error {
	for _, suffix := range app.Suffixes() {
		cm := object("v1", "ConfigMap")
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
	service := object("v1", "Service")
	service.SetNamespace(parent.Namespace)
	service.SetName(parent.Name)
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, service, func() error {
		service.SetLabels(parent.ChildLabels())
		return r.specOnce(parent, service, parent.Service())
	})
	if err != nil {
		return err
	}
	deployment := object("apps/v1", "Deployment")
	deployment.SetNamespace(parent.Namespace)
	deployment.SetName(parent.Name)
	_, err = controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		deployment.SetLabels(parent.ChildLabels())
		return r.specOnce(parent, deployment, parent.Deployment())
	})
	return err
}

// specOnce sets the spec of a child that is about to be created: later it has defaults.
func (r *Reconciler) specOnce(parent *app.App, child *unstructured.Unstructured, typed any) error {
	if child.GetUID() == "" {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			return err
		}
		child.Object["spec"] = fields["spec"]
	}
	return controllerutil.SetControllerReference(parent, child, r.Scheme)
}

// object returns an empty object of a type.
func object(apiVersion, kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u
}

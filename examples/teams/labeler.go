package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// enforce is the label that says which Pods a Namespace takes.
const enforce = "pod-security.kubernetes.io/enforce"

// A labeler labels the Namespaces of teams.
type labeler struct{ client.Client }

// addLabeler adds the controller to the manager.
func addLabeler(m manager.Manager) error {
	return ctrl.NewControllerManagedBy(m).Named("labeler").For(&corev1.Namespace{}).
		// Replicas in one process, as in the test, have controllers of the same name.
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
		Complete(&labeler{m.GetClient()})
}

// Reconcile implements reconcile.Reconciler.
func (l *labeler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ns corev1.Namespace
	if err := l.Get(ctx, req.NamespacedName, &ns); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if ns.Labels["team"] == "" || ns.Labels[enforce] != "" || ns.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	before := ns.DeepCopy()
	ns.Labels[enforce] = "baseline"
	return ctrl.Result{}, l.Patch(ctx, &ns, client.MergeFrom(before))
}

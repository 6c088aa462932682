package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

var operator = config.Operator{
	Name:           "quotas",
	Parent:         k8s.Namespace,
	ParentSelector: "team",
	Children:       []config.Child{{Type: k8s.ResourceQuota, Strategy: config.Replace}},
}

// quotas gives a Namespace its ResourceQuota.
var quotas = handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{Children: []any{&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "team", Namespace: req.Parent.Name()},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}},
	}}}, nil
})

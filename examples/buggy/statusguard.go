package buggy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A workspace begins with a ConfigMap of default settings, which its users then change as they
// like.
type workspace struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Language string `json:"language"`
	} `json:"spec"`
	Status workspaceStatus `json:"status"`
}

type workspaceStatus struct {
	Phase string `json:"phase"`
}

var workspaceOperator = config.Operator{
	Name:     "workspaces",
	Parent:   kind("Workspace"),
	Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
}

// workspaces creates the ConfigMap in the first phase, and keeps it as it is from then on.
//
// The bug: the status remembers that the ConfigMap was created, not that it is there. When it is
// deleted it never comes back. Always return what shall be there, and say what is left to others:
// handler.Leave(settings, "data").
var workspaces = handler.Typed(func(_ context.Context, w *workspace, children handler.Children) (*handler.SyncResponse, error) {
	ready := workspaceStatus{Phase: "Ready"}
	if w.Status.Phase == "" {
		return &handler.SyncResponse{Status: ready, Children: []any{w.settings()}}, nil
	}
	var kept []any
	for child := range children.All() {
		kept = append(kept, handler.Keep(child))
	}
	return &handler.SyncResponse{Status: ready, Children: kept}, nil
})

func (w *workspace) settings() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name},
		Data:       map[string]string{"language": w.Spec.Language, "theme": "light"},
	}
}

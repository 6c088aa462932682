package buggy

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A release is an app of a team, whose settings it puts into a ConfigMap.
type release struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Team     string            `json:"team"`
		App      string            `json:"app"`
		Settings map[string]string `json:"settings"`
	} `json:"spec"`
}

var releaseOperator = config.Operator{
	Name:     "releases",
	Parent:   kind("Release"),
	Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
}

// releases names the ConfigMap after team and app.
//
// The bug: the app "c" of the team "a-b" and the app "b-c" of the team "a" want the same ConfigMap.
// The first one gets it, the other one fails forever. Name children after their parent, whose name
// is the only one in the namespace, and put nothing together with a separator that the parts may
// have, too.
var releases = handler.Typed(func(_ context.Context, r *release, _ handler.Children) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{Children: []any{r.settings(r.Spec.Team + "-" + r.Spec.App)}}, nil
})

func (r *release) settings(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": r.Spec.Team, "app": r.Spec.App}},
		Data:       r.Spec.Settings,
	}
}

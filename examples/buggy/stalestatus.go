package buggy

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A cluster is a database with some members, each a Pod. The status lists the members, so that
// clients know whom to ask.
type cluster struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Members int `json:"members"`
	} `json:"spec"`
	Status clusterStatus `json:"status"`
}

type clusterStatus struct {
	Members []member `json:"members,omitempty"`
}

type member struct {
	Name string    `json:"name"`
	ID   types.UID `json:"id"`
}

var clusterOperator = config.Operator{
	Name:     "clusters",
	Parent:   kind("Cluster"),
	Children: []config.Child{{Type: k8s.Pod, Strategy: config.Recreate}},
}

// clusters adds each new Pod to the list of members.
//
// The bug: the list is read from the status, changed, and written back. A Pod that was deleted, and
// came back as another one, stays in it forever. A status says what is: make all of it from the
// children, each time.
var clusters = handler.Typed(func(_ context.Context, c *cluster, children handler.Children) (*handler.SyncResponse, error) {
	status := c.Status
	for pod := range children.OfType(k8s.Pod).All() {
		if m := (member{Name: pod.Name(), ID: pod.UID()}); !slices.Contains(status.Members, m) {
			status.Members = append(status.Members, m)
		}
	}
	return &handler.SyncResponse{Status: status, Children: c.pods()}, nil
})

func (c *cluster) pods() (out []any) {
	for i := range c.Spec.Members {
		out = append(out, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", c.Name, i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db", Image: "example.com/db:1"}}},
		})
	}
	return out
}

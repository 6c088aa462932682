// Command serviceperpod is an operator that decorates StatefulSets: every Pod of
// a StatefulSet that asks for it by a label gets a Service of its own. It has no
// kind of its own and no CustomResourceDefinition.
package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

// label is how a StatefulSet asks for Services. "true" means that there shall be
// one for each Pod, "false" that there shall be none any more.
const label = "example.roperator.com/service-per-pod"

var operator = config.Operator{
	Name:           "serviceperpod",
	Parent:         k8s.StatefulSet,
	ParentSelector: label, // with whatever value
	Children:       []config.Child{{Type: k8s.Service, Strategy: config.Replace}},
	// The Pods belong to Kubernetes' own controller of StatefulSets.
	Related: []config.Related{{Type: k8s.Pod}},
}

var decorator = handler.Funcs{SyncFunc: sync, RelateFunc: relate}

func main() { runner.Main(operator, decorator) }

// relate says that a StatefulSet refers to the Pods that its selector matches.
func relate(parent *resource.Resource) ([]handler.Ref, error) {
	set, err := resource.As[appsv1.StatefulSet](parent)
	if err != nil {
		return nil, handler.Permanent(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, handler.Permanent(fmt.Errorf("spec.selector: %w", err))
	}
	return []handler.Ref{{Type: k8s.Pod, Selector: selector.String()}}, nil
}

// sync says which Services a StatefulSet shall have. Its status is somebody
// else's, so the response has none. What is to be told goes into Events.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	set, err := handler.ParentAs[appsv1.StatefulSet](req)
	if err != nil {
		return nil, handler.Permanent(err)
	}
	switch value := set.Labels[label]; value {
	case "true":
	case "false":
		return &handler.SyncResponse{}, nil // no child is wanted any more
	default:
		return nil, handler.Permanent(fmt.Errorf("label %s: %q is neither true nor false", label, value))
	}
	pods, err := podsOf(&set, req)
	if err != nil {
		return nil, err
	}
	services, portless := servicesFor(pods)
	return &handler.SyncResponse{
		Children: append(services, awaiting(&set, pods, req.Children)...),
		Events:   warnings(portless),
	}, nil
}

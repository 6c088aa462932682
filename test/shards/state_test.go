package shards

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/shard"
)

// wrongState returns what isn't as it is to be in the end: each parent has its children, as
// its spec says, with the label of its bucket, and there are no other children.
func (s *stage) wrongState(ctx context.Context) (wrong []string, err error) {
	parents, err := s.people.parents.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	children := map[string]*unstructured.Unstructured{}
	for _, plural := range []string{"configmaps", "secrets", "services"} {
		list, err := s.client.Resource(resourceOf("", "v1", plural)).Namespace(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "roperator.com/operator=" + operatorName})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			children[list.Items[i].GetName()] = &list.Items[i]
		}
	}
	for i := range parents.Items {
		p := &parents.Items[i]
		value, _, _ := unstructured.NestedInt64(p.Object, "spec", "value")
		wrong = append(wrong, wrongParent(p, value)...)
		for suffix, path := range map[string][]string{
			configSuffix: {"data", "value"}, secretSuffix: {"data", "value"}, serviceSuffix: {"spec", "selector", "value"},
		} {
			child := children[p.GetName()+suffix]
			delete(children, p.GetName()+suffix)
			if child == nil {
				wrong = append(wrong, p.GetName()+suffix+" is missing")
				continue
			}
			want := fmt.Sprint(value)
			if suffix == secretSuffix {
				want = base64.StdEncoding.EncodeToString([]byte(want))
			}
			if got, _, _ := unstructured.NestedString(child.Object, path...); got != want {
				wrong = append(wrong, fmt.Sprintf("%s has %q, not %q", child.GetName(), got, want))
			}
			wrong = append(wrong, wrongChild(child, p.GetUID())...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(children)) {
		wrong = append(wrong, name+" is nobody's")
	}
	if len(parents.Items) != len(s.people.living) {
		wrong = append(wrong, fmt.Sprintf("%d parents instead of %d", len(parents.Items), len(s.people.living)))
	}
	return wrong, nil
}

func wrongParent(p *unstructured.Unstructured, value int64) (wrong []string) {
	if !slices.Equal(p.GetFinalizers(), []string{finalizer}) || p.GetDeletionTimestamp() != nil {
		wrong = append(wrong, fmt.Sprintf("%s has the finalizers %q, and is being deleted: %t", p.GetName(), p.GetFinalizers(), p.GetDeletionTimestamp() != nil))
	}
	status, _, _ := unstructured.NestedMap(p.Object, "status")
	if want := map[string]any{"value": value, "children": int64(3), "observedGeneration": p.GetGeneration()}; !maps.Equal(status, want) {
		wrong = append(wrong, fmt.Sprintf("%s has the status %v, not %v", p.GetName(), status, want))
	}
	return wrong
}

func wrongChild(child *unstructured.Unstructured, parent types.UID) (wrong []string) {
	controller := metav1.GetControllerOf(child)
	if controller == nil || controller.UID != parent || len(child.GetOwnerReferences()) != 1 || child.GetDeletionTimestamp() != nil {
		wrong = append(wrong, fmt.Sprintf("%s has the owners %v, and is being deleted: %t", child.GetName(), child.GetOwnerReferences(), child.GetDeletionTimestamp() != nil))
	}
	for label, want := range map[string]string{
		(&config.Operator{}).BucketLabel(): strconv.Itoa(shard.Bucket(parent)), "roperator.com/parent-uid": string(parent),
	} {
		if got := child.GetLabels()[label]; got != want {
			wrong = append(wrong, fmt.Sprintf("%s has the label %s=%q, not %q", child.GetName(), label, got, want))
		}
	}
	return wrong
}

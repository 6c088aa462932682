package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A CatSet is what crd.yaml describes.
type CatSet struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas             int                            `json:"replicas"`
		Template             corev1.PodTemplateSpec         `json:"template"`
		VolumeClaimTemplates []corev1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`
	} `json:"spec"`
}

// A CatSetStatus is the status of a CatSet. The engine adds observedGeneration, and the conditions
// Ready, Reconciling and Stalled.
type CatSetStatus struct {
	Replicas      int `json:"replicas"`
	ReadyReplicas int `json:"readyReplicas"`
}

// syncCats says which cats there shall be. They are in the response from the last to the first, since
// a rollout goes in that order. They are created from the first to the last: each after the one
// before is ready.
func syncCats(_ context.Context, set *CatSet, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	children := []any{set.service()}
	children = append(children, set.claims(req.Children)...)
	cats := set.surplus(req.Children)
	for i := set.Spec.Replicas - 1; i >= 0; i-- {
		if i == 0 {
			cats = append(cats, set.cat(i))
		} else {
			cats = append(cats, handler.After(set.cat(i), set.cat(i-1)))
		}
	}
	return &handler.SyncResponse{Status: statusOf(req.Children), Children: append(children, cats...)}, nil
}

// finalize lets the cats of a CatSet that is being deleted go one after the other, the last first.
// Their claims stay.
func finalize(_ context.Context, set *CatSet, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	left := set.ordinals(req.Children)
	if len(left) == 0 {
		return &handler.FinalizeResponse{Finalized: true}, nil
	}
	return &handler.FinalizeResponse{Status: statusOf(req.Children), Children: set.keep(req.Children, left[:len(left)-1])}, nil
}

// surplus returns the cats that are too many, but for the last one: of these, too, one goes at a
// time.
func (c *CatSet) surplus(children handler.Children) []any {
	ordinals := c.ordinals(children)
	first, _ := slices.BinarySearch(ordinals, c.Spec.Replicas)
	ordinals = ordinals[first:]
	if len(ordinals) == 0 {
		return nil
	}
	return c.keep(children, ordinals[:len(ordinals)-1])
}

// keep returns the cats with these ordinals, as they are, from the last to the first.
func (c *CatSet) keep(children handler.Children, ordinals []int) []any {
	cats := []any{}
	for _, i := range slices.Backward(ordinals) {
		if live, ok := children.OfType(k8s.Pod).Get(c.Namespace, c.name(i)); ok {
			cats = append(cats, handler.Keep(live))
		}
	}
	return cats
}

// ordinals returns which cats exist, in order.
func (c *CatSet) ordinals(children handler.Children) (ordinals []int) {
	for pod := range children.OfType(k8s.Pod).All() {
		if text, ok := strings.CutPrefix(pod.Name(), c.Name+"-"); ok {
			if i, err := strconv.Atoi(text); err == nil {
				ordinals = append(ordinals, i)
			}
		}
	}
	slices.Sort(ordinals)
	return ordinals
}

func (c *CatSet) name(i int) string { return c.Name + "-" + strconv.Itoa(i) }

// cat returns the Pod with an ordinal.
func (c *CatSet) cat(i int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *c.Spec.Template.ObjectMeta.DeepCopy(), Spec: *c.Spec.Template.Spec.DeepCopy()}
	pod.Name, pod.Spec.Hostname, pod.Spec.Subdomain = c.name(i), c.name(i), c.Name
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "catset", c.Name)
	for _, template := range c.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: template.Name + "-" + c.name(i)},
		}})
	}
	return pod
}

// claims returns the claims of all cats, and those of cats that are gone: what they have eaten
// isn't lost.
func (c *CatSet) claims(children handler.Children) (claims []any) {
	wanted := map[string]bool{}
	for i := range c.Spec.Replicas {
		for _, template := range c.Spec.VolumeClaimTemplates {
			claim := template.DeepCopy()
			claim.Name = fmt.Sprintf("%s-%s", template.Name, c.name(i))
			wanted[claim.Name] = true
			claims = append(claims, claim)
		}
	}
	for live := range children.OfType(k8s.PersistentVolumeClaim).All() {
		if !wanted[live.Name()] {
			claims = append(claims, handler.Keep(live))
		}
	}
	return claims
}

// service returns the Service that gives each cat a DNS name.
func (c *CatSet) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: map[string]string{"catset": c.Name},
	}}
}

func statusOf(children handler.Children) (status CatSetStatus) {
	for pod := range children.OfType(k8s.Pod).All() {
		status.Replicas++
		if isReady(pod) {
			status.ReadyReplicas++
		}
	}
	return status
}

func isReady(pod *resource.Resource) bool { return readiness.Of(pod).State == readiness.Current }

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A ConfigSync is what crd.yaml describes, as far as the operator reads it.
type ConfigSync struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Source struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"source"`
		NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	} `json:"spec"`
}

// A ConfigSyncStatus is the status of a ConfigSync that is valid; the engine
// adds observedGeneration.
type ConfigSyncStatus struct {
	Namespaces int    `json:"namespaces"` // that shall have a copy
	Copies     int    `json:"copies"`     // that are there
	Message    string `json:"message,omitempty"`
}

// selector returns the selector of the Namespaces. An empty one would match
// every namespace of the cluster. It is more often a mistake than meant, so it
// is an error.
func (c *ConfigSync) selector() (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(&c.Spec.NamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	if selector.Empty() {
		return nil, errors.New("spec.namespaceSelector: empty; to match every namespace, say that the label kubernetes.io/metadata.name exists")
	}
	return selector, nil
}

// validate finds what the schema can't tell. The source must not be one of the
// copies: a copy that isn't wanted any more is deleted.
func (c *ConfigSync) validate(copies handler.Children) error {
	if _, err := c.selector(); err != nil {
		return err
	}
	if source := c.Spec.Source; copies.OfType(k8s.ConfigMap).Exists(source.Namespace, source.Name) {
		return fmt.Errorf("spec.source: ConfigMap %s/%s is a copy that this ConfigSync has made", source.Namespace, source.Name)
	}
	return nil
}

// source returns the ConfigMap that is copied, nil if it doesn't exist.
func (c *ConfigSync) source(related handler.Objects) (*corev1.ConfigMap, error) {
	found, exists := related.OfType(k8s.ConfigMap).Get(c.Spec.Source.Namespace, c.Spec.Source.Name)
	if !exists {
		return nil, nil
	}
	return resource.As[*corev1.ConfigMap](found)
}

// copies returns a copy of the source for every Namespace that the selector
// matches, and how many Namespaces and copies there are. The source's own
// Namespace needs none. In one that is being deleted nothing can be created, and
// what is there goes along with it. So a copy there stays as it is, and so do all
// copies if there is no source.
func (c *ConfigSync) copies(req *handler.SyncRequest, source *corev1.ConfigMap) (copies []any, count ConfigSyncStatus) {
	for namespace := range req.Related.OfType(k8s.Namespace).All() {
		if namespace.Name() == c.Spec.Source.Namespace {
			continue
		}
		live, exists := req.Children.OfType(k8s.ConfigMap).Get(namespace.Name(), c.Spec.Source.Name)
		switch {
		case source != nil && !namespace.IsDeleting():
			copies = append(copies, copyOf(source, namespace.Name()))
		case exists:
			copies = append(copies, handler.Keep(live))
		}
		if namespace.IsDeleting() {
			continue
		}
		count.Namespaces++
		if exists {
			count.Copies++
		}
	}
	return copies, count
}

// copyOf returns the copy for a namespace: the data alone. Labels and annotations
// of the source may mean something to whoever has set them, and a copy that is
// immutable couldn't follow its source.
func copyOf(source *corev1.ConfigMap, namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: namespace},
		Data:       source.Data,
		BinaryData: source.BinaryData,
	}
}

// message says what is wrong: the source doesn't exist, or the last pass couldn't
// write some of the copies.
func (c *ConfigSync) message(req *handler.SyncRequest, source *corev1.ConfigMap) string {
	if source == nil {
		return fmt.Sprintf("ConfigMap %s/%s: doesn't exist; its copies stay as they are", c.Spec.Source.Namespace, c.Spec.Source.Name)
	}
	return failures(req.LastErrors)
}

// failures says which copies the last pass couldn't write, and why: the first of
// them by namespace, and how many more there are.
func failures(errs []handler.ChildError) string {
	if len(errs) == 0 {
		return ""
	}
	first := slices.MinFunc(errs, func(a, b handler.ChildError) int { return strings.Compare(a.Key.Namespace, b.Key.Namespace) })
	text := fmt.Sprintf("ConfigMap %s: can't %s: %s", first.Key, first.Verb, first.Message)
	if more := len(errs) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

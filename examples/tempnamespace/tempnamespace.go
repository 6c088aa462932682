package main

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A TempNamespace is what crd.yaml describes, as far as the operator reads it.
type TempNamespace struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Namespace   string          `json:"namespace"`
		DeleteAfter metav1.Duration `json:"deleteAfter"`
	} `json:"spec"`
}

// A TempNamespaceStatus is all of the status that the operator writes; the
// engine adds observedGeneration.
type TempNamespaceStatus struct {
	Phase     string       `json:"phase"`
	Namespace string       `json:"namespace,omitempty"`
	DeleteAt  *metav1.Time `json:"deleteAt,omitempty"`
	Message   string       `json:"message,omitempty"`
}

// name returns the name of the Namespace.
func (n *TempNamespace) name() string {
	if n.Spec.Namespace != "" {
		return n.Spec.Namespace
	}
	return n.Name
}

// validate finds what the schema can't tell.
func (n *TempNamespace) validate() error {
	name := n.name()
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("namespace %q: can't be a Namespace's name: %s; set spec.namespace to another one", name, strings.Join(problems, "; "))
	}
	if name == metav1.NamespaceDefault || strings.HasPrefix(name, "kube-") {
		return fmt.Errorf("namespace %q: belongs to Kubernetes; set spec.namespace to another one", name)
	}
	return nil
}

// A term is a Namespace and until when it shall exist.
type term struct {
	name string
	end  time.Time
}

// term begins with the TempNamespace rather than the Namespace: one that was
// deleted too early and comes back doesn't get more time.
func (n *TempNamespace) term() term {
	return term{name: n.name(), end: n.CreationTimestamp.Add(n.Spec.DeleteAfter.Duration)}
}

func (t term) isUp() bool { return !time.Now().Before(t.end) }

func (t term) namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.name}}
}

// status says what has been observed of the Namespace.
func (t term) status(children handler.Children) TempNamespaceStatus {
	namespace, exists := children.OfType(k8s.Namespace).Get("", t.name)
	phase := "Pending"
	switch {
	case exists && (t.isUp() || namespace.IsDeleting()):
		phase = "Terminating"
	case exists:
		phase = "Active"
	case t.isUp():
		phase = "Deleted"
	}
	return TempNamespaceStatus{Phase: phase, Namespace: t.name, DeleteAt: &metav1.Time{Time: t.end}}
}

// Package v1 is version v1 of the API that the operator hello serves. The
// CustomResourceDefinition is made of these types and their comments, by
// go generate in the folder above.
//
// +groupName=fraim.co.jp
// +versionName=v1
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Hello is a number of servers that say hello.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=helloes,shortName=hlo
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas
// +kubebuilder:printcolumn:name=Replicas,type=integer,JSONPath=.spec.replicas
// +kubebuilder:printcolumn:name=Message,type=string,JSONPath=.status.message
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
type Hello struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HelloSpec `json:"spec"`
	// +optional
	Status HelloStatus `json:"status,omitempty"`
}

// A HelloSpec is what a user asks for.
type HelloSpec struct {
	// Replicas is how many servers there shall be.
	//
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
}

// A HelloStatus is what the operator has observed.
type HelloStatus struct {
	// Replicas is how many servers there are.
	//
	// +optional
	Replicas int32 `json:"replicas"`
	// Message says how the servers fare, or what is wrong with the spec.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// ObservedGeneration is the metadata.generation that the status was
	// computed from. The engine sets it.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

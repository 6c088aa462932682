// Package v1 is version v1 of the operator's API. The CustomResourceDefinition in
// deploy/example.com_sites.yaml is made of these types and their comments by `make generate`.
//
// +groupName=example.com
// +versionName=v1
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A Site is a web server that others in the cluster can reach by its name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=.status.conditions[?(@.type=="Ready")].status
// +kubebuilder:printcolumn:name=URL,type=string,JSONPath=.status.url
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=.metadata.creationTimestamp
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SiteSpec `json:"spec"`
	// +optional
	Status SiteStatus `json:"status,omitempty"`
}

// A SiteSpec is what a user asks for.
type SiteSpec struct {
	// Image is the web server's. It listens on port 8080.
	//
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Replicas is how many servers there shall be.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
}

// A SiteStatus is what the operator has observed.
type SiteStatus struct {
	// URL is where the site is reached from within the cluster.
	//
	// +optional
	URL string `json:"url,omitempty"`
	// ObservedGeneration is the metadata.generation that the status was computed
	// from. The engine sets it.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Available, which the handler sets, and Ready, Reconciling and
	// Stalled, which the engine does.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

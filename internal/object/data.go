package object

import "github.com/roperator/roperator/resource"

// HoldsData says whether what an object of this type stands for is lost with the object.
func HoldsData(t resource.Type) bool {
	switch t.GroupVersionKind().GroupKind().String() {
	case "PersistentVolumeClaim", "PersistentVolume", "Namespace", "CustomResourceDefinition.apiextensions.k8s.io":
		return true
	}
	return false
}

package readiness_test

import (
	"fmt"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
)

func ExampleOf() {
	claim, err := resource.New([]byte(`{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": {"namespace": "shop", "name": "data", "uid": "1", "resourceVersion": "1"},
		"status": {"phase": "Pending"}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	is := readiness.Of(claim)
	fmt.Println(is.State, "-", is.Message)
	// Output: InProgress - PVC is not Bound. phase: Pending
}

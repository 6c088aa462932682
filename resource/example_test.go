package resource_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/roperator/roperator/resource"
)

const podJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","uid":"1","resourceVersion":"7",
	"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"nginx"}]},"status":{"phase":"Running"}}`

func ExampleNew() {
	r, err := resource.New([]byte(podJSON))
	if err != nil {
		fmt.Println(err)
		return
	}
	app, _ := r.Label("app")
	phase, _ := r.Field("status", "phase")
	fmt.Println(r.Type(), r.Key(), app, phase)
	// Output: v1/Pod default/web web Running
}

func ExampleNew_missing() {
	_, err := resource.New(map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "web"}})
	fmt.Println(err)
	// Output: Pod web: missing apiVersion, metadata.uid, metadata.resourceVersion
}

func ExampleAs() {
	r, err := resource.New([]byte(podJSON))
	if err != nil {
		fmt.Println(err)
		return
	}
	pod, err := resource.As[corev1.Pod](r)
	fmt.Println(pod.Spec.Containers[0].Image, err)
	// Output: nginx <nil>
}

func ExampleResource_Field() {
	r, err := resource.New([]byte(podJSON))
	if err != nil {
		fmt.Println(err)
		return
	}
	phase, ok := r.Field("status", "phase")
	fmt.Println(phase, ok)
	_, ok = r.Field("status", "podIP")
	fmt.Println(ok)
	// Output:
	// Running true
	// false
}

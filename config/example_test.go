package config_test

import (
	"fmt"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func ExampleOperator() {
	operator := config.Operator{
		Name:   "echoserver",
		Parent: resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "EchoServer"},
		Children: []config.Child{
			{Type: k8s.Pod, Strategy: config.Recreate},
			{Type: k8s.Service, Strategy: config.Replace, IgnoreFields: []string{"spec.ports[*].nodePort"}},
		},
	}
	fmt.Println(operator.Validate())
	// Output: <nil>
}

func ExampleOperator_Validate() {
	operator := config.Operator{
		Parent:   resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "EchoServer"},
		Children: []config.Child{{Type: k8s.Pod}, {Type: k8s.Pod, Strategy: config.Recreate}},
	}
	fmt.Println(operator.Validate())
	// Output:
	// config.Operator: Name: empty; name the operator, as in "echoserver"
	// config.Operator: Children[0].Strategy: not set; choose Replace, Recreate, OnDelete or Apply
	// config.Operator: Children[1].Type: v1/Pod is Children[0] already; remove one
}

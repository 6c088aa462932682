// Package config is what users of the library declare: an [Operator] says
// which parents it serves and which children they have. Name and Parent must be
// set, and of each child Type and Strategy. The zero value of every other field is
// its default.
//
//	var operator = config.Operator{
//		Name:   "echoserver",
//		Parent: resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "EchoServer"},
//		Children: []config.Child{
//			{Type: k8s.Pod, Strategy: config.Recreate},
//			{Type: k8s.Service, Strategy: config.Replace},
//		},
//	}
package config

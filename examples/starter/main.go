// Command starter is an operator: for every Site it runs a web server.
package main

import "github.com/roperator/roperator/runner"

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd paths=./api/... output:crd:dir=deploy

func main() { runner.Main(operator, sites) }

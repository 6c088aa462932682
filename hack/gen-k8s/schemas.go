package main

import "k8s.io/client-go/rest"

func writeSchemas(server *rest.Config, path string) error { return nil }

// Command gen-k8s writes what this module knows about built-in kinds: the
// variables of resource/k8s, and the tables of internal/listkeys and internal/apischema. It asks a live
// API server, which it starts (see internal/testing/plane).
//
//	go generate ./resource/k8s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/testing/plane"
)

func main() {
	root := flag.String("root", ".", "the module's folder")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "gen-k8s:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	// What clusters serve unless told otherwise becomes public API.
	err := withServer("", func(server *rest.Config) error {
		return writeTypes(server, filepath.Join(root, "resource", "k8s", "zz_generated.go"))
	})
	if err != nil {
		return err
	}
	// Comparing has to know what a cluster may be told to serve as well.
	return withServer("api/all=true", func(server *rest.Config) error {
		if err := writeSchemas(server, filepath.Join(root, "internal", "listkeys", "zz_generated.json")); err != nil {
			return err
		}
		return writeDemands(server, filepath.Join(root, "internal", "apischema", "zz_generated.json"))
	})
}

// withServer runs f against a fresh API server.
func withServer(runtimeConfig string, f func(*rest.Config) error) (err error) {
	dir, err := os.MkdirTemp("", "roperator-gen-k8s-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := plane.New(plane.Options{Dir: dir, ServerFlags: map[string]string{"runtime-config": runtimeConfig}})
	if err != nil {
		return err
	}
	defer server.Stop()
	if err := server.Start(context.Background()); err != nil {
		return err
	}
	return f(server.Config())
}

// Command gen-k8s writes what this module knows about built-in kinds: the
// variables of resource/k8s, and the tables of internal/listkeys and internal/apischema. It asks a live
// API server, which it starts from the binaries in KUBEBUILDER_ASSETS (default
// .cache/controlplane).
//
//	go generate ./resource/k8s
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest" //nolint:depguard // a generator is no part of the library
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
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		var err error
		if assets, err = filepath.Abs(filepath.Join(root, ".cache", "controlplane")); err != nil {
			return err
		}
	}
	// What clusters serve unless told otherwise becomes public API.
	err := withServer(assets, "", func(server *rest.Config) error {
		return writeTypes(server, filepath.Join(root, "resource", "k8s", "zz_generated.go"))
	})
	if err != nil {
		return err
	}
	// Comparing has to know what a cluster may be told to serve as well.
	return withServer(assets, "api/all=true", func(server *rest.Config) error {
		if err := writeSchemas(server, filepath.Join(root, "internal", "listkeys", "zz_generated.json")); err != nil {
			return err
		}
		return writeDemands(server, filepath.Join(root, "internal", "apischema", "zz_generated.json"))
	})
}

// withServer runs f against a fresh API server.
func withServer(assets, runtimeConfig string, f func(*rest.Config) error) (err error) {
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	if runtimeConfig != "" {
		env.ControlPlane.GetAPIServer().Configure().Set("runtime-config", runtimeConfig)
	}
	server, err := env.Start()
	if err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}
	defer func() {
		if stopErr := env.Stop(); err == nil && stopErr != nil {
			err = fmt.Errorf("stop the API server: %w", stopErr)
		}
	}()
	return f(server)
}

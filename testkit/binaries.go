package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	assetsVariable = "KUBEBUILDER_ASSETS"
	assetsDefault  = "/usr/local/kubebuilder/bin"
	assetsCache    = ".cache/controlplane" // beside go.mod, where `make controlplane` puts them
)

// binaries are the paths of a control plane's programs.
type binaries struct {
	etcd, apiServer   string
	controllerManager string // "" if there is none
}

// findBinaries looks for the programs where KUBEBUILDER_ASSETS says and
// nowhere else if it is set, so that a typo in it can't go unnoticed.
func findBinaries() (binaries, error) {
	if dir := os.Getenv(assetsVariable); dir != "" {
		bin, missing := binariesIn(dir)
		if len(missing) > 0 {
			return binaries{}, missingBinaries(fmt.Sprintf("%s isn't there (%s=%s)",
				strings.Join(missing, " and "), assetsVariable, dir))
		}
		return bin, nil
	}
	dirs := []string{assetsDefault}
	if root := moduleRoot(); root != "" {
		dirs = append([]string{filepath.Join(root, filepath.FromSlash(assetsCache))}, dirs...)
	}
	for _, dir := range dirs {
		if bin, missing := binariesIn(dir); len(missing) == 0 {
			return bin, nil
		}
	}
	return binaries{}, missingBinaries(fmt.Sprintf("%s isn't set, and neither of etcd and kube-apiserver is in %s",
		assetsVariable, strings.Join(dirs, " or ")))
}

func missingBinaries(what string) error {
	return fmt.Errorf(`control plane: %s; one of these helps:
  export %[2]s=/path/to/a/folder/with/etcd/and/kube-apiserver
  make controlplane    # in roperator's repository: downloads or builds them into %[3]s
  go install sigs.k8s.io/controller-runtime/tools/setup-envtest@latest && export %[2]s="$(setup-envtest use -p path)"
  export USE_EXISTING_CLUSTER=true    # the tests run on the cluster of your kubeconfig`,
		what, assetsVariable, assetsCache)
}

// binariesIn returns the programs in dir and the paths of the required ones
// that aren't there.
func binariesIn(dir string) (bin binaries, missing []string) {
	find := func(name string) (string, bool) {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return filepath.Join(dir, name), false
		}
		info, err := os.Stat(path)
		return path, err == nil && info.Mode().IsRegular()
	}
	var ok bool
	if bin.etcd, ok = find("etcd"); !ok {
		missing = append(missing, bin.etcd)
	}
	if bin.apiServer, ok = find("kube-apiserver"); !ok {
		missing = append(missing, bin.apiServer)
	}
	if bin.controllerManager, ok = find("kube-controller-manager"); !ok {
		bin.controllerManager = ""
	}
	return bin, missing
}

// moduleRoot returns the nearest folder with a go.mod from the working
// directory upwards, "" if there is none.
func moduleRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

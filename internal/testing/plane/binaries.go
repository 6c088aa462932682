package plane

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const (
	assetsVariable = "KUBEBUILDER_ASSETS"
	assetsDefault  = "/usr/local/kubebuilder/bin"
	assetsCache    = ".cache/controlplane" // beside go.mod, where `make controlplane` puts them
)

// Binary returns the path of a program of the control plane. The folder with etcd and
// kube-apiserver is the one that KUBEBUILDER_ASSETS names; if that is not set,
// .cache/controlplane beside the nearest go.mod, or /usr/local/kubebuilder/bin. An error that is
// os.ErrNotExist: the program isn't there.
func Binary(program string) (string, error) {
	dir, err := assets()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, executable(program))
	switch missing := missingIn(dir); {
	case isFile(path):
		return path, nil
	case slices.Contains(missing, path):
		return "", missingBinaries(fmt.Sprintf("%s isn't there (%s=%s)", strings.Join(missing, " and "), assetsVariable, dir))
	default:
		return "", missingError(fmt.Sprintf("%s: %s isn't there; make controlplane gets it", program, path))
	}
}

// A missingError is os.ErrNotExist.
type missingError string

func (e missingError) Error() string { return string(e) }

// Is says what the error is.
func (e missingError) Is(target error) bool { return target == os.ErrNotExist }

// assets returns the folder that KUBEBUILDER_ASSETS names, so that a typo in it can't go
// unnoticed; if it names none, the first one that has etcd and kube-apiserver.
func assets() (string, error) {
	if dir := os.Getenv(assetsVariable); dir != "" {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("control plane: %s: %w", assetsVariable, err)
		}
		return dir, nil
	}
	dirs := []string{assetsDefault}
	if root := moduleRoot(); root != "" {
		dirs = append([]string{filepath.Join(root, filepath.FromSlash(assetsCache))}, dirs...)
	}
	for _, dir := range dirs {
		if len(missingIn(dir)) == 0 {
			return dir, nil
		}
	}
	return "", missingBinaries(fmt.Sprintf("%s isn't set, and neither of etcd and kube-apiserver is in %s",
		assetsVariable, strings.Join(dirs, " or ")))
}

func missingBinaries(what string) error {
	return missingError(fmt.Sprintf(`control plane: %s; one of these helps:
  export %[2]s=/path/to/a/folder/with/etcd/and/kube-apiserver
  make controlplane    # in roperator's repository: downloads or builds them into %[3]s
  go install sigs.k8s.io/controller-runtime/tools/setup-envtest@latest && export %[2]s="$(setup-envtest use -p path)"
  export USE_EXISTING_CLUSTER=true    # the tests run on the cluster of your kubeconfig`,
		what, assetsVariable, assetsCache))
}

// missingIn returns the paths of etcd and kube-apiserver in dir, if they aren't there.
func missingIn(dir string) (missing []string) {
	for _, program := range []string{"etcd", "kube-apiserver"} {
		if path := filepath.Join(dir, executable(program)); !isFile(path) {
			missing = append(missing, path)
		}
	}
	return missing
}

func executable(program string) string {
	if runtime.GOOS == "windows" {
		return program + ".exe"
	}
	return program
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
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

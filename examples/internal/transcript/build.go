package transcript

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs builds the command in the working directory into the folder, and
// returns the folders in which a session finds it and kubectl: this one, and
// the control plane's, if there are such.
func Programs(ctx context.Context, folder string) ([]string, error) {
	output, err := exec.CommandContext(ctx, "go", "build", "-o", folder+string(os.PathSeparator), ".").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, output)
	}
	found := []string{folder}
	for _, dir := range []string{os.Getenv("KUBEBUILDER_ASSETS"), "../../.cache/controlplane"} {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		found = append(found, dir)
	}
	return found, nil
}

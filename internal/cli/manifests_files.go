package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// writeFiles writes files, by their paths below a directory, which must be empty or not be
// there yet. All of them are written or none is.
func writeFiles(dir string, files map[string][]byte) (err error) {
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s isn't empty; remove what is in it, or name another directory", dir)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	begun, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(begun))
		}
	}()
	for path, content := range files {
		path = filepath.Join(begun, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(begun, 0o755); err != nil { // of a new directory for others than oneself
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // empty: see above
		return err
	}
	return os.Rename(begun, dir)
}

package rotation

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder holds an operator's credentials.
type folder struct {
	t      *testing.T
	dir    string
	volume bool // the files are replaced as the kubelet does it: all at once, by a symbolic link
	swaps  int
	files  map[string][]byte // what they hold, by name
}

func newFolder(t *testing.T, volume bool) *folder {
	t.Helper()
	return &folder{t: t, dir: t.TempDir(), volume: volume, files: map[string][]byte{}}
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// put replaces files.
func (f *folder) put(files map[string][]byte) {
	f.t.Helper()
	for name, content := range files {
		f.files[name] = content
		if !f.volume {
			require.NoError(f.t, os.WriteFile(f.path(name), content, 0o600))
		}
	}
	if f.volume {
		f.swap()
	}
}

// swap writes all files into a new folder, to which the link ..data leads from then
// on. Each file is a link into ..data.
func (f *folder) swap() {
	f.t.Helper()
	f.swaps++
	version := fmt.Sprintf("..version_%d", f.swaps)
	require.NoError(f.t, os.Mkdir(f.path(version), 0o700))
	for name, content := range f.files {
		require.NoError(f.t, os.WriteFile(filepath.Join(f.path(version), name), content, 0o600))
		if f.swaps == 1 {
			require.NoError(f.t, os.Symlink(filepath.Join("..data", name), f.path(name)))
		}
	}
	require.NoError(f.t, os.Symlink(version, f.path("..data_tmp")))
	require.NoError(f.t, os.Rename(f.path("..data_tmp"), f.path("..data")))
	require.NoError(f.t, os.RemoveAll(f.path(fmt.Sprintf("..version_%d", f.swaps-1))))
}

// spoil makes every file unusable: missing or empty.
func (f *folder) spoil(how string) {
	f.t.Helper()
	for name := range f.files {
		switch how {
		case "missing":
			require.NoError(f.t, os.Remove(f.path(name)))
		case "empty":
			require.NoError(f.t, os.WriteFile(f.path(name), nil, 0o600))
		}
	}
}

// Package lint tests the script that gets golangci-lint.
package lint

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

const version = "v9.8.7"

func TestGet(t *testing.T) {
	name := fmt.Sprintf("golangci-lint-9.8.7-%s-%s", runtime.GOOS, runtime.GOARCH)
	published := archive(t, name+"/golangci-lint", "downloaded")
	sum := sha256.Sum256(published)
	line := hex.EncodeToString(sum[:]) + "  " + name + ".tar.gz\n"
	tests := map[string]struct {
		reason string
		sums   string
		served []byte // nil: 404
		want   string // the content of the file
		says   string
	}{
		"Downloaded": {"The archive has the sum of the repository.", line, published, "downloaded", "v9.8.7 downloaded"},
		"WrongSum":   {"An archive that another has made is not unpacked.", line, archive(t, name+"/golangci-lint", "forged"), "built", "WRONG SUM"},
		"Absent":     {"The host does not have the archive.", line, nil, "built", "NOT DOWNLOADED"},
		"NoSum":      {"Without a sum the archive is not asked for.", "", published, "built", "sums has none of " + name},
		"OldSum":     {"The sum of another version does not count.", hex.EncodeToString(sum[:]) + "  golangci-lint-9.8.6-linux-amd64.tar.gz\n", published, "built", "sums has none of"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			asked := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				if test.served == nil {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write(test.served)
			}))
			t.Cleanup(server.Close)
			file, said := get(t, test.sums, server.URL)
			content, err := os.ReadFile(file)
			require.NoError(t, err, said)
			require.Equal(t, test.want, string(content), test.reason)
			require.Contains(t, said, test.says, test.reason)
			if test.sums == "" {
				require.Empty(t, asked, test.reason)
			}
			left, err := os.ReadDir(filepath.Dir(file))
			require.NoError(t, err)
			require.Len(t, left, 1, "nothing is left beside the file")
		})
	}
}

// get runs a copy of the script, with a Go tool that builds in no time.
func get(t *testing.T, sums, mirror string) (file, said string) {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("get.sh")
	require.NoError(t, err)
	goTool, err := exec.LookPath("go")
	require.NoError(t, err)
	tool := "#!/bin/sh\nif [ \"$1\" = install ]; then printf built >\"$GOBIN/golangci-lint\"; else exec '" + goTool + "' \"$@\"; fi\n"
	for name, content := range map[string]string{"get.sh": string(script), "sums": sums, "bin/go": tool} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
	}
	file = filepath.Join(dir, "out", "golangci-lint")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "get.sh"), version, file)
	cmd.Env = append(os.Environ(), "GOLANGCI_LINT_MIRROR="+mirror, "NO_PROXY=*", "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return file, string(out)
}

// archive is a release archive with one program in it.
func archive(t *testing.T, path, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	files := tar.NewWriter(packed)
	require.NoError(t, files.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(content))}))
	_, err := files.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, files.Close())
	require.NoError(t, packed.Close())
	return out.Bytes()
}

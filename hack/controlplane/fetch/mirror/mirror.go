// Package mirror serves programs of the control plane by the paths that their own
// hosts use, with their sums, for fetch to download:
//
//	server := httptest.NewServer(mirror.New(programs, mirror.Release{Kubernetes: "v1.36.3", Kwok: "v0.8.0"}))
package mirror

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"path"
	"runtime"
	"slices"
	"time"
)

// IndexPath is where envtest's index is.
const IndexPath = "/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

// A Release says what the programs are served as.
type Release struct {
	Kubernetes string // version, with its v
	Envtest    string // version of envtest's archive, that of Kubernetes if empty
	Kwok       string // version, with its v
}

// ArchivePath is where envtest's archive for this machine is.
func (r Release) ArchivePath() string {
	version := r.Envtest
	if version == "" {
		version = r.Kubernetes
	}
	name := fmt.Sprintf("envtest-%s-%s-%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)
	return path.Join("/kubernetes-sigs/controller-tools/releases/download", "envtest-"+version, name)
}

// ProgramPath is where a program is that is published as a file of its own.
func (r Release) ProgramPath(name string) string {
	if name == "kwok" {
		file := fmt.Sprintf("kwok-%s-%s", runtime.GOOS, runtime.GOARCH)
		return path.Join("/kubernetes-sigs/kwok/releases/download", r.Kwok, file)
	}
	return path.Join("/", r.Kubernetes, "bin", runtime.GOOS, runtime.GOARCH, name)
}

// Files are the contents of a mirror, by path.
type Files map[string][]byte

// New returns a mirror's files: etcd, kube-apiserver and kubectl as an archive of envtest, the other
// programs as files of their own.
func New(programs map[string][]byte, release Release) (Files, error) {
	files := Files{}
	inArchive := map[string][]byte{}
	for name, content := range programs {
		switch name {
		case "etcd", "kube-apiserver", "kubectl":
			inArchive[name] = content
		default:
			files.Add(release.ProgramPath(name), content)
		}
	}
	archive, err := Archive(inArchive)
	if err != nil {
		return nil, err
	}
	files[release.ArchivePath()] = archive
	sum := sha512.Sum512(archive)
	files[IndexPath] = Index(release, hex.EncodeToString(sum[:]))
	return files, nil
}

// Add adds a file and its sum beside it.
func (f Files) Add(path string, content []byte) {
	sum := sha256.Sum256(content)
	f[path] = content
	f[path+".sha256"] = []byte(hex.EncodeToString(sum[:]))
}

// Index is envtest's index of one release for this machine. As the real one does, it links to GitHub.
func Index(release Release, sum string) []byte {
	archive := release.ArchivePath()
	version := path.Base(path.Dir(archive))[len("envtest-"):]
	return fmt.Appendf(nil, "releases:\n  %s:\n    %s:\n      hash: %s\n      selfLink: https://github.com%s\n",
		version, path.Base(archive), sum, archive)
}

// Archive packs programs as envtest does.
func Archive(programs map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(packed)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: "controller-tools/envtest/" + name,
			Mode: 0o755, Size: int64(len(programs[name])), ModTime: time.Unix(0, 0),
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive: %s: %w", name, err)
		}
		if _, err := archive.Write(programs[name]); err != nil {
			return nil, fmt.Errorf("archive: %s: %w", name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if err := packed.Close(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return out.Bytes(), nil
}

// ServeHTTP serves the files.
func (f Files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, ok := f[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

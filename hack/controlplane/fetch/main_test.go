package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/hack/controlplane/fetch/mirror"
)

// processVariable makes the test's binary the command, whose transport is the process' own.
const processVariable = "FETCH_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

const patience = time.Minute // bounds a hang, no more

var release = mirror.Release{Kubernetes: "v1.36.3", Kwok: "v0.8.0"}

// programs are small, but large enough to be cut.
func programs() map[string][]byte {
	out := map[string][]byte{}
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kwok"} {
		out[name] = bytes.Repeat([]byte("#!/bin/sh\necho "+name+"\n"), 1000)
	}
	return out
}

// A host is a mirror whose answers to some paths are a test's own. It counts the requests. Its
// fields are for tests that haven't started it yet.
type host struct {
	files mirror.Files
	own   map[string]http.HandlerFunc
	mu    struct {
		sync.Mutex
		requests []string
	}
}

func newHost(t *testing.T) *host {
	t.Helper()
	files, err := mirror.New(programs(), release)
	require.NoError(t, err)
	return &host{files: files, own: map[string]http.HandlerFunc{}}
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := mirror.Files{}
	h.mu.Lock()
	h.mu.requests = append(h.mu.requests, r.URL.Path)
	if content, ok := h.files[r.URL.Path]; ok {
		asked[r.URL.Path] = content
	}
	h.mu.Unlock()
	if own := h.own[r.URL.Path]; own != nil {
		own(w, r)
		return
	}
	asked.ServeHTTP(w, r)
}

// replace changes a file of a host that has started.
func (h *host) replace(path string, content []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files[path] = content
}

func (h *host) requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.mu.requests...)
}

func (h *host) start(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// part answers with the beginning of a file, and then as the test wants.
func (h *host) part(path string, then func(http.ResponseWriter, *http.Request)) {
	content := h.files[path]
	h.own[path] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		then(w, r)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
func abort(http.ResponseWriter, *http.Request)    { panic(http.ErrAbortHandler) }
func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// command returns the command, for all programs. Three seconds is how long a host may say nothing.
func command(t *testing.T, dir, url string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"-out", dir, "-kubernetes", release.Kubernetes, "-kwok", release.Kwok,
		"-kwok-sums", "../kwok.sums", "-silence", "3s", "-mirror", url}, args...)
	args = append(args, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), processVariable+"=1", "NO_PROXY=*")
	return cmd
}

// fetchInto runs the command and returns its exit code and what it says.
func fetchInto(t *testing.T, dir, url string, args ...string) (code int, said string) {
	t.Helper()
	cmd := command(t, dir, url, args...)
	overdue := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer overdue.Stop()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// brief stands for a file's content in a failure that one can read.
func brief(content []byte) string {
	if len(content) < 100 {
		return string(content)
	}
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%d bytes, %x", len(content), sum[:4])
}

// contents returns what is in a folder's files, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		out[entry.Name()] = brief(data)
	}
	return out
}

// installed is what a folder has once these programs are there.
func installed(names ...string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		version := release.Kubernetes
		if name == kwok {
			version = release.Kwok
		}
		out[name] = brief(programs()[name])
		out["."+name+".recipe"] = recipe(here(), version) + "\n"
	}
	return out
}

func here() options {
	opts, err := parse([]string{"-out=x", "-kubernetes=v1.0.0", "-kwok=v1.0.0", kwok}, io.Discard)
	if err != nil {
		panic(err)
	}
	return opts
}

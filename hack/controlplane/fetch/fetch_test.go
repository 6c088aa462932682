package main

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/hack/controlplane/fetch/mirror"
)

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	dir := t.TempDir()
	code, said := fetchInto(t, dir, "http://"+listener.Addr().String())
	require.Equal(t, exitFailed, code, said)
	require.Empty(t, contents(t, dir))
	require.Equal(t, 1, strings.Count(said, "\n"), "one line is enough: %s", said)
	require.Contains(t, said, "etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok: can't be downloaded: no host can be reached")
	require.Contains(t, said, "connection refused")
}

// TestSilentHandshake is a host that accepts a connection and says nothing, before there can be a request.
func TestSilentHandshake(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	dir := t.TempDir()
	code, said := fetchInto(t, dir, "https://"+listener.Addr().String())
	require.Equal(t, exitFailed, code, said)
	require.Empty(t, contents(t, dir))
	require.Contains(t, said, "TLS handshake timeout")
}

func TestNewestPatchOfEnvtest(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	content := h.files[release.ArchivePath()]
	for _, version := range []string{"v1.36.0", "v1.36.10", "v1.36.2"} {
		h.files[mirror.Release{Kubernetes: version}.ArchivePath()] = []byte("another")
	}
	var index []byte
	for _, version := range []string{"v1.36.0", "v1.36.10", "v1.36.2", "v1.37.0", "v1.35.3"} {
		part := mirror.Index(mirror.Release{Kubernetes: version}, sha512Of(content))
		index = append(index, bytes.TrimPrefix(part, []byte("releases:\n"))...)
	}
	h.files[mirror.IndexPath] = append([]byte("releases:\n"), index...)
	h.files[mirror.Release{Kubernetes: "v1.36.10"}.ArchivePath()] = content
	code, said := fetchInto(t, dir, h.start(t))
	require.Zero(t, code, said)
	require.Contains(t, said, "etcd, kube-apiserver: envtest has no v1.36.3; taking v1.36.10, the newest that it has of this minor version")
	require.Equal(t, installed("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", kwok), contents(t, dir))
}

func TestWhatWasThere(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	for _, name := range []string{"etcd", "kwok", ".kwok.recipe"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o600))
	}
	old := filepath.Join(dir, ".etcd"+partSuffix+"1")
	require.NoError(t, os.WriteFile(old, []byte("half"), 0o600))
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*abandoned)))
	young := filepath.Join(dir, ".etcd"+partSuffix+"2")
	require.NoError(t, os.WriteFile(young, []byte("half"), 0o600))
	h.part(release.ProgramPath(kwok), abort)
	code, said := fetchInto(t, dir, h.start(t))
	require.Equal(t, exitFailed, code, said)
	want := installed("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	maps.Copy(want, map[string]string{"kwok": "old", ".kwok.recipe": "old", filepath.Base(young): "half"})
	require.Equal(t, want, contents(t, dir), "what couldn't be had is as it was, and another run's parts stay unless they are old")
}

func TestFolders(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	url := h.start(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	dirs := map[string]string{"below a file": filepath.Join(file, "x"), "a file": file}
	if os.Getuid() != 0 { // root may write anywhere
		locked := t.TempDir()
		require.NoError(t, os.Chmod(locked, 0o500))
		dirs["not writable"] = locked
	} else if _, err := os.Stat("/proc/self"); err == nil {
		dirs["not writable"] = "/proc/self"
	}
	for name, dir := range dirs {
		code, said := fetchInto(t, dir, url)
		require.Equal(t, exitUsage, code, "%s: %s", name, said)
		require.Contains(t, said, "controlplane: folder", name)
		require.Contains(t, said, dir, name)
	}
	require.Empty(t, h.requests(), "nothing is asked for")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"kwok":                                   "-out is missing",
		"-out=x kwok":                            "-kubernetes is missing",
		"-out=x -kubernetes=v1.0.0 kwok":         "-kwok is missing",
		"-out=x -kubernetes=v1.0.0 -kwok=v1.0.0": "no program is named",
		"-out=x -kubernetes=v1.0.0 -kwok=v1.0.0 kubelet":           "kubelet is none of the programs",
		"-out=x -kubernetes=v1.0.0 -kwok=v1.0.0 -mirror=host kwok": `mirror: "host" isn't a URL`,
		"-out=x -kubernetes=v1.0.0 -kwok=v1.0.0 -mirror=:// kwok":  "mirror: ",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, says, args)
	}
	opts, err := parse([]string{"-out=x", "-kubernetes=v1.0.0", "etcd"}, io.Discard)
	require.NoError(t, err, "kwok's version is needed for kwok alone")
	require.Equal(t, []string{"etcd"}, opts.names)
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	url := h.start(t)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			out, err := command(t, dir, url).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	group.Wait()
	require.Equal(t, installed("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", kwok), contents(t, dir))
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	begun := make(chan struct{})
	h.part(release.ArchivePath(), func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		hang(w, r)
	})
	cmd := command(t, dir, h.start(t), "-silence", "1m")
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	select {
	case <-begun:
	case <-time.After(patience):
		t.Error("the archive isn't asked for")
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // its code is looked at
	require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), said.String())
	require.Contains(t, said.String(), "interrupted")
	for name := range contents(t, dir) {
		require.NotContains(t, name, partSuffix)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(newHost(t).files)
	t.Cleanup(elsewhere.Close)
	h, dir := newHost(t), t.TempDir()
	path := release.ProgramPath(kwok)
	h.own[path] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+path, http.StatusFound)
	}
	below := httptest.NewServer(http.StripPrefix("/some/where", h))
	t.Cleanup(below.Close)
	code, said := fetchInto(t, dir, below.URL+"/some/where/")
	require.Zero(t, code, said)
	require.Equal(t, installed("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", kwok), contents(t, dir))
}

// A download by https stays encrypted.
func TestStayEncrypted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason   string
		from, to string
		before   int
		want     string
	}{
		"Encrypted":  {"releases are served by other hosts", "https://one.example/a", "https://other.example/b", 1, ""},
		"Downgraded": {"anyone on the way could replace file and sum", "https://one.example/a", "http://one.example/a", 1, "redirect from https to http://one.example"},
		"Plain":      {"a mirror on the loopback interface has no certificate", "http://127.0.0.1/a", "http://127.0.0.1/b", 1, ""},
		"Circle":     {"two hosts that name each other", "https://one.example/a", "https://one.example/a", maxRedirects, "10 redirects"},
	} {
		first, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.from, nil)
		require.NoError(t, err)
		next, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.to, nil)
		require.NoError(t, err)
		err = stayEncrypted(next, slices.Repeat([]*http.Request{first}, tc.before))
		if tc.want == "" {
			require.NoError(t, err, "%s: %s", name, tc.reason)
		} else {
			require.EqualError(t, err, tc.want, "%s: %s", name, tc.reason)
		}
	}
}

// TestPassword is a mirror that wants a password, which no message has.
func TestPassword(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	h.own[release.ProgramPath("kube-scheduler")] = text("another file")
	h.own[release.ProgramPath(kwok)+".sha256"] = text("no sum")
	h.own[release.ProgramPath("kube-controller-manager")+".sha256"] = http.NotFound
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "somebody" || password != "hush" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	code, said := fetchInto(t, dir, strings.Replace(server.URL, "http://", "http://somebody:hush@", 1))
	require.Equal(t, exitFailed, code, said)
	require.Equal(t, installed("etcd", "kube-apiserver"), contents(t, dir), said)
	for _, text := range []string{"WRONG SUM", "isn't a SHA-256", "404 Not Found"} {
		require.Contains(t, said, text)
	}
	require.NotContains(t, said, "hush")

	delete(h.files, mirror.IndexPath)
	_, said = fetchInto(t, t.TempDir(), strings.Replace(server.URL, "http://", "http://nobody:hush@", 1))
	require.Contains(t, said, "401 Unauthorized")
	require.NotContains(t, said, "hush")
	_, said = fetchInto(t, t.TempDir(), "http://somebody:hush@[")
	require.Contains(t, said, "mirror: isn't a URL")
	require.NotContains(t, said, "hush")
}

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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

// A host is a mirror whose answers to some paths are a test's own. It counts the requests.
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
	h.mu.Lock()
	h.mu.requests = append(h.mu.requests, r.URL.Path)
	h.mu.Unlock()
	if own := h.own[r.URL.Path]; own != nil {
		own(w, r)
		return
	}
	h.files.ServeHTTP(w, r)
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

// command returns the command, for all programs. Half a second is how long a host may say nothing.
func command(t *testing.T, dir, url string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"-out", dir, "-kubernetes", release.Kubernetes, "-kwok", release.Kwok,
		"-kwok-sums", "../kwok.sums", "-silence", "500ms", "-mirror", url}, args...)
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"} {
		args = append(args, name)
	}
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

func TestMirrors(t *testing.T) {
	archive, index := release.ArchivePath(), mirror.IndexPath
	manager, kwokPath := release.ProgramPath("kube-controller-manager"), release.ProgramPath(kwok)
	kubernetes := []string{"kube-controller-manager", "kube-scheduler"}
	notArchive := append([]string{kwok}, kubernetes...)
	all := append([]string{"etcd", "kube-apiserver"}, notArchive...)
	notManager := []string{"etcd", "kube-apiserver", "kube-scheduler", kwok}
	for name, test := range map[string]struct {
		reason string
		change func(h *host)
		there  []string // afterwards
		says   []string
	}{
		"good": {
			reason: "all is there, executable and as it was published",
			change: func(*host) {}, there: all,
		},
		"nothing there": {
			reason: "a host without the files is an error for each, that names the file",
			change: func(h *host) { clear(h.files) },
			says:   []string{"etcd, kube-apiserver: can't be downloaded", index, "404 Not Found", manager + ".sha256: 404"},
		},
		"server error": {
			reason: "an answer that isn't 200 isn't a file",
			change: func(h *host) {
				h.own[manager] = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "later", http.StatusBadGateway) }
			},
			there: notManager, says: []string{"kube-controller-manager: can't be downloaded", manager + ": 502 Bad Gateway"},
		},
		"slow": {
			reason: "a host that says little, but something all the time, is waited for",
			change: func(h *host) { h.own[manager] = slowly(h.files[manager]) }, there: all,
		},
		"hangs before its answer": {
			reason: "a host that doesn't answer is given up",
			change: func(h *host) { h.own[manager] = hang },
			there:  notManager, says: []string{manager, "timeout awaiting response headers"},
		},
		"hangs in the middle": {
			reason: "and so is one that stops",
			change: func(h *host) { h.part(manager, hang) },
			there:  notManager, says: []string{manager, "nothing has come for 500ms", "after 0.0 MB of 0.0 MB"},
		},
		"hangs in the middle of the archive": {
			reason: "what envtest's client reads is watched over, too",
			change: func(h *host) { h.part(archive, hang) },
			there:  notArchive, says: []string{"etcd, kube-apiserver: can't be downloaded", "nothing has come for 500ms"},
		},
		"hangs in the middle of the index": {
			reason: "the index as well",
			change: func(h *host) { h.part(index, hang) },
			there:  notArchive, says: []string{index, "nothing has come for 500ms"},
		},
		"truncated": {
			reason: "an answer that is shorter than announced isn't a file",
			change: func(h *host) { h.part(manager, abort) },
			there:  notManager, says: []string{manager, "the connection has ended early"},
		},
		"truncated archive": {
			reason: "nor is such an archive, though its first program may be whole",
			change: func(h *host) { h.part(archive, abort) },
			there:  notArchive, says: []string{"envtest", "the connection has ended early"},
		},
		"shorter than its sum says": {
			reason: "a host that cuts a file and announces what it sends is found out by the sum",
			change: func(h *host) { h.files[manager] = h.files[manager][:100] },
			there:  notManager, says: []string{manager + ": WRONG SUM: its SHA-256 is "},
		},
		"wrong sum": {
			reason: "another sum is another file",
			change: func(h *host) { h.own[manager+".sha256"] = text(strings.Repeat("ab", 32)) },
			there:  notManager, says: []string{manager + ": WRONG SUM", "and should be " + strings.Repeat("ab", 32)},
		},
		"sum with a name": {
			reason: "sums are also written as sha256sum does",
			change: func(h *host) {
				h.files[manager+".sha256"] = append(bytes.ToUpper(h.files[manager+".sha256"]), "  kube-controller-manager\n"...)
			},
			there: all,
		},
		"no sum": {
			reason: "what has no sum isn't downloaded",
			change: func(h *host) { delete(h.files, manager+".sha256") },
			there:  notManager, says: []string{manager + ".sha256: 404 Not Found"},
		},
		"a sum that is none": {
			reason: "a page of HTML in place of a sum is told of as it is",
			change: func(h *host) { h.own[manager+".sha256"] = text("<html>sign in</html>") },
			there:  notManager, says: []string{manager + `.sha256: "<html>sign" isn't a SHA-256`},
		},
		"an empty sum": {
			reason: "nor is nothing a sum",
			change: func(h *host) { h.own[manager+".sha256"] = text("\n") },
			there:  notManager, says: []string{manager + ".sha256: is empty"},
		},
		"kwok without a sum": {
			reason: "kwok's releases publish none: the repository's holds, for a mirror that has none",
			change: func(h *host) { delete(h.files, kwokPath+".sha256") },
			there:  []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"},
			says:   []string{kwokPath + ": WRONG SUM"},
		},
		"index with a wrong sum": {
			reason: "envtest's archive is checked against its index",
			change: func(h *host) { h.files[index] = mirror.Index(release, strings.Repeat("ab", 64)) },
			there:  notArchive, says: []string{"checksum mismatch", strings.Repeat("ab", 64)},
		},
		"index without a sum": {
			reason: "an index without one isn't believed",
			change: func(h *host) { h.files[index] = mirror.Index(release, `""`) },
			there:  notArchive, says: []string{"checksum mismatch"},
		},
		"index that is no YAML": {
			reason: "a page of a proxy in place of the index is an error",
			change: func(h *host) { h.own[index] = text("<html>\n\t<p>{sign in}</html>") },
			there:  notArchive, says: []string{index, "unable to unmarshal index"},
		},
		"index without this version": {
			reason: "an index without the minor version is an error",
			change: func(h *host) { h.files[index] = mirror.Index(mirror.Release{Kubernetes: "v1.35.9"}, "ab") },
			there:  notArchive, says: []string{"its index has no 1.36 for "},
		},
		"archive that isn't one": {
			reason: "an archive may be anything, with the right sum",
			change: func(h *host) { replaceArchive(h, []byte("<html>")) },
			there:  notArchive, says: []string{"envtest: its archive: "},
		},
		"archive without a program": {
			reason: "nothing of an archive that lacks a program is taken",
			change: func(h *host) {
				lacking, err := mirror.Archive(map[string][]byte{"etcd": []byte("etcd")})
				if err == nil {
					replaceArchive(h, lacking)
				}
			},
			there: notArchive, says: []string{"envtest: its archive has no kube-apiserver"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, dir := newHost(t), filepath.Join(t.TempDir(), "a", "b")
			test.change(h)
			code, said := fetchInto(t, dir, h.start(t))
			require.Equal(t, installed(test.there...), contents(t, dir), "%s\n%s", test.reason, said)
			for _, name := range test.there {
				info, err := os.Stat(filepath.Join(dir, name))
				require.NoError(t, err)
				require.EqualValues(t, 0o755, info.Mode().Perm(), "%s: %s", name, test.reason)
			}
			want := exitFailed
			if len(test.there) == len(all) {
				want = 0
			}
			require.Equal(t, want, code, "%s\n%s", test.reason, said)
			for _, text := range test.says {
				require.Contains(t, said, text, test.reason)
			}
			if want == 0 {
				require.NotContains(t, said, "can't", test.reason)
			}
		})
	}
}

// slowly writes in many parts, a tenth of a second apart.
func slowly(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		const parts = 10 // twice as long as a silence may be
		for i := range parts {
			_, _ = w.Write(content[len(content)*i/parts : len(content)*(i+1)/parts])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

func replaceArchive(h *host, content []byte) {
	h.files[release.ArchivePath()] = content
	h.files[mirror.IndexPath] = mirror.Index(release, sha512Of(content))
}

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

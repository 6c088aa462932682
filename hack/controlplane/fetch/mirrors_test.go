package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/hack/controlplane/fetch/mirror"
)

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
			there:  notManager, says: []string{manager, "nothing has come for 3s", "after 0.0 MB of 0.0 MB"},
		},
		"hangs in the middle of the archive": {
			reason: "what envtest's client reads is watched over, too",
			change: func(h *host) { h.part(archive, hang) },
			there:  notArchive, says: []string{"etcd, kube-apiserver: can't be downloaded", "nothing has come for 3s"},
		},
		"hangs in the middle of the index": {
			reason: "the index as well",
			change: func(h *host) { h.part(index, hang) },
			there:  notArchive, says: []string{index, "nothing has come for 3s"},
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

// slowly writes in many parts, apart enough that all take longer than a silence may.
func slowly(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		tick := time.NewTicker(400 * time.Millisecond)
		defer tick.Stop()
		const parts = 10
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

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestMain lets the test binary be the keeper too, as the demo's is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == keeperCommand {
		os.Exit(keeperMain(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

// newKeeper returns a keeper with a run folder below base.
func newKeeper(t *testing.T, base string) (*keeper, string) {
	t.Helper()
	dir, lock, err := newRunDir(base)
	require.NoError(t, err)
	k, err := startKeeper(dir, lock)
	require.NoError(t, err)
	require.NoError(t, lock.Close(), "the keeper has it open too")
	return k, dir
}

func TestKeeperEndsWhatItStarted(t *testing.T) {
	k, dir := newKeeper(t, t.TempDir())
	require.NoError(t, k.start("it", "/bin/sh", "-c", "exec sleep 600"))
	pid := k.pids["it"]
	require.True(t, running(pid))
	require.NoError(t, k.died())
	require.NoError(t, k.close())
	require.False(t, running(pid))
	require.NoDirExists(t, dir)
}

func TestKeeperStops(t *testing.T) {
	cases := map[string]struct {
		reason string
		script string
		want   string
	}{
		"Code0": {
			reason: "An operator ends with 0 on SIGTERM.",
			script: `trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done`,
		},
		"Code3": {
			reason: "Any other code is to be told.",
			script: `trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done`,
			want:   "it: stop: exit status 3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			k, dir := newKeeper(t, t.TempDir())
			c := &cluster{keeper: k, dir: dir}
			require.NoError(t, k.start("it", "/bin/sh", "-c", tc.script))
			require.NoError(t, c.await(t.Context(), "it is up", func(context.Context) bool { return c.tail("it") == "up" }))
			err := k.stop("it")
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.EqualError(t, err, tc.want, tc.reason)
			}
			require.NoError(t, k.close())
		})
	}
}

func TestKeeperReportsWhatDied(t *testing.T) {
	k, dir := newKeeper(t, t.TempDir())
	c := &cluster{keeper: k, dir: dir}
	require.NoError(t, k.start("it", "/bin/sh", "-c", "echo last words; exit 7"))
	err := c.await(t.Context(), "the world ends", func(context.Context) bool { return false })
	var died *processError
	require.ErrorAs(t, err, &died)
	require.Equal(t, "it: ended: exit status 7", err.Error())
	require.Equal(t, "last words", c.tail("it"))

	require.ErrorContains(t, k.start("none", filepath.Join(dir, "none")), "none: start: ")
	require.NoError(t, k.close())
}

func TestKilledKeeperIsNoticed(t *testing.T) {
	k, _ := newKeeper(t, t.TempDir())
	require.NoError(t, k.cmd.Process.Kill())
	require.Error(t, k.start("it", "/bin/true"))
	require.ErrorContains(t, k.close(), "keeper: signal: killed")
}

func TestNewRunDirRemovesWhatNobodyUses(t *testing.T) {
	base := t.TempDir()
	used, lock, err := newRunDir(base)
	require.NoError(t, err)
	unused, unusedLock, err := newRunDir(base)
	require.NoError(t, err)
	require.DirExists(t, used, "its lock is held")
	require.NoError(t, unusedLock.Close())

	third, thirdLock, err := newRunDir(base)
	require.NoError(t, err)
	require.DirExists(t, third)
	require.DirExists(t, used)
	require.NoDirExists(t, unused)
	require.NoError(t, errors.Join(lock.Close(), thirdLock.Close()))
}

func TestFindBinaries(t *testing.T) {
	executable := func(dir string, names ...string) string {
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
		}
		return dir
	}
	operator := filepath.Join(executable(t.TempDir(), "operator"), "operator")
	cases := map[string]struct {
		reason string
		assets string
		want   []string // parts of the error
	}{
		"Unset": {
			reason: "Whoever runs the program by hand is told of make.",
			want:   []string{"KUBEBUILDER_ASSETS isn't set", "make demo"},
		},
		"OnlyEnvtest": {
			reason: "A folder of setup-envtest has what tests need, not what the demo needs.",
			assets: executable(t.TempDir(), "etcd", "kube-apiserver", "kubectl"),
			want:   []string{"/kube-controller-manager", "/kube-scheduler", "/kwok", "unset KUBEBUILDER_ASSETS"},
		},
		"All": {
			reason: "kubectl isn't needed.",
			assets: executable(t.TempDir(), "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			paths, err := findBinaries(options{assets: tc.assets, operator: operator})
			if tc.want == nil {
				require.NoError(t, err, tc.reason)
				require.Len(t, paths, 6)
				return
			}
			for _, part := range tc.want {
				require.ErrorContains(t, err, part, tc.reason)
			}
			require.NotContains(t, err.Error(), "/etcd", tc.reason)
		})
	}
}

func TestWindowAddress(t *testing.T) {
	first, err := windowAddress()
	require.NoError(t, err)
	l, err := net.Listen("tcp", first)
	require.NoError(t, err, "it was free")
	second, err := windowAddress()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NotEqual(t, first, second)
	require.Regexp(t, `^127\.0\.0\.1:\d+$`, second)
}

// A browser is opened where there is a desktop with one.
func TestBrowse(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, display, wayland string
		opener                   string // a script; empty: there is none
		want                     bool
	}{
		"X":          {"a desktop", ":0", "", "echo \"$1\" >\"$SAID\"", true},
		"Wayland":    {"a desktop", "", "wayland-0", "echo \"$1\" >\"$SAID\"", true},
		"No desktop": {"a server", "", "", "echo \"$1\" >\"$SAID\"", false},
		"No opener":  {"a desktop that knows no xdg-open", ":0", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			said := filepath.Join(dir, "said")
			t.Setenv("DISPLAY", tc.display)
			t.Setenv("WAYLAND_DISPLAY", tc.wayland)
			t.Setenv("PATH", dir)
			t.Setenv("SAID", said)
			if tc.opener != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\n"+tc.opener+"\n"), 0o700))
			}
			require.Equal(t, tc.want, browse("http://127.0.0.1:8090"), tc.reason)
			if tc.want {
				require.Eventually(t, func() bool { text, _ := os.ReadFile(said); return string(text) == "http://127.0.0.1:8090\n" }, time.Minute, time.Millisecond)
			}
		})
	}
}

// The window is looked at until a signal, and no longer than the operator runs.
func TestLook(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, script string
		cause          error
		want           string
	}{
		"Interrupted": {"whoever looks has seen enough", "exec sleep 600", interruption{os.Interrupt}, ""},
		"Orphan":      {"make was killed", "exec sleep 600", errors.New("the process that started it has ended"), "the process that started it has ended"},
		"Died":        {"there is nothing to look at", "exit 7", nil, "it: ended: exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			k, dir := newKeeper(t, t.TempDir())
			c := &cluster{keeper: k, dir: dir, screen: newScreen(os.Stderr)}
			require.NoError(t, k.start("it", "/bin/sh", "-c", tc.script))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tc.cause != nil {
				cancel(tc.cause)
			}
			err := look(ctx, c)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.EqualError(t, err, tc.want, tc.reason)
			}
			require.NoError(t, k.close())
		})
	}
}

func TestPhase(t *testing.T) {
	cases := map[string]struct {
		reason string
		object map[string]any
		want   string
	}{
		"TerminatingPod": {
			reason: "What kubectl shows, too.",
			object: map[string]any{"kind": "Pod", "metadata": map[string]any{"deletionTimestamp": "2026-01-02T03:04:05Z"}, "status": map[string]any{"phase": "Running"}},
			want:   "Terminating",
		},
		"Service": {
			reason: "The port is what the story changes.",
			object: map[string]any{"kind": "Service", "spec": map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}},
			want:   "port 80",
		},
		"ServiceWithoutPorts": {
			reason: "A headless Service may have none.",
			object: map[string]any{"kind": "Service"},
			want:   "no port",
		},
		"NewEchoServer": {
			reason: "Before the operator has seen it.",
			object: map[string]any{"kind": "EchoServer"},
			want:   "no status yet",
		},
		"LongMessage": {
			reason: "A change is one line.",
			object: map[string]any{"kind": "EchoServer", "status": map[string]any{"message": strings.Repeat("é", 200)}},
			want:   strings.Repeat("é", 79) + "…",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, phase(&unstructured.Unstructured{Object: tc.object}), tc.reason)
		})
	}
}

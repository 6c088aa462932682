package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

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

	"github.com/roperator/roperator/internal/testing/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newOperator returns a cluster that consists of an operator alone, which is a script.
func newOperator(t *testing.T, script string) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir(), plane: &plane.Plane{}, screen: newScreen(os.Stderr)}
	var err error
	c.operator, err = plane.StartBinary(filepath.Join(c.dir, "echoserver.log"), "/bin/sh", "-c", script)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.close()) })
	return c
}

func TestStopOperator(t *testing.T) {
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
			want:   "operator: stop: exit status 3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newOperator(t, tc.script)
			require.NoError(t, c.await(t.Context(), "it is up", func(context.Context) bool { return strings.HasSuffix(c.operator.Said(), "  up") }))
			err := c.stopOperator()
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.EqualError(t, err, tc.want, tc.reason)
			}
		})
	}
}

// Which process has ended is known, and what it said last.
func TestDied(t *testing.T) {
	c := newOperator(t, "echo last words; exit 7")
	err := c.await(t.Context(), "the world ends", func(context.Context) bool { return false })
	require.EqualError(t, err, "sh: ended: exit status 7")
	file, openErr := os.Create(filepath.Join(t.TempDir(), "screen"))
	require.NoError(t, openErr)
	newScreen(file).logTail(c, err)
	require.NoError(t, file.Close())
	said, readErr := os.ReadFile(file.Name())
	require.NoError(t, readErr)
	require.Equal(t, "\nthe end of echoserver.log:\n  last words\n", string(said))
	_, err = c.leave()
	require.EqualError(t, err, "sh: ended: exit status 7", "what doesn't run isn't kept")
}

func TestCloseRemovesEverything(t *testing.T) {
	c := newOperator(t, "exec sleep 600")
	require.NoError(t, c.died())
	require.NoError(t, c.close())
	require.True(t, c.operator.Ended())
	require.NoDirExists(t, c.dir)
}

func TestCheckPrograms(t *testing.T) {
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
		"OnlyEnvtest": {
			reason: "A folder of setup-envtest has what tests need, not what the demo needs.",
			assets: executable(t.TempDir(), "etcd", "kube-apiserver", "kubectl"),
			want:   []string{"/kube-controller-manager isn't there", "/kube-scheduler isn't there", "/kwok isn't there; make controlplane gets it"},
		},
		"All": {
			reason: "kubectl isn't needed.",
			assets: executable(t.TempDir(), "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBEBUILDER_ASSETS", tc.assets)
			require.ErrorContains(t, checkPrograms(options{operator: operator + "-absent"}), "operator-absent")
			err := checkPrograms(options{operator: operator})
			if tc.want == nil {
				require.NoError(t, err, tc.reason)
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
		"Died":        {"there is nothing to look at", "exit 7", nil, "sh: ended: exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newOperator(t, tc.script)
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

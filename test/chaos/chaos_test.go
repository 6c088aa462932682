package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/internal/testing/plane"
)

func TestMain(m *testing.M) {
	if identity := os.Getenv(identityVariable); identity != "" {
		os.Exit(beReplica(identity))
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxics don't ask their proxy's logger
	klog.SetLogger(logr.Discard())           // of client-go, which tells of each broken answer
	os.Exit(m.Run())
}

// What make chaos sets.
const (
	minutesVariable = "CHAOS_MINUTES"
	seedVariable    = "CHAOS_SEED"
)

// TestChaos is make chaos.
func TestChaos(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv(minutesVariable), 64)
	if err != nil {
		t.Skipf("needs %s: make chaos sets it", minutesVariable)
	}
	seed, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	runChaos(t, settings{seed: seed, parents: 200, faults: time.Duration(minutes * float64(time.Minute)), pause: 80 * time.Millisecond, silence: 15 * time.Second})
}

// TestSmoke is the same, shorter.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	runChaos(t, settings{seed: 1, parents: 30, faults: 15 * time.Second, pause: 80 * time.Millisecond, silence: 5 * time.Second})
}

func runChaos(t *testing.T, s settings) {
	t.Helper()
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if _, err := plane.Binary(program); err != nil {
			if os.Getenv("CI") == "true" {
				require.NoError(t, err)
			}
			t.Skip(err)
		}
	}
	dir, err := os.MkdirTemp("", "roperator-chaos-") //nolint:usetesting // what is in it is kept if something is wrong
	require.NoError(t, err)
	s.dir = dir
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	w, err := start(ctx, s)
	defer w.stop()
	require.NoError(t, err)
	if err := w.run(ctx); err != nil {
		w.failed(err)
	}
	fmt.Println("chaos:", w.detail())
	violations := w.all()
	fmt.Printf("chaos: faults=%d kills=%d parents=%d violations=%d\n", w.faults(), w.counts.kills.Load(), s.parents, len(violations))
	if len(violations) == 0 {
		w.stop()
		require.NoError(t, os.RemoveAll(dir))
		return
	}
	require.Empty(t, report(ctx, w, violations), "kept: %s", dir)
}

// report writes down what was wrong beside the logs.
func report(ctx context.Context, w *world, violations []violation) string {
	var text strings.Builder
	for _, v := range violations {
		fmt.Fprintln(&text, v)
	}
	err := os.WriteFile(filepath.Join(w.dir, "violations.txt"), []byte(text.String()), 0o600)
	if s, failed := w.people.look(ctx); failed == nil {
		for _, o := range append(s.parents, s.children...) {
			if line, failed := o.MarshalJSON(); failed == nil {
				err = errors.Join(err, appendTo(filepath.Join(w.dir, "state.jsonl"), line))
			}
		}
	}
	if err != nil {
		fmt.Fprintln(&text, err)
	}
	return text.String()
}

func appendTo(path string, line []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

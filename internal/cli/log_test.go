package cli

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A clogged log takes a line only when it gets a token.
type clogged struct {
	tokens chan struct{}
	text   strings.Builder
}

func (c *clogged) Write(p []byte) (int, error) {
	<-c.tokens
	return c.text.Write(p)
}

func TestBufferLog(t *testing.T) {
	for name, tc := range map[string]struct{ reason, format, want string }{
		"Text": {"as all lines are", "text", ` level=ERROR msg="lines of the log were dropped: they couldn't be written, or nobody read them" lines=`},
		"JSON": {"as all lines are", "json", `"level":"ERROR","msg":"lines of the log were dropped: they couldn't be written, or nobody read them","lines":`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &clogged{tokens: make(chan struct{})}
				defer log.SetOutput(log.Writer())
				log.SetOutput(out)
				c := &command{flags: &flags{logFormat: tc.format}, stderr: out}
				written := c.bufferLog()
				begin := time.Now()
				for c.lost() == 0 {
					c.log.Info("long", "text", strings.Repeat("x", 10_000))
				}
				require.Less(t, time.Since(begin), time.Second, "nobody waits for who reads it")
				require.NotSame(t, out, log.Writer(), "what the program itself logs doesn't block either")
				written()
				require.Same(t, out, log.Writer(), "as it was before")
				require.Less(t, time.Since(begin), 5*time.Second, "nor does the end of the process")
				close(out.tokens)
				synctest.Wait()
				require.Contains(t, out.text.String(), tc.want, tc.reason)
				require.Equal(t, 1, strings.Count(out.text.String(), "were dropped"))
			})
		})
	}
}

// The last words of a process are in its log, and so is what the program logs by itself.
func TestRunLogs(t *testing.T) {
	var stderr strings.Builder
	before := log.Writer()
	defer log.SetOutput(before)
	log.SetOutput(&stderr)
	p := sampleProgram()
	p.Run = func(_ context.Context, _ []Operator, opts Options) error {
		log.Print("of package log")
		slog.Info("of package slog")
		opts.Logger.Info("of the engine")
		require.Zero(t, opts.LogLinesDropped())
		return errors.New("the last words")
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
		contexts: [{name: c, context: {cluster: c}}], current-context: c}`), 0o600))
	require.Equal(t, exitError, p.Do(t.Context(), []string{"run", "--kubeconfig=" + kubeconfig}, &strings.Builder{}, &stderr))
	require.Same(t, &stderr, log.Writer(), "as it was before")
	for _, want := range []string{"of package log", "of package slog", `msg="of the engine"`, "the last words"} {
		require.Contains(t, stderr.String(), want)
	}
}

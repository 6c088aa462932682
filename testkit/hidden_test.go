package testkit

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// TestByNumber: equal values have equal numbers, and no number tells of its value.
func TestByNumber(t *testing.T) {
	t.Parallel()
	hide := byNumber()
	require.Equal(t, "hidden:1", hide("hidden:2"))
	require.Equal(t, "hidden:2", hide("s3cret"))
	require.Equal(t, "hidden:1", hide("hidden:2"))
}

// TestReplay_RecordingOfAnEarlierBuild: those have a salt, and hashes.
func TestReplay_RecordingOfAnEarlierBuild(t *testing.T) {
	t.Parallel()
	text := recordingOf(t, handler.SyncFunc(copying), siteRequest(t, "hello"))
	text = strings.Replace(text, `{"format":"roperator-recording/v1"}`, `{"format":"roperator-recording/v1","salt":"S"}`, 1)
	require.Contains(t, text, "salt")
	Replay(t, strings.NewReader(strings.ReplaceAll(text, "hidden:", "sha256:")), handler.SyncFunc(copying))
}

// TestGoldenTellsNoSecret: a golden file is committed, so it must not tell a value, nor
// let one be found out by trying.
func TestGoldenTellsNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.yaml")
	plan := func(tb testing.TB, values ...string) {
		Sync(tb, sites(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp := &handler.SyncResponse{}
			for i, value := range values {
				child := secret(value)
				child.Name = fmt.Sprint("key", i)
				resp.Children = append(resp.Children, child)
			}
			return resp, nil
		}), site(map[string]any{"text": "x"})).Golden(path)
	}
	t.Setenv(goldenVariable, "1")
	plan(t, "sha256:1234", "1234", "1234")
	t.Setenv(goldenVariable, "")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, value := range []string{"1234", "sha256:1234"} {
		require.NotContains(t, string(text), base64.StdEncoding.EncodeToString([]byte(value)))
	}
	plan(t, "sha256:1234", "1234", "1234")
	plan(t, "other", "another", "another")
	f := fake(t, func(tb testing.TB) { plan(tb, "one", "two", "three") })
	require.Contains(t, f.failure(), "the plan isn't as", "equal values are equal")
}

// TestIsSecret: only what is known to hold no value is shown of a Secret.
func TestIsSecret(t *testing.T) {
	t.Parallel()
	for path, private := range map[string]bool{
		"type": false, "immutable": false, "metadata.labels": false, "metadata.labels.a": false, `metadata.labels["a/b"]`: false, "metadata.finalizers": false,
		"data.k": true, "stringData.k": true, "typed": true, "kindred": true, "immutably.k": true, "metadata.labelsOfOthers": true, "metadata.annotations.a": true, "": true,
	} {
		require.Equal(t, private, isSecret(k8s.Secret, path), path)
	}
}

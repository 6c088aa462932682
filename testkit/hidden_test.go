package testkit

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// secretAs returns a Secret with a value in each place where one may be.
func secretAs(value string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": map[string]any{"name": "key", "annotations": map[string]any{
			"roperator.com/applied": "v2:op:1:" + value + ":data{k}", lastApplied: value, "example.com/note": "told",
		}},
		"data":       map[string]any{"encoded": base64.StdEncoding.EncodeToString([]byte(value)), "plain": value, "number": 4711},
		"stringData": map[string]any{"k": value, "list": []any{value}},
		"stringdata": map[string]any{"a typing error": map[string]any{"k": value}},
		"odd":        value,
	}
}

// TestHidden: every value of a Secret is hidden, whatever it looks like.
func TestHidden(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"s3cret", "sha256:s3cret", "sha256:0123456789abcdef0123456789abcdef", "hidden:s3cret", "hidden:1", "hidden", "(hidden)", "(not shown)", "", "czNjcmV0",
	} {
		for name, hide := range map[string]hider{"key": byKey("k"), "number": byNumber(), "nothing": byNothing} {
			t.Run(name+"/"+value, func(t *testing.T) {
				object := secretAs(value)
				before, err := json.Marshal(object)
				require.NoError(t, err)
				out := hidden(object, hide)
				if strings.Contains(value, "s3cret") || strings.Contains(value, "0123") {
					text := fmt.Sprint(out)
					require.NotContains(t, text, value)
					require.NotContains(t, text, base64.StdEncoding.EncodeToString([]byte(value)))
				}
				data, ok := out["data"].(map[string]any)
				require.True(t, ok)
				raw, err := base64.StdEncoding.DecodeString(data["encoded"].(string)) //nolint:forcetypeassert // it is a text
				require.NoError(t, err, "a handler can read it")
				require.Equal(t, hide(value), string(raw), "it is hidden, not kept for what it looks like")
				require.NotEqual(t, 4711, data["number"])
				after, err := json.Marshal(object)
				require.NoError(t, err)
				require.JSONEq(t, string(before), string(after), "the object itself stays")
				require.Equal(t, "told", out["metadata"].(map[string]any)["annotations"].(map[string]any)["example.com/note"]) //nolint:forcetypeassert // it is an object
			})
		}
	}
	odd := hidden(map[string]any{"apiVersion": "v1", "kind": "Secret", "data": "s3cret"}, byKey("k"))
	require.NotContains(t, fmt.Sprint(odd), "s3cret", "even what can't be a Secret")
	page := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "v"}, "metadata": map[string]any{"annotations": map[string]any{"roperator.com/applied": "mark"}}}
	require.Equal(t, page, hidden(page, byKey("k")), "only Secrets are secret")
}

// TestRecordingIsNoOracle: equal values are equal in one recording, and nothing in it
// tells, by trying, what they are.
func TestRecordingIsNoOracle(t *testing.T) {
	t.Parallel()
	record := func() string {
		var out bytes.Buffer
		_, err := Record(&out, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{secret("1234"), secret("1234"), secret("sha256:1234")}}, nil
		})).Sync(t.Context(), siteRequest(t, "x"))
		require.NoError(t, err)
		return out.String()
	}
	values := func(recording string) (out []string) {
		var call recordedCall
		require.NoError(t, json.Unmarshal([]byte(strings.Split(recording, "\n")[1]), &call))
		for _, child := range call.Response.Children {
			out = append(out, child["data"].(map[string]any)["password"].(string)) //nolint:forcetypeassert // it is a text
		}
		return out
	}
	first, second := record(), record()
	require.NotContains(t, first, "salt", "with what the values were hidden by, one could try")
	require.NotContains(t, first, base64.StdEncoding.EncodeToString([]byte("sha256:1234")))
	a, b := values(first), values(second)
	require.Equal(t, a[0], a[1])
	require.NotEqual(t, a[0], a[2])
	require.NotEqual(t, a[0], b[0], "two recordings can't be compared")
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

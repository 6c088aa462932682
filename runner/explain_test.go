package runner

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

func TestProgram_Explain(t *testing.T) {
	p := newProgram()
	p.createParents(t)
	rc := rest.CopyConfig(p.server.RESTConfig())
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return readsOnly{t, next} })
	p.Options.RESTConfig = rc
	var stdout, stderr bytes.Buffer
	require.Zero(t, p.Execute(t.Context(), []string{"explain", "ns/one", "-o", "json", "--operator=op", "--process-url=none", "--suffix=-x"}, &stdout, &stderr), stderr.String())
	var e explain.Explanation
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &e))
	require.Equal(t, explain.Pending, e.Parent.State)
	require.Equal(t, "op", e.Operator)
	require.Len(t, e.Children, 1)
	require.Equal(t, explain.Child{
		Object: explain.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "one-x"}, State: explain.Missing, Verb: "create",
	}, e.Children[0])
	require.Equal(t, explain.Process{Unknown: "--process-url is none"}, e.Process)
	require.Nil(t, p.server.Get(k8s.ConfigMap, rig.Key("one-x")), "nothing was written")
}

func TestProgram_ExplainMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		"NoName":         {"there must be one", nil, 2, "explain: which parent? write NAMESPACE/NAME, or NAME of a cluster-scoped one\n"},
		"TwoNames":       {"one at a time", []string{"ns/one", "ns/two"}, 2, `op: unknown argument "ns/two"`},
		"Slashes":        {"a path is no name", []string{"parents/ns/one"}, 2, `explain: "parents/ns/one" is neither NAMESPACE/NAME nor NAME`},
		"NoNamespace":    {"a parent of this type is in one", []string{"one", "--operator=op"}, 1, "explain: Parent one: lacks a namespace; write NAMESPACE/one; did you mean ns/one?\n"},
		"OtherNamespace": {"the two say different things", []string{"ns/one", "--namespace=other"}, 2, `explain: "ns/one" isn't in the namespace of --namespace, "other"`},
		"Dots":           {"it would be another path", []string{"ns/..", "--operator=op"}, 2, `explain: ".." can't be a name: may not be '..'`},
		"WhichOperator":  {"there are two", []string{"ns/one"}, 1, "explain: the program has several operators; choose one with --operator: op, other\n"},
		"Operator":       {"a typo", []string{"ns/one", "--operator=othr"}, 1, `explain: --operator: there is none of the name "othr"; did you mean other?` + "\n"},
		"NotFound":       {"a typo", []string{"ns/onne", "--operator=op"}, 1, "explain: Parent ns/onne: not found; did you mean ns/one?\n"},
		"NotThere":       {"the name is another namespace's", []string{"nn/one", "--operator=op"}, 1, "explain: Parent nn/one: not found; did you mean ns/one?\n"},
		"Unlike":         {"nothing is like it", []string{"elsewhere/unlike-any", "--operator=op"}, 1, "explain: Parent elsewhere/unlike-any: not found\n"},
		"Output":         {"known formats only", []string{"ns/one", "-o=yaml"}, 2, "neither text nor json"},
		"URL":            {"it has no scheme", []string{"ns/one", "--process-url=localhost"}, 2, `explain: --process-url: "localhost" is no URL like http://localhost:8080`},
		"Token":          {"who listens could use it", []string{"ns/one", "--process-url=http://example.com", "--process-token-file=t"}, 2, "explain: --process-token-file: a token isn't sent to example.com without TLS"},
		"TokenForNobody": {"nobody would get it", []string{"ns/one", "--process-token-file=t"}, 2, "explain: --process-token-file and --process-insecure are for a --process-url\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram()
			p.createParents(t)
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.code, p.Execute(t.Context(), append([]string{"explain"}, tc.args...), &stdout, &stderr), tc.reason)
			require.Contains(t, stderr.String(), tc.want, tc.reason)
			require.Empty(t, stdout.String())
		})
	}
}

// readsOnly fails a test in which anything is written.
type readsOnly struct {
	t    *testing.T
	next http.RoundTripper
}

func (r readsOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		r.t.Errorf("%s %s: an explanation reads alone", req.Method, req.URL)
	}
	return r.next.RoundTrip(req)
}

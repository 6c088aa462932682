package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource/k8s"
)

// TestRestrict: what an earlier desired object said is found in a later one that only
// adds to it. A later one that says something else gives another object.
func TestRestrict(t *testing.T) {
	const former = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"a":"b"}},"spec":{"hostname":"h","nodeSelector":{},
		"containers":[{"name":"main","image":"i","args":["x"],"ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}],"tolerations":[{"key":"k"}]}}`
	for name, tc := range map[string]struct {
		reason, later string
		same          bool
	}{
		"same": {"nothing was added", former, true},
		"added": {
			"fields, labels, items of keyed lists, nulls", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"a":"b","c":"d"},"annotations":{"e":"f"}},
			"spec":{"hostname":"h","restartPolicy":"Always","nodeSelector":{"n":"m"},"subdomain":null,"containers":[{"name":"main","image":"i","args":["x"],"tty":true,
			"ports":[{"containerPort":80},{"containerPort":81,"protocol":"TCP"}],"env":[{"name":"A","value":"1"},{"name":"B"}]},{"name":"more"}],"tolerations":[{"key":"k"}]}}`, true,
		},
		"value": {"another value", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"a":"b"}},"spec":{"hostname":"other","nodeSelector":{},
		"containers":[{"name":"main","image":"i","args":["x"],"ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}],"tolerations":[{"key":"k"}]}}`, false},
		"dropped": {"a field is gone", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"a":"b"}},"spec":{"nodeSelector":{},
		"containers":[{"name":"main","image":"i","args":["x"],"ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}],"tolerations":[{"key":"k"}]}}`, false},
		"list": {"a list that is compared whole is longer", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"a":"b"}},"spec":{"hostname":"h","nodeSelector":{},
		"containers":[{"name":"main","image":"i","args":["x","y"],"ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}],"tolerations":[{"key":"k"}]}}`, false},
		"item": {"so is one of objects", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"a":"b"}},"spec":{"hostname":"h","nodeSelector":{},
		"containers":[{"name":"main","image":"i","args":["x"],"ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}],"tolerations":[{"key":"k"},{"key":"l"}]}}`, false},
		"key": {"whether a key was left to its default isn't recorded", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"a":"b"}},"spec":{"hostname":"h","nodeSelector":{},
		"containers":[{"name":"main","image":"i","args":["x"],"ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"A","value":"1"}]}],"tolerations":[{"key":"k"}]}}`, false},
		"name": {"another object", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"two","labels":{"a":"b"}},"spec":{"hostname":"h","nodeSelector":{},
		"containers":[{"name":"main","image":"i","args":["x"],"ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}],"tolerations":[{"key":"k"}]}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := Comparison{Schema: listkeys.For(k8s.Pod)}
			earlier, later := parse(t, former), parse(t, tc.later)
			set, err := ParseFieldSet(c.Record(c.Canonical(earlier)).Encode(16 << 10))
			require.NoError(t, err)
			if got := c.Restrict(later, set); tc.same {
				require.Equal(t, earlier, got, tc.reason)
			} else {
				require.NotEqual(t, earlier, got, tc.reason)
			}
		})
	}
}

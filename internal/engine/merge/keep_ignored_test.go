package merge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/fieldpath"
)

func TestKeepIgnored(t *testing.T) {
	for name, tc := range map[string]struct {
		reason              string
		ignore              string
		live, desired, want string
	}{
		"value": {
			reason: "somebody scales: an apply that left the field out would give it up", ignore: "spec.replicas",
			live: `{"spec":{"replicas":5,"x":1}}`, desired: `{"spec":{"replicas":2,"x":2}}`, want: `{"spec":{"replicas":5,"x":2}}`,
		},
		"absent": {
			reason: "somebody has removed it: it isn't put back", ignore: "spec.replicas",
			live: `{"spec":{}}`, desired: `{"spec":{"replicas":2}}`, want: `{"spec":{}}`,
		},
		"item by key": {
			reason: "items are found by their keys, wherever they stand", ignore: "spec.containers[*].image",
			live:    `{"spec":{"containers":[{"name":"side"},{"name":"app","image":"b"}]}}`,
			desired: `{"spec":{"containers":[{"name":"app","image":"a"}]}}`,
			want:    `{"spec":{"containers":[{"name":"app","image":"b"}]}}`,
		},
		"new item": {
			reason: "what is added as a whole is set as desired", ignore: "spec.containers[*].image",
			live:    `{"spec":{"containers":[{"name":"side"}]}}`,
			desired: `{"spec":{"containers":[{"name":"app","image":"a"}]}}`,
			want:    `{"spec":{"containers":[{"name":"app","image":"a"}]}}`,
		},
		"new object": {
			reason: "an object that isn't there yet is added as a whole", ignore: "spec.a.b",
			live: `{"spec":{}}`, desired: `{"spec":{"a":{"b":1}}}`, want: `{"spec":{"a":{"b":1}}}`,
		},
		"item by place": {
			reason: "a list without keys goes by its places", ignore: "spec.args[0]",
			live: `{"spec":{"args":["theirs","b"]}}`, desired: `{"spec":{"args":["a","c"]}}`, want: `{"spec":{"args":["theirs","c"]}}`,
		},
		"no object": {
			reason: "there is nothing to ignore below a string", ignore: "spec.a.b",
			live: `{"spec":{"a":{"b":1}}}`, desired: `{"spec":{"a":"x"}}`, want: `{"spec":{"a":"x"}}`,
		},
		"nothing": {
			reason: "nothing is ignored, all is asked for",
			live:   `{"spec":{"a":1}}`, desired: `{"spec":{"a":2}}`, want: `{"spec":{"a":2}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := Comparison{}
			if tc.ignore != "" {
				path, err := fieldpath.Parse(tc.ignore)
				require.NoError(t, err)
				c.Ignore = []fieldpath.Path{path}
			}
			parse := func(text string) (m map[string]any) {
				require.NoError(t, json.Unmarshal([]byte(text), &m))
				return m
			}
			desired := parse(tc.desired)
			require.Equal(t, parse(tc.want), c.KeepIgnored(parse(tc.live), desired), tc.reason)
			require.Equal(t, parse(tc.desired), desired, "inputs aren't modified")
		})
	}
}

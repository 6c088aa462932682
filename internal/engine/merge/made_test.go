package merge

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

func TestMade(t *testing.T) {
	const service = `"port":8080,"protocol":"TCP"`
	for name, tc := range map[string]struct {
		reason                string
		kind                  string
		live, desired, former string // spec
		ours, others          string // fieldsV1 of spec; empty: none
		ignore                string
		want                  []string // shapes
		without               string   // spec
	}{
		"moved item": {
			reason: "the item is the operator's under its old key", kind: "Service",
			live: `{"ports":[{"port":80,"protocol":"TCP","targetPort":80}],"type":"ClusterIP"}`, desired: `{"ports":[{"port":8080}]}`, former: `{"ports":[{"port":80}]}`,
			ours:    `{"f:type":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}}}`,
			want:    []string{".spec.ports[].targetPort", ".spec.type"},
			without: `{"ports":[{` + service + `}]}`,
		},
		"others": {
			reason: "what somebody else has set, or shares, isn't made by the API server", kind: "Service",
			live: `{"ports":[{"port":80,"protocol":"TCP","targetPort":80}],"type":"ClusterIP"}`, desired: `{"ports":[{"port":8080}]}`, former: `{"ports":[{"port":80}]}`,
			ours:    `{"f:type":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}}}`,
			others:  `{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:targetPort":{}}}}`,
			want:    []string{".spec.type"},
			without: `{"ports":[{` + service + `,"targetPort":80}]}`,
		},
		"something within is another's": {
			reason: "a field stays whole if somebody has set a part of it", kind: "Deployment",
			live: `{"paused":true,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}`, desired: `{"paused":false}`, former: `{"paused":true}`,
			ours: `{"f:strategy":{"f:type":{}}}`, others: `{"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{}}}}`,
			without: `{"paused":false,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}`,
		},
		"ignored": {
			reason: "an ignored field is left alone, and what is around it", kind: "Service", ignore: "spec.ports[*].targetPort",
			live: `{"ports":[{"port":80,"protocol":"TCP","targetPort":80}]}`, desired: `{"ports":[{"port":8080}]}`, former: `{"ports":[{"port":80}]}`,
			ours:    `{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:targetPort":{}}}}`,
			without: `{"ports":[{` + service + `,"targetPort":80}]}`,
		},
		"beside what is ignored": {
			reason: "an ignored field keeps nothing beside it from being made anew", kind: "Deployment", ignore: "spec.replicas",
			live: `{"replicas":3,"paused":true,"strategy":{"type":"Recreate"}}`, desired: `{"replicas":1,"paused":false}`, former: `{"replicas":1,"paused":true}`,
			ours:    `{"f:replicas":{},"f:paused":{},"f:strategy":{"f:type":{}}}`,
			want:    []string{".spec.strategy"},
			without: `{"replicas":3,"paused":false}`,
		},
		"beside what is ignored in an item": {
			reason: "an ignored item is left alone; the others aren't", kind: "Service", ignore: `spec.ports[name=a]`,
			live:    `{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":80},{"name":"b","port":81,"protocol":"TCP","targetPort":81}]}`,
			desired: `{"ports":[{"name":"a","port":80},{"name":"b","port":82}]}`, former: `{"ports":[{"name":"a","port":80},{"name":"b","port":81}]}`,
			ours:    `{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:targetPort":{}},"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:targetPort":{}}}}`,
			want:    []string{".spec.ports[].targetPort"},
			without: `{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":80},{"name":"b","port":82,"protocol":"TCP"}]}`,
		},
		"around what is ignored": {
			reason: "what holds an ignored field stays", kind: "Deployment", ignore: "spec.strategy.rollingUpdate",
			live: `{"paused":true,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}`, desired: `{"paused":false}`, former: `{"paused":true}`,
			ours:    `{"f:strategy":{"f:type":{}}}`,
			without: `{"paused":false,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":2}}}`,
		},
		"map of texts": {
			reason: "nobody makes keys among labels", kind: "Deployment",
			live: `{"template":{"metadata":{"labels":{"a":"1","b":"2"}}}}`, desired: `{"template":{"metadata":{"labels":{"a":"3"}}}}`, former: `{"template":{"metadata":{"labels":{"a":"1"}}}}`,
			ours:    `{"f:template":{"f:metadata":{"f:labels":{"f:a":{},"f:b":{}}}}}`,
			without: `{"template":{"metadata":{"labels":{"a":"3","b":"2"}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := resource.Type{APIVersion: "v1", Kind: tc.kind}
			if tc.kind == "Deployment" {
				of.APIVersion = "apps/v1"
			}
			c := Comparison{Schema: listkeys.For(of)}
			if tc.ignore != "" {
				path, err := fieldpath.Parse(tc.ignore)
				require.NoError(t, err)
				c.Ignore = []fieldpath.Path{path}
			}
			whole := func(spec string) map[string]any {
				return parse(t, `{"metadata":{"name":"x","labels":{"a":"b"}},"status":{"x":1},"spec":`+spec+`}`)
			}
			live, desired := whole(tc.live), parse(t, `{"spec":`+tc.desired+`}`)
			merged := c.Merge(live, desired, newFieldSet(parse(t, `{"spec":`+tc.former+`}`), c.Schema))
			entries := []metav1.ManagedFieldsEntry{
				{Manager: "op", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:spec":` + tc.ours + `}`)},
			}
			if tc.others != "" {
				entries = append(entries, metav1.ManagedFieldsEntry{
					Manager: "op", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "scale", FieldsV1: metav1.NewFieldsV1(`{"f:spec":` + tc.others + `}`),
				})
			}

			fields, err := OwnedAlone(c.Made(live, merged, desired), entries, "op")

			require.NoError(t, err)
			var shapes []string
			for _, f := range fields {
				shapes = append(shapes, f.Shape())
			}
			require.Equal(t, tc.want, shapes, tc.reason)
			without := WithoutMade(merged, fields)
			require.Equal(t, whole(tc.without), without, tc.reason)
			require.Equal(t, merged, TakeMade(without, merged, fields), "the other object's values are taken")
			same, changed, lost := SortMade(merged, merged, fields)
			require.Len(t, same, len(fields))
			require.Empty(t, changed)
			require.Empty(t, lost)
			_, _, lost = SortMade(merged, without, fields)
			require.Len(t, lost, len(fields))
		})
	}
}

func TestMadeFieldConcerns(t *testing.T) {
	c := Comparison{Schema: listkeys.For(resource.Type{APIVersion: "v1", Kind: "Service"})}
	live := parse(t, `{"spec":{"ports":[{"port":80,"targetPort":80}]}}`)
	fields := c.Made(live, live, parse(t, `{"spec":{"ports":[{"port":80}]}}`))
	require.Len(t, fields, 1)
	for path, want := range map[string]bool{
		"spec": true, "spec.ports": true, "spec.ports[0].targetPort": true, "spec.ports[0].targetPort.x": true,
		"spec.port": false, "spec.ports[0].target": false, "status": false, "": false,
	} {
		require.Equal(t, want, fields[0].Concerns(path), path)
	}
}

// parse decodes an object as an observed one is decoded.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	require.NoError(t, kjson.Unmarshal([]byte(text), &object))
	return object
}

// TestMade_NotThere: what others write into the metadata isn't taken for what the API
// server made of the desired object.
func TestMade_NotThere(t *testing.T) {
	decoded := func(text string) map[string]any {
		var object map[string]any
		require.NoError(t, kjson.Unmarshal([]byte(text), &object))
		return object
	}
	for name, tc := range map[string]struct {
		reason, live, desired string
		want                  []string
	}{
		"Field":    {"the API server makes it", `{"spec":{"type":"ClusterIP","sessionAffinity":"None"}}`, `{"spec":{"type":"ClusterIP"}}`, []string{".spec.sessionAffinity"}},
		"Metadata": {"others write there, and the API server counts there", `{"metadata":{"name":"c","generation":2,"annotations":{"a":"b"}}}`, `{"metadata":{"name":"c"}}`, nil},
		"Item":     {"it is known by its key", `{"spec":{"ports":[{"port":1,"protocol":"TCP","targetPort":9}]}}`, `{"spec":{"ports":[{"port":1,"protocol":"TCP"}]}}`, []string{".spec.ports[].targetPort"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Comparison{Schema: listkeys.For(resource.Type{APIVersion: "v1", Kind: "Service"})}
			live, desired := decoded(tc.live), decoded(tc.desired)
			var shapes []string
			for _, f := range c.Made(live, live, desired) {
				shapes = append(shapes, f.Shape())
			}
			require.Equal(t, tc.want, shapes, tc.reason)
		})
	}
}

package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestComparisonAtomic(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"Narrowed": {
			reason:  "A selector that selects everything isn't narrowed by others.",
			of:      k8s.NetworkPolicy,
			live:    `spec: {podSelector: {matchLabels: {a: b}, matchExpressions: []}, policyTypes: [Ingress]}`,
			desired: `spec: {podSelector: {}}`,
			want:    []string{`spec.podSelector.matchExpressions: [] -> none`, `spec.podSelector.matchLabels: {"a":"b"} -> none`},
			merged:  `spec: {podSelector: {}, policyTypes: [Ingress]}`,
		},
		"Map": {
			reason:  "Nor has an atomic map keys of others.",
			of:      k8s.Service,
			live:    `spec: {selector: {a: b, c: d}, type: ClusterIP}`,
			desired: `spec: {selector: {a: b}}`,
			want:    []string{`spec.selector.c: "d" -> none`},
			merged:  `spec: {selector: {a: b}, type: ClusterIP}`,
		},
		"ItemOfKeyedList": {
			reason:  "Nor an atomic item of a list whose other items may be of others.",
			of:      k8s.ServiceAccount,
			live:    `secrets: [{name: a, namespace: x}, {name: b, namespace: x}]`,
			desired: `secrets: [{name: a}]`,
			want:    []string{`secrets[name="a"].namespace: "x" -> none`},
			merged:  `secrets: [{name: a}, {name: b, namespace: x}]`,
		},
		"ListsInItems": {
			reason:  "Nor anything within an item of an atomic list.",
			of:      k8s.StatefulSet,
			live:    `spec: {volumeClaimTemplates: [{metadata: {name: a, labels: {b: c}}, spec: {selector: {matchLabels: {a: b}}}}]}`,
			desired: `spec: {volumeClaimTemplates: [{metadata: {name: a}, spec: {}}]}`,
			want: []string{
				`spec.volumeClaimTemplates[0].metadata.labels: {"b":"c"} -> none`,
				`spec.volumeClaimTemplates[0].spec.selector: {"matchLabels":{"a":"b"}} -> none`,
			},
			merged: `spec: {volumeClaimTemplates: [{metadata: {name: a}, spec: {}}]}`,
		},
		"NotDesired": {
			reason:  "What isn't desired at all is somebody else's.",
			of:      k8s.Service,
			live:    `spec: {selector: {a: b}}`,
			earlier: `spec: {type: ClusterIP}`,
			desired: `spec: {}`,
		},
		"Dropped": {
			reason:  "What was desired goes whole.",
			of:      k8s.Service,
			live:    `spec: {selector: {a: b, c: d}, type: ClusterIP}`,
			earlier: `spec: {selector: {}}`,
			desired: `spec: {}`,
			want:    []string{`spec.selector: {"a":"b","c":"d"} removed`},
			merged:  `spec: {type: ClusterIP}`,
		},
		"Ignored": {
			reason:  "What is ignored stays.",
			of:      k8s.Service,
			live:    `spec: {selector: {a: b, c: d}}`,
			desired: `spec: {selector: {a: b}}`,
			ignore:  []string{"spec.selector.c"},
		},
	})
	c := Comparison{Schema: schemaOf(t, k8s.NetworkPolicy), Partial: true}
	require.Nil(t, c.Compare(sample.YAML(t, `spec: {podSelector: {matchLabels: {a: b}}}`), sample.YAML(t, `spec: {podSelector: {}}`), nil), "but for a partial comparison")
}

func TestCovers(t *testing.T) {
	live, err := resource.New(sample.YAML(t, `{apiVersion: v1, kind: Service, metadata: {name: a, uid: u, resourceVersion: "1"}, spec: {selector: {a: b}, type: ClusterIP}}`))
	require.NoError(t, err)
	c := Comparison{Schema: schemaOf(t, k8s.Service)}
	require.True(t, c.Covers(live, sample.YAML(t, `spec: {selector: {a: b}}`)))
	require.False(t, c.Covers(live, sample.YAML(t, `spec: {selector: {}}`)), "an atomic map has no other keys")
	require.False(t, c.Covers(live, nil), "it isn't known what is desired")
	c.Partial = true
	require.True(t, c.Covers(live, sample.YAML(t, `spec: {selector: {}}`)))
	c = Comparison{}
	require.True(t, c.Covers(live, sample.YAML(t, `spec: {selector: {}}`)), "nothing is known to be atomic")
}

func TestComparisonHollow(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"OthersFilled": {
			reason:  "What others put into a struct that we said was empty stays when we say it no more.",
			of:      k8s.Deployment,
			live:    `spec: {template: {spec: {securityContext: {runAsUser: 7}, affinity: {nodeAffinity: {x: 1}}, containers: [{name: a, resources: {limits: {cpu: 1}}}]}}}`,
			earlier: `spec: {template: {spec: {securityContext: {}, affinity: {nodeAffinity: {}}, containers: [{name: a, resources: {}}]}}}`,
			desired: `spec: {template: {spec: {containers: [{name: a}]}}}`,
		},
		"StillEmpty": {
			reason:  "What is still empty goes.",
			of:      k8s.Deployment,
			live:    `spec: {template: {spec: {securityContext: {}, affinity: {nodeAffinity: {}}}}}`,
			earlier: `spec: {template: {spec: {securityContext: {}, affinity: {nodeAffinity: {}}}}}`,
			desired: `spec: {template: {spec: {}}}`,
			want:    []string{`spec.template.spec.affinity: {"nodeAffinity":{}} removed`, `spec.template.spec.securityContext: {} removed`},
			merged:  `spec: {template: {spec: {}}}`,
		},
		"Union": {
			reason:  "An alternative that was empty makes room for another one.",
			of:      k8s.Pod,
			live:    `spec: {volumes: [{name: a, downwardAPI: {defaultMode: 420}}]}`,
			earlier: `spec: {volumes: [{name: a, downwardAPI: {}}]}`,
			desired: `spec: {volumes: [{name: a, configMap: {name: b}}]}`,
			want:    []string{`spec.volumes[name="a"].configMap: none -> {"name":"b"}`},
			merged:  `spec: {volumes: [{name: a, configMap: {name: b}}]}`,
		},
	})
}

func TestComparisonLostNames(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"AllGone": {
			reason:  "An item that loses its name loses what was dropped with it, and no more.",
			live:    `ports: [{name: http, containerPort: 80, hostPort: 80, protocol: TCP}]`,
			earlier: `ports: [{name: http, containerPort: 80, hostPort: 80}]`,
			desired: `ports: [{containerPort: 80}]`,
			want:    []string{`ports[0].hostPort: 80 removed`, `ports[0].name: "http" removed`},
			merged:  `ports: [{containerPort: 80}]`,
		},
		"OneOfTwo": {
			reason:  "Also where others keep theirs.",
			live:    `ports: [{name: a, v: 1, w: 1}, {name: b, v: 2}]`,
			earlier: `ports: [{name: a, v: 1, w: 1}, {name: b, v: 2}]`,
			desired: `ports: [{v: 1}, {name: b, v: 2}]`,
			want:    []string{`ports[0].name: "a" removed`, `ports[0].w: 1 removed`},
			merged:  `ports: [{v: 1}, {name: b, v: 2}]`,
		},
		"SameNames": {
			reason:  "Or where names aren't unique any more.",
			live:    `ports: [{name: a, v: 1}, {name: b, v: 2}]`,
			earlier: `ports: [{name: a, v: 1}, {name: b, v: 2}]`,
			desired: `ports: [{name: a}, {name: a, v: 2}]`,
			want:    []string{`ports[0].v: 1 removed`, `ports[1].name: "b" -> "a"`},
			merged:  `ports: [{name: a}, {name: a, v: 2}]`,
		},
	})
}

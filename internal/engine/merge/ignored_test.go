package merge

import (
	"testing"

	"github.com/roperator/roperator/resource/k8s"
)

func TestComparisonIgnoreFields(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"Field": {
			reason:  "An ignored field is neither compared nor changed, whether it is there or not.",
			live:    `spec: {a: 1, c: 1}`,
			desired: `spec: {a: 2, b: 2, c: 2}`,
			ignore:  []string{"spec.a", "spec.b"},
			want:    []string{`spec.c: 1 -> 2`},
			merged:  `spec: {a: 1, c: 2}`,
		},
		"WithinLists": {
			reason:  "Also inside lists, of any item or of one with given keys.",
			of:      k8s.Deployment,
			live:    `spec: {template: {spec: {containers: [{name: a, image: a:1, resources: {limits: {cpu: 1}}}, {name: b, image: b:1}]}}}`,
			desired: `spec: {template: {spec: {containers: [{name: a, image: a:2, resources: {limits: {cpu: 2}}}, {name: b, image: b:2, resources: {}}]}}}`,
			ignore:  []string{"spec.template.spec.containers[*].resources", `spec.template.spec.containers[name="b"].image`},
			want:    []string{`spec.template.spec.containers[name="a"].image: "a:1" -> "a:2"`},
			merged:  `spec: {template: {spec: {containers: [{name: a, image: a:2, resources: {limits: {cpu: 1}}}, {name: b, image: b:1}]}}}`,
		},
		"KeyByDefault": {
			reason:  "An item may lack a key that has a default.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 53, protocol: TCP, nodePort: 1}]}`,
			desired: `spec: {ports: [{port: 53, nodePort: 2}]}`,
			ignore:  []string{"spec.ports[port=53,protocol=TCP].nodePort"},
		},
		"WholeItem": {
			reason:  "An ignored item is left where it is, and isn't added.",
			live:    `spec: {list: [{name: a, v: 1}, {name: x}, {name: c}]}`,
			desired: `spec: {list: [{name: a, v: 2}, {name: b, v: 2}, {name: d}]}`,
			earlier: `spec: {list: [{name: x}, {name: c}]}`,
			ignore:  []string{"spec.list[name=a]", "spec.list[name=b]", "spec.list[name=x]"},
			want:    []string{`spec.list[name="d"]: none -> {"name":"d"}`, `spec.list[name="c"]: {"name":"c"} removed`},
			merged:  `spec: {list: [{name: a, v: 1}, {name: x}, {name: d}]}`,
		},
		"ByIndex": {
			reason:  "An index is that of the desired item.",
			of:      k8s.Ingress,
			live:    `spec: {rules: [{host: a}, {host: b}]}`,
			desired: `spec: {rules: [{host: c}, {host: d}]}`,
			ignore:  []string{"spec.rules[0].host"},
			want:    []string{`spec.rules[1].host: "b" -> "d"`},
			merged:  `spec: {rules: [{host: a}, {host: d}]}`,
		},
		"AddedWithItsParent": {
			reason:  "An ignored path is set at creation, also that of what it is part of.",
			live:    `spec: {}`,
			desired: `spec: {a: {b: 1, c: 2}}`,
			ignore:  []string{"spec.a.b"},
			want:    []string{`spec.a: none -> {"b":1,"c":2}`},
			merged:  `spec: {a: {b: 1, c: 2}}`,
		},
		"NothingElse": {
			reason:  "Nothing is added for the sake of ignored paths alone.",
			live:    `spec: {d: x}`,
			desired: `spec: {a: {b: 1, x: null}, c: [{name: a}], d: [1], e: [1, 2]}`,
			ignore:  []string{"spec.a.b", "spec.c[*].name", "spec.d[*]", "spec.e[0]", "spec.e[1]"},
		},
		"EmptiedList": {
			reason:  "An empty desired list leaves the ignored items.",
			live:    `{a: [{name: x}, {name: z}], b: [{name: x}]}`,
			desired: `{a: [], b: []}`,
			ignore:  []string{"a[name=x]", "b[*]"},
			want:    []string{`a: [{"name":"x"},{"name":"z"}] -> []`},
			merged:  `{a: [{name: x}], b: [{name: x}]}`,
		},
		"Removal": {
			reason:  "What is ignored is never removed.",
			of:      k8s.Deployment,
			live:    `{metadata: {labels: {a: b, c: d}}, spec: {replicas: 2, paused: true, template: {metadata: {labels: {e: f, g: h}}}}}`,
			earlier: `{metadata: {labels: {a: b, c: d}}, spec: {replicas: 1, paused: true, template: {metadata: {labels: {e: f, g: h}}}}}`,
			desired: `{spec: {}}`,
			ignore:  []string{"spec.replicas", "metadata.labels.a", "spec.template.metadata.labels.e"},
			want: []string{
				`metadata.labels.c: "d" removed`, `spec.paused: true removed`,
				`spec.template: {"metadata":{"labels":{"e":"f","g":"h"}}} removed`,
			},
			merged: `{metadata: {labels: {a: b}}, spec: {replicas: 2, template: {metadata: {labels: {e: f}}}}}`,
		},
		"RemovalOfLists": {
			reason:  "Nor are ignored items, but what is ignored in others doesn't hold them.",
			live:    `{a: [1, 2], b: [{name: x, v: 1}, {name: z}], c: [1, 2]}`,
			earlier: `{a: [1, 2], b: [{name: x, v: 1}, {name: z}], c: [1, 2]}`,
			desired: `{}`,
			ignore:  []string{"a[*]", "b[name=z]", "b[name=x].v"},
			want:    []string{`b[name="x"]: {"name":"x","v":1} removed`, `c: [1,2] removed`},
			merged:  `{a: [1, 2], b: [{name: z}]}`,
		},
	})
}

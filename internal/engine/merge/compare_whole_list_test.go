package merge

import (
	"strconv"
	"strings"
	"testing"

	"github.com/roperator/roperator/resource/k8s"
)

func TestComparisonWholeLists(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"Equal": {
			reason:  "Length and order agree, items may have more keys than desired.",
			live:    `spec: {args: [x, z], list: [{key: a, operator: Equal}]}`,
			desired: `spec: {args: [x, z], list: [{key: a}]}`,
		},
		"Element": {
			reason:  "A list of the same length is compared element by element.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, args: [x, z]}]}`,
			desired: `spec: {containers: [{name: a, args: [x, w]}]}`,
			want:    []string{`spec.containers[name="a"].args[1]: "z" -> "w"`},
			merged:  `spec: {containers: [{name: a, args: [x, w]}]}`,
		},
		"Length": {
			reason:  "Another length is one difference.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, args: [x, z]}]}`,
			desired: `spec: {containers: [{name: a, args: [z]}]}`,
			want:    []string{`spec.containers[name="a"].args: ["x","z"] -> ["z"]`},
			merged:  `spec: {containers: [{name: a, args: [z]}]}`,
		},
		"NullElement": {
			reason:  "A desired null is an element like any other.",
			live:    `spec: [1, 2, null]`,
			desired: `spec: [null, 3, null]`,
			want:    []string{`spec[0]: 1 -> none`, `spec[1]: 2 -> 3`},
			merged:  `spec: [null, 3, null]`,
		},
		"ItemWithin": {
			reason:  "An item that differs further down is another item, too: its defaults may follow from what it said.",
			of:      k8s.HorizontalPodAutoscaler,
			live:    `spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}, other: 1}]}`,
			desired: `spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}`,
			want:    []string{`spec.metrics[0].other: 1 -> none`, `spec.metrics[0].resource.target.averageUtilization: 50 -> 60`},
			merged:  `spec: {metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]}`,
		},
		"AnotherItem": {
			reason:  "An item that differs itself is another item: what the live one had besides doesn't apply to it.",
			of:      k8s.Pod,
			live:    `spec: {tolerations: [{key: a, operator: Equal, value: v}, {key: b, operator: Exists, effect: NoSchedule}]}`,
			desired: `spec: {tolerations: [{key: z, operator: Exists}, {key: b, operator: Exists}]}`,
			want: []string{
				`spec.tolerations[0].key: "a" -> "z"`, `spec.tolerations[0].operator: "Equal" -> "Exists"`, `spec.tolerations[0].value: "v" -> none`,
				`spec.tolerations[1].effect: "NoSchedule" -> none`,
			},
			merged: `spec: {tolerations: [{key: z, operator: Exists}, {key: b, operator: Exists}]}`,
		},
		"AnotherPeer": {
			reason:  "Two selectors in one item would mean something else than either.",
			of:      k8s.NetworkPolicy,
			live:    `spec: {ingress: [{from: [{podSelector: {matchLabels: {a: b}}}]}]}`,
			desired: `spec: {ingress: [{from: [{namespaceSelector: {}}]}]}`,
			want: []string{
				`spec.ingress[0].from[0].namespaceSelector: none -> {}`, `spec.ingress[0].from[0].podSelector: {"matchLabels":{"a":"b"}} -> none`,
			},
			merged: `spec: {ingress: [{from: [{namespaceSelector: {}}]}]}`,
		},
		"IgnoredInItem": {
			reason:  "What is ignored stays even so.",
			of:      k8s.Ingress,
			live:    `spec: {rules: [{host: a, http: {paths: [{path: /}]}, more: 1}]}`,
			desired: `spec: {rules: [{host: b}]}`,
			ignore:  []string{"spec.rules[*].http"},
			want:    []string{`spec.rules[0].host: "a" -> "b"`, `spec.rules[0].more: 1 -> none`},
			merged:  `spec: {rules: [{host: b, http: {paths: [{path: /}]}}]}`,
		},
		"Sets": {
			reason:  "A set needs every desired element, in whatever order.",
			live:    `metadata: {finalizers: [c, a, 1]}`,
			desired: `metadata: {finalizers: [a, null, 1.0, b, c, b]}`,
			want:    []string{`metadata.finalizers: ["c","a",1] -> ["a",null,1,"b","c","b"]`},
			merged:  `metadata: {finalizers: [c, a, 1, b]}`,
		},
		"LongSets": {
			reason:  "The same for long ones.",
			live:    `metadata: {finalizers: [` + setElements(10, 60) + `]}`,
			desired: `metadata: {finalizers: [` + setElements(20, 60) + `]}`,
			earlier: `metadata: {finalizers: [` + setElements(12, 60) + `]}`,
			want: []string{
				`metadata.finalizers[2]: "e12" removed`, `metadata.finalizers[3]: "e13" removed`, `metadata.finalizers[4]: "e14" removed`,
				`metadata.finalizers[5]: "e15" removed`, `metadata.finalizers[6]: "e16" removed`, `metadata.finalizers[7]: "e17" removed`,
				`metadata.finalizers[8]: "e18" removed`, `metadata.finalizers[9]: "e19" removed`,
			},
			merged: `metadata: {finalizers: [e10, e11, ` + setElements(20, 60) + `]}`,
		},
		"LongAdditions": {
			reason:  "Each is added once.",
			live:    `metadata: {finalizers: [a]}`,
			desired: `metadata: {finalizers: [` + setElements(0, 40) + `, ` + setElements(30, 40) + `]}`,
			want:    []string{`metadata.finalizers: ["a"] -> [` + quotedSetElements(0, 40) + `,` + quotedSetElements(30, 40) + `]`},
			merged:  `metadata: {finalizers: [a, ` + setElements(0, 40) + `]}`,
		},
		"IgnoredElements": {
			reason:  "Ignored elements are neither added nor removed.",
			live:    `metadata: {finalizers: [a]}`,
			desired: `metadata: {finalizers: [b]}`,
			earlier: `metadata: {finalizers: [a]}`,
			ignore:  []string{"metadata.finalizers[*]"},
		},
	})
}

// setElements returns the elements e<from>, …, e<to-1> in YAML.
func setElements(from, to int) string {
	var items []string
	for i := from; i < to; i++ {
		items = append(items, "e"+strconv.Itoa(i))
	}
	return strings.Join(items, ", ")
}

// quotedSetElements returns the same elements in JSON.
func quotedSetElements(from, to int) string {
	return `"` + strings.ReplaceAll(setElements(from, to), ", ", `","`) + `"`
}

package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

func TestComparisonOrder(t *testing.T) {
	const containersBA = `spec.containers: [{"name":"b"},{"name":"a"}] -> [{"name":"a"},{"name":"b"}]`
	runCompareCases(t, map[string]compareCase{
		"OthersReorder": {
			reason:  "The order of most keyed lists doesn't count as long as it isn't we who change it.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: b}, {name: a}]}`,
			desired: `spec: {containers: [{name: a}, {name: b}]}`,
		},
		"OthersReorderedBefore": {
			reason:  "Nor when something else changes.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: b}, {name: a}]}`,
			earlier: `spec: {containers: [{name: a, image: x}, {name: b}]}`,
			desired: `spec: {containers: [{name: a}, {name: b}]}`,
		},
		"WeReorder": {
			reason:  "Another desired order counts. Items of others stay behind their neighbours.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: x}, {name: b}, {name: z}, {name: a}]}`,
			earlier: `spec: {containers: [{name: b}, {name: a}]}`,
			desired: `spec: {containers: [{name: a}, {name: b}]}`,
			want:    []string{`spec.containers: [{"name":"x"},{"name":"b"},{"name":"z"},{"name":"a"}] -> [{"name":"a"},{"name":"b"}]`},
			merged:  `spec: {containers: [{name: x}, {name: a}, {name: b}, {name: z}]}`,
		},
		"NewAmongOld": {
			reason:  "An item that others had before counts as well, once we want it at a certain place.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: b}, {name: a}]}`,
			earlier: `spec: {containers: [{name: a}]}`,
			desired: `spec: {containers: [{name: a}, {name: b}]}`,
			want:    []string{containersBA},
			merged:  `spec: {containers: [{name: a}, {name: b}]}`,
		},
		"Addition": {
			reason:  "An added item comes where it is wanted, though nothing else changes places.",
			of:      k8s.ValidatingAdmissionPolicy,
			live:    `spec: {variables: [{name: b, expression: a}]}`,
			earlier: `spec: {variables: [{name: b, expression: a}]}`,
			desired: `spec: {variables: [{name: a, expression: x}, {name: b, expression: a}]}`,
			want:    []string{`spec.variables[name="a"]: none -> {"expression":"x","name":"a"}`},
			merged:  `spec: {variables: [{name: a, expression: x}, {name: b, expression: a}]}`,
		},
		"UnknownOrder": {
			reason:  "The order counts if the earlier one isn't known.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: b}, {name: a}]}`,
			earlier: `spec: {containers: [{name: a}, {name: b}]}`,
			limit:   len("spec{containers*}"),
			desired: `spec: {containers: [{name: a}, {name: b}]}`,
			want:    []string{containersBA},
			merged:  `spec: {containers: [{name: a}, {name: b}]}`,
		},
		"ListByShape": {
			reason:  "The same holds without a schema.",
			live:    `steps: [{name: a}, {name: b}]`,
			earlier: `steps: [{name: a}, {name: b}]`,
			desired: `steps: [{name: b}, {name: a}]`,
			want:    []string{`steps: [{"name":"a"},{"name":"b"}] -> [{"name":"b"},{"name":"a"}]`},
			merged:  `steps: [{name: b}, {name: a}]`,
		},
		"NoMeaning": {
			reason:  "The order of some lists means nothing.",
			of:      k8s.Service,
			live:    `{metadata: {ownerReferences: [{uid: a}, {uid: b}]}, spec: {ports: [{port: 1, protocol: TCP}, {port: 2, protocol: TCP}]}}`,
			earlier: `{metadata: {ownerReferences: [{uid: a}, {uid: b}]}, spec: {ports: [{port: 1}, {port: 2}]}}`,
			desired: `{metadata: {ownerReferences: [{uid: b}, {uid: a}]}, spec: {ports: [{port: 2}, {port: 1}]}}`,
		},
	})
}

// TestFirstMarks shows that the texts of builds that recorded no order are read.
func TestFirstMarks(t *testing.T) {
	former, err := ParseFieldSet(`spec{containers[name:a{image},b{}]}`)
	require.NoError(t, err)
	c := Comparison{Schema: schemaOf(t, k8s.Pod)}
	live := sample.YAML(t, `spec: {containers: [{name: b}, {name: a, image: x}]}`)
	desired := sample.YAML(t, `spec: {containers: [{name: a}, {name: b}]}`)
	require.Equal(t, sample.YAML(t, `spec: {containers: [{name: a}, {name: b}]}`), c.Merge(live, desired, former))
}

func TestComparisonTwins(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"ByHand": {
			reason:  "A twin that somebody added is noticed, wherever it stands.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, env: [{name: A, value: theirs}, {name: B}, {name: A, value: "1"}, {name: C}]}]}`,
			desired: `spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: B}]}]}`,
			want: []string{
				`spec.containers[name="a"].env[name="A"].value: "theirs" -> "1"`,
				`spec.containers[name="a"].env: [{"name":"A","value":"theirs"},{"name":"B"},{"name":"A","value":"1"},{"name":"C"}] -> [{"name":"A","value":"1"},{"name":"B"}]`,
			},
			merged: `spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: B}, {name: C}]}]}`,
		},
		"Ours": {
			reason:  "One that we had and dropped goes.",
			of:      k8s.Pod,
			live:    `spec: {hostAliases: [{ip: a, hostnames: [a]}, {ip: a, hostnames: [b]}]}`,
			earlier: `spec: {hostAliases: [{ip: a, hostnames: [a]}, {ip: a, hostnames: [b]}]}`,
			desired: `spec: {hostAliases: [{ip: a, hostnames: [a]}]}`,
			want:    []string{`spec.hostAliases: [{"hostnames":["a"],"ip":"a"},{"hostnames":["b"],"ip":"a"}] -> [{"hostnames":["a"],"ip":"a"}]`},
			merged:  `spec: {hostAliases: [{ip: a, hostnames: [a]}]}`,
		},
		"OfOthers": {
			reason:  "Twins of what we don't want are no business of ours.",
			of:      k8s.Pod,
			live:    `spec: {hostAliases: [{ip: a, hostnames: [a]}, {ip: b, hostnames: [b]}, {ip: b, hostnames: [c]}]}`,
			desired: `spec: {hostAliases: [{ip: a, hostnames: [a]}]}`,
		},
		"Ignored": {
			reason:  "Nor are those that are ignored.",
			of:      k8s.Pod,
			live:    `spec: {hostAliases: [{ip: a, hostnames: [a]}, {ip: a, hostnames: [b]}]}`,
			desired: `spec: {hostAliases: [{ip: a, hostnames: [a]}]}`,
			ignore:  []string{"spec.hostAliases[ip=a]"},
		},
		"LongLists": {
			reason:  "The same for long lists.",
			of:      k8s.Pod,
			live:    `spec: {imagePullSecrets: [` + namedItems("A", 0, 50) + `, ` + namedItems("A", 49, 51) + `]}`,
			desired: `spec: {imagePullSecrets: [` + namedItems("A", 40, 50) + `]}`,
			want: []string{
				`spec.imagePullSecrets: ` + jsonText(t, sample.YAML(t, `l: [`+namedItems("A", 0, 50)+`, `+namedItems("A", 49, 51)+`]`)["l"]) + ` -> ` +
					jsonText(t, sample.YAML(t, `l: [`+namedItems("A", 40, 50)+`]`)["l"]),
			},
			merged: `spec: {imagePullSecrets: [` + namedItems("A", 0, 50) + `, ` + namedItems("A", 50, 51) + `]}`,
		},
	})
}

func TestCanonical(t *testing.T) {
	const ports, keyed = `{name: a, port: 1}, {name: b, port: 2}`, `{name: a}, {name: b}`
	cases := map[string]struct {
		reason string
		a, b   string
		ignore []string
		same   bool
	}{
		"Ports":        {"The order of a Service's ports means nothing.", `spec: {ports: [` + ports + `]}`, `spec: {ports: [{name: b, port: 2}, {name: a, port: 1}]}`, nil, true},
		"Finalizers":   {"Nor that of a set, or how often an element is said.", `metadata: {finalizers: [a, b]}`, `metadata: {finalizers: [b, a, b]}`, nil, true},
		"SetTwice":     {"A set that is in order may say an element twice.", `metadata: {finalizers: [a, b, b]}`, `metadata: {finalizers: [a, b]}`, nil, true},
		"OtherPorts":   {"What a port says does.", `spec: {ports: [` + ports + `]}`, `spec: {ports: [{name: b, port: 2}, {name: a, port: 3}]}`, nil, false},
		"ByShape":      {"The order of other lists does.", `spec: {list: [` + keyed + `]}`, `spec: {list: [{name: b}, {name: a}]}`, nil, false},
		"Atomic":       {"That of an atomic list too.", `spec: {clusterIPs: [a, b]}`, `spec: {clusterIPs: [b, a]}`, nil, false},
		"Null":         {"Nulls say nothing.", `spec: {type: null}`, `spec: {}`, nil, true},
		"Ignored":      {"Nor do ignored fields, there or not.", `{spec: {type: a, externalName: b}}`, `{spec: {externalName: b}}`, []string{"spec.type"}, true},
		"IgnoredOnly":  {"Nor what has nothing else in it.", `{metadata: {annotations: {a: b}, labels: {c: d}}}`, `{metadata: {labels: {c: d}}}`, []string{"metadata.annotations.a"}, true},
		"IgnoredItems": {"Within items of lists as well.", `spec: {ports: [{port: 1, nodePort: 2}, {port: 3}]}`, `spec: {ports: [{port: 1}]}`, []string{"spec.ports[*].nodePort", "spec.ports[port=3]"}, true},
		"IgnoredIndex": {"The others keep their index.", `spec: {clusterIPs: [a, b]}`, `spec: {clusterIPs: [c, b]}`, []string{"spec.clusterIPs[0]"}, true},
		"Protocol":     {"A default key may be said or not.", `spec: {ports: [{port: 1, protocol: TCP}, {port: 2, protocol: ""}, {port: 3}]}`, `spec: {ports: [{port: 1}, {port: 2}, {port: 3, protocol: TCP}]}`, nil, true},
		"OtherKey":     {"Another key is another item.", `spec: {ports: [{port: 1, protocol: UDP}]}`, `spec: {ports: [{port: 1}]}`, nil, false},
		"Zeros":        {"Zero values that the Go type drops say nothing.", `{spec: {clusterIP: "", externalIPs: [], sessionAffinity: ""}, metadata: {labels: {}}}`, `{spec: {}}`, nil, true},
		"ZeroFields":   {"Wherever they are.", `spec: {clusterIP: "", externalIPs: [], publishNotReadyAddresses: false}`, `spec: {type: ""}`, nil, true},
		"NotIgnored":   {"What isn't ignored counts.", `spec: {ports: [{port: 1, nodePort: 2}]}`, `spec: {ports: [{port: 2}]}`, []string{"spec.ports[*].nodePort"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := compareCase{of: k8s.Service, ignore: tc.ignore}.comparison(t)
			a, b := sample.YAML(t, tc.a), sample.YAML(t, tc.b)
			require.Equal(t, tc.same, jsonText(t, c.Canonical(a)) == jsonText(t, c.Canonical(b)), tc.reason)
			require.Equal(t, sample.YAML(t, tc.a), a, "the argument isn't modified")
		})
	}
}

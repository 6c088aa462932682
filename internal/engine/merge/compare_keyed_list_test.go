package merge

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

func TestComparisonKeyedLists(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"OnlyLiveItems": {
			reason:  "Items that only the live list has are ignored.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: proxy}, {name: app, image: a:1, imagePullPolicy: Always}, {name: log}]}`,
			desired: `spec: {containers: [{name: app, image: a:1}]}`,
		},
		"ChangeInPlace": {
			reason:  "A changed item stays where it is, and so do the others.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: proxy}, {name: app, image: a:1, imagePullPolicy: Always}, {name: log}]}`,
			desired: `spec: {containers: [{name: app, image: a:2}]}`,
			want:    []string{`spec.containers[name="app"].image: "a:1" -> "a:2"`},
			merged:  `spec: {containers: [{name: proxy}, {name: app, image: a:2, imagePullPolicy: Always}, {name: log}]}`,
		},
		"Addition": {
			reason:  "Desired items come in their order, items of others stay behind their neighbours.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: head}, {name: a}, {name: x}, {name: c}, {name: tail}]}`,
			desired: `spec: {containers: [{name: a}, {name: b}, {name: c}, {name: d}]}`,
			want:    []string{`spec.containers[name="b"]: none -> {"name":"b"}`, `spec.containers[name="d"]: none -> {"name":"d"}`},
			merged:  `spec: {containers: [{name: head}, {name: a}, {name: x}, {name: b}, {name: c}, {name: tail}, {name: d}]}`,
		},
		"MissingList": {
			reason:  "A missing list is one difference.",
			of:      k8s.Pod,
			live:    `spec: {}`,
			desired: `spec: {containers: [{name: a}]}`,
			want:    []string{`spec.containers: none -> [{"name":"a"}]`},
			merged:  `spec: {containers: [{name: a}]}`,
		},
		"EmptyDesired": {
			reason:  "An empty desired list wants an empty list, a keyed one too.",
			of:      k8s.Pod,
			live:    `spec: {imagePullSecrets: [{name: a}], tolerations: []}`,
			desired: `spec: {imagePullSecrets: [], tolerations: [], volumes: []}`,
			want:    []string{`spec.imagePullSecrets: [{"name":"a"}] -> []`},
			merged:  `spec: {imagePullSecrets: [], tolerations: []}`,
		},
		"OrderOfInitContainers": {
			reason:  "initContainers run in their order.",
			of:      k8s.Pod,
			live:    `spec: {initContainers: [{name: x}, {name: b}, {name: z}, {name: a}]}`,
			desired: `spec: {initContainers: [{name: a}, {name: b}]}`,
			want: []string{
				`spec.initContainers: [{"name":"x"},{"name":"b"},{"name":"z"},{"name":"a"}] -> [{"name":"a"},{"name":"b"}]`,
			},
			merged: `spec: {initContainers: [{name: x}, {name: a}, {name: b}, {name: z}]}`,
		},
		"OrderOfEnv": {
			reason:  "A variable may refer to those before it.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: app, env: [{name: B, value: $(A)}, {name: A, value: "1"}]}]}`,
			desired: `spec: {containers: [{name: app, env: [{name: A, value: "2"}, {name: B, value: $(A)}]}]}`,
			want: []string{
				`spec.containers[name="app"].env[name="A"].value: "1" -> "2"`,
				`spec.containers[name="app"].env: [{"name":"B","value":"$(A)"},{"name":"A","value":"1"}] -> [{"name":"A","value":"2"},{"name":"B","value":"$(A)"}]`,
			},
			merged: `spec: {containers: [{name: app, env: [{name: A, value: "2"}, {name: B, value: $(A)}]}]}`,
		},
		"OrderAmongOthers": {
			reason:  "Others' items in between don't disturb it.",
			of:      k8s.Pod,
			live:    `spec: {initContainers: [{name: x}, {name: a}, {name: y1}, {name: b}]}`,
			desired: `spec: {initContainers: [{name: a}, {name: b}]}`,
		},
		"SeveralKeys": {
			reason:  "All keys count, and a missing one has its default on either side.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 53, name: tcp, targetPort: 1}, {port: 53, protocol: UDP, name: udp, targetPort: 1}]}`,
			desired: `spec: {ports: [{port: 53, protocol: UDP, targetPort: 2}, {port: 53, protocol: TCP, targetPort: 3}]}`,
			want: []string{
				`spec.ports[port=53,protocol="UDP"].targetPort: 1 -> 2`,
				`spec.ports[port=53,protocol="TCP"].protocol: none -> "TCP"`,
				`spec.ports[port=53,protocol="TCP"].targetPort: 1 -> 3`,
			},
			merged: `spec: {ports: [{port: 53, protocol: TCP, name: tcp, targetPort: 3}, {port: 53, protocol: UDP, name: udp, targetPort: 2}]}`,
		},
		"SameKeysTwice": {
			reason:  "Items with the same keys are taken in their order, and what there are too many goes.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: A, value: "3"}]}]}`,
			desired: `spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: A, value: "4"}]}]}`,
			want: []string{
				`spec.containers[name="a"].env[1].value: "2" -> "4"`,
				`spec.containers[name="a"].env: [{"name":"A","value":"1"},{"name":"A","value":"2"},{"name":"A","value":"3"}] -> [{"name":"A","value":"1"},{"name":"A","value":"4"}]`,
			},
			merged: `spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: A, value: "4"}]}]}`,
		},
		"Twins": {
			reason:  "Others' items with the keys of ours go: whoever reads the list would take them for ours.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, env: [{name: A, value: "1"}, {name: B}, {name: A, value: "2"}, {name: X}]}]}`,
			desired: `spec: {containers: [{name: a, env: [{name: B}, {name: A, value: "1"}]}]}`,
			want: []string{
				`spec.containers[name="a"].env: [{"name":"A","value":"1"},{"name":"B"},{"name":"A","value":"2"},{"name":"X"}] -> [{"name":"B"},{"name":"A","value":"1"}]`,
			},
			merged: `spec: {containers: [{name: a, env: [{name: B}, {name: X}, {name: A, value: "1"}]}]}`,
		},
		"MovedPort": {
			reason:  "A port whose number was changed by hand is the same port: two of one name would be invalid.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 81, protocol: UDP, name: http, nodePort: 30000}, {port: 443, protocol: TCP, name: https}]}`,
			desired: `spec: {ports: [{port: 443, name: https}, {port: 80, name: http}]}`,
			want: []string{
				`spec.ports[port=80,protocol="TCP"].port: 81 -> 80`, `spec.ports[port=80,protocol="TCP"].protocol: "UDP" -> "TCP"`,
			},
			merged: `spec: {ports: [{port: 443, protocol: TCP, name: https}, {port: 80, protocol: TCP, name: http, nodePort: 30000}]}`,
		},
		"MovedSolePort": {
			reason:  "So is the only one, which needs no name.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 81, protocol: TCP, nodePort: 30000}]}`,
			desired: `spec: {ports: [{port: 80}]}`,
			want:    []string{`spec.ports[port=80,protocol="TCP"].port: 81 -> 80`},
			merged:  `spec: {ports: [{port: 80, protocol: TCP, nodePort: 30000}]}`,
		},
		"MovedByUs": {
			reason:  "A port that we renumber keeps its node port, and loses what we drop.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 80, protocol: TCP, name: http, nodePort: 30000, appProtocol: http}]}`,
			earlier: `spec: {ports: [{port: 80, name: http, appProtocol: http}]}`,
			desired: `spec: {ports: [{port: 8080, name: http}]}`,
			want: []string{
				`spec.ports[port=8080,protocol="TCP"].appProtocol: "http" removed`, `spec.ports[port=8080,protocol="TCP"].port: 80 -> 8080`,
			},
			merged: `spec: {ports: [{port: 8080, protocol: TCP, name: http, nodePort: 30000}]}`,
		},
		"MovedByOthers": {
			reason:  "Somebody has given our port another number. By managedFields ours is gone, and the port there is theirs: it has our name.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 81, protocol: TCP, name: http, nodePort: 30000}, {port: 9, protocol: TCP, name: x}]}`,
			earlier: `spec: {ports: [{port: 80, name: http}]}`,
			desired: `spec: {ports: [{port: 80, name: http}]}`,
			want:    []string{`spec.ports[port=80,protocol="TCP"].port: 81 -> 80`},
			merged:  `spec: {ports: [{port: 80, protocol: TCP, name: http, nodePort: 30000}, {port: 9, protocol: TCP, name: x}]}`,
		},
		"MovedByOthersSole": {
			reason:  "A port without a name can't have siblings, so theirs is what has become of it.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 81, protocol: TCP}]}`,
			earlier: `spec: {ports: [{port: 80}]}`,
			desired: `spec: {ports: [{port: 80}]}`,
			want:    []string{`spec.ports[port=80,protocol="TCP"].port: 81 -> 80`},
			merged:  `spec: {ports: [{port: 80, protocol: TCP}]}`,
		},
		"MovedByOthersAndNamed": {
			reason:  "So it is with names that they have given, for the sake of a second port. A name makes ours valid beside it.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 81, protocol: TCP, name: a}, {port: 82, protocol: TCP, name: b}]}`,
			earlier: `spec: {ports: [{port: 80}]}`,
			desired: `spec: {ports: [{port: 80}]}`,
			want:    []string{`spec.ports[port=80,protocol="TCP"].port: 81 -> 80`},
			merged:  `spec: {ports: [{port: 80, protocol: TCP, name: a}, {port: 82, protocol: TCP, name: b}]}`,
		},
		"MovedByUsAmongOthers": {
			reason:  "Of several ports that have names by others, ours is the one that we have said before.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 82, protocol: TCP, name: b}, {port: 80, protocol: TCP, name: a, nodePort: 30000}]}`,
			earlier: `spec: {ports: [{port: 80}]}`,
			desired: `spec: {ports: [{port: 8080}]}`,
			want:    []string{`spec.ports[port=8080,protocol="TCP"].port: 80 -> 8080`},
			merged:  `spec: {ports: [{port: 82, protocol: TCP, name: b}, {port: 8080, protocol: TCP, name: a, nodePort: 30000}]}`,
		},
		"NameOfOursTaken": {
			reason:  "Somebody has renamed our port, and given its name to one of theirs: the API server would refuse two of one name.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 80, protocol: TCP, name: old}, {port: 81, protocol: TCP, name: http}, {port: 9, protocol: TCP, name: x}]}`,
			earlier: `spec: {ports: [{port: 80}]}`,
			desired: `spec: {ports: [{port: 80, name: http}]}`,
			want: []string{
				`spec.ports[port=80,protocol="TCP"].name: "old" -> "http"`,
				`spec.ports: [{"name":"old","port":80,"protocol":"TCP"},{"name":"http","port":81,"protocol":"TCP"},{"name":"x","port":9,"protocol":"TCP"}]` +
					` -> [{"name":"http","port":80}]`,
			},
			merged: `spec: {ports: [{port: 80, protocol: TCP, name: http}, {port: 9, protocol: TCP, name: x}]}`,
		},
		"NameOfOursTakenInContainer": {
			reason:  "The same among the ports of a container, where a webhook adds one of our new name.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, ports: [{containerPort: 15090, protocol: TCP, name: http}]}]}`,
			earlier: `spec: {containers: [{name: a}]}`,
			desired: `spec: {containers: [{name: a, ports: [{containerPort: 80, name: http}]}]}`,
			want:    []string{`spec.containers[name="a"].ports[containerPort=80,protocol="TCP"].containerPort: 15090 -> 80`},
			merged:  `spec: {containers: [{name: a, ports: [{containerPort: 80, protocol: TCP, name: http}]}]}`,
		},
		"NotOursToMove": {
			reason:  "A port that wasn't ours is never taken.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, ports: [{containerPort: 15090, protocol: TCP}]}]}`,
			earlier: `spec: {containers: [{name: a}]}`,
			desired: `spec: {containers: [{name: a, ports: [{containerPort: 80}]}]}`,
			want:    []string{`spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]: none -> {"containerPort":80}`},
			merged:  `spec: {containers: [{name: a, ports: [{containerPort: 15090, protocol: TCP}, {containerPort: 80}]}]}`,
		},
		"NotOursByTheirs": {
			reason:  "Nor is the only port of a container, beside which another one may stand.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, ports: [{containerPort: 15090, protocol: TCP}]}]}`,
			desired: `spec: {containers: [{name: a, ports: [{containerPort: 80}]}]}`,
			want:    []string{`spec.containers[name="a"].ports[containerPort=80,protocol="TCP"]: none -> {"containerPort":80}`},
			merged:  `spec: {containers: [{name: a, ports: [{containerPort: 15090, protocol: TCP}, {containerPort: 80}]}]}`,
		},
		"IncompleteKeys": {
			reason:  "An item without all of its keys is found by those it has, but isn't taken for another.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 81, protocol: TCP}]}`,
			desired: `spec: {ports: [{targetPort: 1}]}`,
			want:    []string{`spec.ports[port=null,protocol="TCP"]: none -> {"targetPort":1}`},
			merged:  `spec: {ports: [{port: 81, protocol: TCP}, {targetPort: 1}]}`,
		},
		"ItemsOfAnotherType": {
			reason:  "A live list in which nothing can be found is replaced.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a}, b]}`,
			desired: `spec: {containers: [{name: a}, {name: b}]}`,
			want:    []string{`spec.containers: [{"name":"a"},"b"] -> [{"name":"a"},{"name":"b"}]`},
			merged:  `spec: {containers: [{name: a}, {name: b}]}`,
		},
		"DesiredItemsOfAnotherType": {
			reason:  "A desired list without keys is compared whole.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a}, {name: b}]}`,
			desired: `spec: {containers: [{name: a}, b]}`,
			want:    []string{`spec.containers[1]: {"name":"b"} -> "b"`},
			merged:  `spec: {containers: [{name: a}, b]}`,
		},
		"LongLists": {
			reason:  "Long lists are indexed; the result is the same.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, env: [` + namedItems("x", 0, 5) + `,` + namedItems("A", 40, 80) + `,` + namedItems("A", 0, 40) + `]}]}`,
			desired: `spec: {containers: [{name: a, env: [` + namedItems("A", 40, 81) + `]}]}`,
			want:    []string{`spec.containers[name="a"].env[name="A80"]: none -> {"name":"A80"}`},
			merged: `spec: {containers: [{name: a, env: [` + namedItems("x", 0, 5) + `,` + namedItems("A", 40, 80) + `,` + namedItems("A", 0, 40) + `,` +
				namedItems("A", 80, 81) + `]}]}`,
		},
	})
}

// TestComparisonSeveralKeys shows that all keys together make the identity of an
// item, though one of them is a name.
func TestComparisonSeveralKeys(t *testing.T) {
	item := &listkeys.Node{Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{"name": {}, "zone": {}, "value": {}}}
	for _, keys := range [][]string{{"name", "zone"}, {"zone", "value"}} {
		c := Comparison{Schema: &listkeys.Node{Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{
			"list": {Kind: listkeys.List, Keys: keys, Elem: item},
		}}}
		live := sample.YAML(t, `list: [{name: a, zone: x, value: theirs}]`)
		desired := sample.YAML(t, `list: [{name: a, zone: z, value: ours}]`)
		require.Equal(t, sample.YAML(t, `list: [{name: a, zone: x, value: theirs}, {name: a, zone: z, value: ours}]`), c.Merge(live, desired, nil), keys)
	}
}

func TestComparisonListsByShape(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"UniqueNames": {
			reason:  "Without schema, objects that all have a unique string name are found by it.",
			live:    `spec: {list: [{name: x}, {name: a, v: 1}]}`,
			desired: `spec: {list: [{name: a, v: 2}]}`,
			want:    []string{`spec.list[name="a"].v: 1 -> 2`},
			merged:  `spec: {list: [{name: x}, {name: a, v: 2}]}`,
		},
		"SameNames": {
			reason:  "Names that aren't unique are no keys.",
			live:    `spec: {list: [{name: a}, {name: a}, {name: b}]}`,
			desired: `spec: {list: [{name: a}, {name: b}]}`,
			want:    []string{`spec.list: [{"name":"a"},{"name":"a"},{"name":"b"}] -> [{"name":"a"},{"name":"b"}]`},
			merged:  `spec: {list: [{name: a}, {name: b}]}`,
		},
		"NotAllNames": {
			reason:  "Nor are names that some items lack.",
			live:    `spec: {list: [{name: a, v: 1}, {v: 2}]}`,
			desired: `spec: {list: [{name: a, v: 1}, {name: b}]}`,
			want:    []string{`spec.list[1].name: none -> "b"`},
			merged:  `spec: {list: [{name: a, v: 1}, {name: b}]}`,
		},
		"Numbers": {
			reason:  "Nor are numbers.",
			live:    `spec: {list: [{name: 1}, {name: 2}]}`,
			desired: `spec: {list: [{name: 1}]}`,
			want:    []string{`spec.list: [{"name":1},{"name":2}] -> [{"name":1}]`},
			merged:  `spec: {list: [{name: 1}]}`,
		},
		"LongLists": {
			reason:  "The same for long lists.",
			live:    `{a: [` + namedItems("A", 0, 50) + `], b: [` + namedItems("A", 0, 40) + `,` + namedItems("A", 0, 1) + `]}`,
			desired: `{a: [` + namedItems("A", 10, 50) + `], b: [` + namedItems("A", 0, 40) + `,{name: B}]}`,
			want:    []string{`b[40].name: "A0" -> "B"`},
			merged:  `{a: [` + namedItems("A", 0, 50) + `], b: [` + namedItems("A", 0, 40) + `,{name: B}]}`,
		},
	})
}

// namedItems returns list items with the names prefix<from>, …, prefix<to-1>.
func namedItems(prefix string, from, to int) string {
	var items []string
	for i := from; i < to; i++ {
		items = append(items, "{name: "+prefix+strconv.Itoa(i)+"}")
	}
	return strings.Join(items, ", ")
}

package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestComparisonScalars(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"EqualScalars": {
			reason:  "Scalars compare by JSON value, numbers by what they amount to.",
			live:    `spec: {a: x, b: 1, c: 1.5, d: true, e: 2}`,
			desired: `spec: {a: x, b: 1.0, c: 1.5, d: true, e: 2}`,
		},
		"DifferentScalars": {
			reason:  "Every desired key is compared, in the order of the keys.",
			live:    `spec: {a: x, b: 1, c: 1.5, d: true, e: "1"}`,
			desired: `spec: {a: z, b: 2, c: 1.25, d: false, e: 1}`,
			want: []string{
				`spec.a: "x" -> "z"`, `spec.b: 1 -> 2`, `spec.c: 1.5 -> 1.25`, `spec.d: true -> false`, `spec.e: "1" -> 1`,
			},
			merged: `spec: {a: z, b: 2, c: 1.25, d: false, e: 1}`,
		},
		"IgnoresOnlyLive": {
			reason:  "Keys only in the live object belong to others.",
			live:    `{spec: {a: x, other: 1}, more: {}}`,
			desired: `spec: {a: x}`,
		},
		"KeepsOnlyLive": {
			reason:  "Also where something next to them changes.",
			live:    `{spec: {a: x, other: 1}, more: {}}`,
			desired: `spec: {a: z}`,
			want:    []string{`spec.a: "x" -> "z"`},
			merged:  `{spec: {a: z, other: 1}, more: {}}`,
		},
		"Null": {
			reason:  "A desired null means no opinion, wherever it stands.",
			live:    `spec: {a: x}`,
			desired: `{spec: {a: null, b: null}, more: null}`,
		},
		"NullWithinAddition": {
			reason:  "Nulls aren't sent.",
			live:    `spec: {}`,
			desired: `spec: {a: {b: null, c: 1, d: [{e: null, f: 2}]}}`,
			want:    []string{`spec.a: none -> {"c":1,"d":[{"f":2}]}`},
			merged:  `spec: {a: {c: 1, d: [{f: 2}]}}`,
		},
		"LiveNull": {
			reason:  "A live null is as good as absent.",
			live:    `spec: {a: null, b: null, c: null}`,
			desired: `spec: {a: 1, b: [], c: {}}`,
			want:    []string{`spec.a: none -> 1`, `spec.b: none -> []`, `spec.c: none -> {}`},
			merged:  `spec: {a: 1, b: [], c: {}}`,
		},
		"LiveNullList": {
			reason:  "Storage doesn't tell an empty list of a built-in type from none.",
			of:      resource.Type{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			live:    `rules: null`,
			desired: `rules: []`,
		},
		"EmptyObject": {
			reason:  "An empty object may mean a lot (emptyDir, podSelector), so a missing one is a difference.",
			live:    `spec: {b: {x: 1}}`,
			desired: `spec: {a: {}, b: {}}`,
			want:    []string{`spec.a: none -> {}`},
			merged:  `spec: {a: {}, b: {x: 1}}`,
		},
		"EmptyString": {
			reason:  "What the server drops is a difference here; the engine remembers that it is none.",
			live:    `spec: {}`,
			desired: `spec: {a: ""}`,
			want:    []string{`spec.a: none -> ""`},
			merged:  `spec: {a: ""}`,
		},
		"MixedTypes": {
			reason:  "A value of another type is one difference; the desired one takes its place.",
			live:    `spec: {a: [1], b: {c: 1}, d: x, e: {f: 1}, g: [1]}`,
			desired: `spec: {a: {b: 1}, b: [1], d: {e: 1}, e: x, g: 1}`,
			want: []string{
				`spec.a: [1] -> {"b":1}`, `spec.b: {"c":1} -> [1]`, `spec.d: "x" -> {"e":1}`, `spec.e: {"f":1} -> "x"`, `spec.g: [1] -> 1`,
			},
			merged: `spec: {a: {b: 1}, b: [1], d: {e: 1}, e: x, g: 1}`,
		},
		"Quantity": {
			reason:  "Quantities are compared by amount.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: app, resources: {limits: {cpu: "1", memory: 1Gi, pods: "3"}}}]}`,
			desired: `spec: {containers: [{name: app, resources: {limits: {cpu: 1000m, memory: 1024Mi, pods: 3}}}]}`,
		},
		"OtherQuantity": {
			reason:  "Another amount differs.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: app, resources: {limits: {cpu: "1"}}}]}`,
			desired: `spec: {containers: [{name: app, resources: {limits: {cpu: 1001m}}}]}`,
			want:    []string{`spec.containers[name="app"].resources.limits.cpu: "1" -> "1001m"`},
			merged:  `spec: {containers: [{name: app, resources: {limits: {cpu: 1001m}}}]}`,
		},
		"NoQuantity": {
			reason:  "The same texts elsewhere are no quantities.",
			live:    `data: {cpu: "1"}`,
			desired: `data: {cpu: 1000m}`,
			want:    []string{`data.cpu: "1" -> "1000m"`},
			merged:  `data: {cpu: 1000m}`,
		},
		"NameAndNumber": {
			reason:  "\"80\" is the name of a port, and 80 a number.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 80, protocol: TCP, targetPort: 80}]}`,
			desired: `spec: {ports: [{port: 80, targetPort: "80"}]}`,
			want:    []string{`spec.ports[port=80,protocol="TCP"].targetPort: 80 -> "80"`},
			merged:  `spec: {ports: [{port: 80, protocol: TCP, targetPort: "80"}]}`,
		},
		"Zeros": {
			reason:  "Zero values that the Go types drop equal none.",
			of:      k8s.Deployment,
			live:    `spec: {replicas: 1, template: {spec: {containers: [{name: app, resources: {}}]}}}`,
			desired: `spec: {paused: false, minReadySeconds: 0, strategy: {}, template: {metadata: {labels: {}}, spec: {hostNetwork: false, nodeName: "", containers: [{name: app, tty: false, resources: {limits: {}}, ports: []}]}}}`,
		},
		"ZeroOfPointer": {
			reason:  "A zero behind a pointer is a value.",
			of:      k8s.Deployment,
			live:    `spec: {template: {spec: {containers: []}}}`,
			desired: `spec: {replicas: 0, template: {spec: {automountServiceAccountToken: false, securityContext: {}}}}`,
			want:    []string{`spec.replicas: none -> 0`, `spec.template.spec.automountServiceAccountToken: none -> false`, `spec.template.spec.securityContext: none -> {}`},
			merged:  `spec: {replicas: 0, template: {spec: {automountServiceAccountToken: false, securityContext: {}, containers: []}}}`,
		},
		"ZeroWanted": {
			reason:  "A zero value corrects another one.",
			of:      k8s.Pod,
			live:    `spec: {hostNetwork: true, nodeSelector: {a: b}, tolerations: [{key: a}]}`,
			desired: `spec: {hostNetwork: false, nodeSelector: {}, tolerations: []}`,
			want:    []string{`spec.hostNetwork: true -> false`, `spec.nodeSelector.a: "b" -> none`, `spec.tolerations: [{"key":"a"}] -> []`},
			merged:  `spec: {hostNetwork: false, nodeSelector: {}, tolerations: []}`,
		},
		"ZeroOfCustomResource": {
			reason:  "A custom resource stores what it is given.",
			live:    `spec: {a: 1}`,
			desired: `spec: {a: 1, paused: false}`,
			want:    []string{`spec.paused: none -> false`},
			merged:  `spec: {a: 1, paused: false}`,
		},
		"EmptyKey": {
			reason:  "The API server fills in TCP for an empty protocol.",
			of:      k8s.Service,
			live:    `spec: {ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}`,
			desired: `spec: {ports: [{port: 53, protocol: ""}, {port: 53, protocol: UDP}]}`,
		},
		"QuotedPath": {
			reason:  "Keys that aren't names are quoted in paths.",
			live:    `data: {plain-1: a}`,
			desired: `data: {plain-1: b, a.b/c: d, "1": e, "": f}`,
			want: []string{
				`data[""]: none -> "f"`, `data["1"]: none -> "e"`, `data["a.b/c"]: none -> "d"`, `data.plain-1: "a" -> "b"`,
			},
			merged: `data: {plain-1: b, a.b/c: d, "1": e, "": f}`,
		},
	})
}

func TestComparisonMetadata(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"ServerSet": {
			reason: "apiVersion, kind, status and what the server sets in metadata are neither compared nor changed.",
			live:   `{apiVersion: v1, kind: A, status: {a: 1}, metadata: {name: x, uid: u, resourceVersion: "1", generation: 1, labels: {a: b}}}`,
			desired: `{apiVersion: v2, kind: B, status: {a: 2}, metadata: {name: z, namespace: n, generateName: g, uid: v, resourceVersion: "2",
			  generation: 2, creationTimestamp: t, deletionTimestamp: t, deletionGracePeriodSeconds: 1, managedFields: [], selfLink: s, labels: {a: c}}}`,
			earlier: `{apiVersion: v1, kind: A, status: {a: 1, b: 1}, metadata: {name: x, uid: u, generation: 1}}`,
			want:    []string{`metadata.labels.a: "b" -> "c"`},
			merged:  `{apiVersion: v1, kind: A, status: {a: 1}, metadata: {name: x, uid: u, resourceVersion: "1", generation: 1, labels: {a: c}}}`,
		},
		"OnlyAtTheRoot": {
			reason:  "Elsewhere these are fields like any other.",
			live:    `spec: {status: a, metadata: {name: b}}`,
			desired: `spec: {status: b, kind: c, metadata: {name: c}}`,
			want:    []string{`spec.kind: none -> "c"`, `spec.metadata.name: "b" -> "c"`, `spec.status: "a" -> "b"`},
			merged:  `spec: {status: b, kind: c, metadata: {name: c}}`,
		},
		"NoLiveMetadata": {
			reason:  "Missing metadata is as good as empty.",
			live:    `{}`,
			desired: `metadata: {name: x, labels: {a: b}}`,
			want:    []string{`metadata.labels: none -> {"a":"b"}`},
			merged:  `metadata: {labels: {a: b}}`,
		},
		"NothingInMetadata": {
			reason:  "Metadata of which nothing is compared isn't added.",
			live:    `{}`,
			desired: `metadata: {name: x}`,
		},
		"MetadataOfAnotherType": {
			reason:  "Desired metadata that isn't an object says nothing.",
			live:    `metadata: {name: x}`,
			desired: `metadata: x`,
		},
		"OwnerReferences": {
			reason: "Owner references are found by UID; those of others stay.",
			live: `metadata: {ownerReferences: [{uid: other, name: o}, {uid: ours, name: p, controller: true, apiVersion: v1}]}
`,
			desired: `metadata: {ownerReferences: [{uid: ours, name: p, controller: true, blockOwnerDeletion: true}]}`,
			want:    []string{`metadata.ownerReferences[uid="ours"].blockOwnerDeletion: none -> true`},
			merged: `metadata: {ownerReferences: [{uid: other, name: o}, {uid: ours, name: p, controller: true, apiVersion: v1, blockOwnerDeletion: true}]}
`,
		},
		"OwnerReferenceMissing": {
			reason:  "A missing owner reference is added.",
			live:    `metadata: {ownerReferences: [{uid: other, name: p}]}`,
			desired: `metadata: {ownerReferences: [{uid: ours, name: p}]}`,
			want:    []string{`metadata.ownerReferences[uid="ours"]: none -> {"name":"p","uid":"ours"}`},
			merged:  `metadata: {ownerReferences: [{uid: other, name: p}, {uid: ours, name: p}]}`,
		},
		"Finalizers": {
			reason:  "Only the desired finalizers must be there.",
			live:    `metadata: {finalizers: [a, b]}`,
			desired: `metadata: {finalizers: [c, b]}`,
			want:    []string{`metadata.finalizers: ["a","b"] -> ["c","b"]`},
			merged:  `metadata: {finalizers: [a, b, c]}`,
		},
		"NoFinalizers": {
			reason:  "Empty desired lists in metadata don't take away what others need, only what we had.",
			live:    `metadata: {finalizers: [a, b], ownerReferences: [{uid: o}]}`,
			earlier: `metadata: {finalizers: [b, c]}`,
			desired: `metadata: {finalizers: [], ownerReferences: []}`,
			want:    []string{`metadata.finalizers[1]: "b" removed`},
			merged:  `metadata: {finalizers: [a], ownerReferences: [{uid: o}]}`,
		},
	})
}

func TestComparisonUnions(t *testing.T) {
	runCompareCases(t, map[string]compareCase{
		"Strategy": {
			reason:  "RollingUpdate to Recreate drops the defaulted rollingUpdate, which would be invalid.",
			of:      k8s.Deployment,
			live:    `spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%}}}`,
			desired: `spec: {strategy: {type: Recreate}}`,
			want:    []string{`spec.strategy.type: "RollingUpdate" -> "Recreate"`},
			merged:  `spec: {strategy: {type: Recreate}}`,
		},
		"StrategyWithin": {
			reason:  "A difference further down keeps the defaults.",
			of:      k8s.Deployment,
			live:    `spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}}`,
			desired: `spec: {strategy: {rollingUpdate: {maxSurge: 50%}}}`,
			want:    []string{`spec.strategy.rollingUpdate.maxSurge: "25%" -> "50%"`},
			merged:  `spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 50%, maxUnavailable: 25%}}}`,
		},
		"StrategySatisfied": {
			reason:  "Nothing is dropped where nothing differs.",
			of:      k8s.Deployment,
			live:    `spec: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%}}}`,
			desired: `spec: {strategy: {type: RollingUpdate}}`,
		},
		"Volume": {
			reason:  "A volume of another type drops the old one.",
			of:      k8s.Pod,
			live:    `spec: {volumes: [{name: a, configMap: {name: x, defaultMode: 420}}, {name: b, emptyDir: {}}]}`,
			desired: `spec: {volumes: [{name: a, secret: {secretName: x}}]}`,
			want:    []string{`spec.volumes[name="a"].secret: none -> {"secretName":"x"}`},
			merged:  `spec: {volumes: [{name: a, secret: {secretName: x}}, {name: b, emptyDir: {}}]}`,
		},
		"VolumeWithin": {
			reason:  "A change within the same type keeps what was defaulted.",
			of:      k8s.Pod,
			live:    `spec: {volumes: [{name: a, configMap: {name: x, defaultMode: 420}}]}`,
			desired: `spec: {volumes: [{name: a, configMap: {name: z}}]}`,
			want:    []string{`spec.volumes[name="a"].configMap.name: "x" -> "z"`},
			merged:  `spec: {volumes: [{name: a, configMap: {name: z, defaultMode: 420}}]}`,
		},
		"Variable": {
			reason:  "A variable has a value or a source.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, env: [{name: A, value: x}, {name: B, valueFrom: {fieldRef: {fieldPath: x, apiVersion: v1}}}]}]}`,
			desired: `spec: {containers: [{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}, {name: B, valueFrom: {secretKeyRef: {name: x}}}]}]}`,
			want: []string{
				`spec.containers[name="a"].env[name="A"].valueFrom: none -> {"fieldRef":{"fieldPath":"x"}}`,
				`spec.containers[name="a"].env[name="B"].valueFrom.secretKeyRef: none -> {"name":"x"}`,
			},
			merged: `spec: {containers: [{name: a, env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}, {name: B, valueFrom: {secretKeyRef: {name: x}}}]}]}`,
		},
		"Probe": {
			reason:  "A probe has one way to probe.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, readinessProbe: {tcpSocket: {port: 1}, periodSeconds: 10}}]}`,
			desired: `spec: {containers: [{name: a, readinessProbe: {httpGet: {port: 1}}}]}`,
			want:    []string{`spec.containers[name="a"].readinessProbe.httpGet: none -> {"port":1}`},
			merged:  `spec: {containers: [{name: a, readinessProbe: {httpGet: {port: 1}}}]}`,
		},
		"UpdateStrategy": {
			reason:  "A StatefulSet with OnDelete must not have rollingUpdate.",
			of:      k8s.StatefulSet,
			live:    `spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}`,
			desired: `spec: {updateStrategy: {type: OnDelete}}`,
			want:    []string{`spec.updateStrategy.type: "RollingUpdate" -> "OnDelete"`},
			merged:  `spec: {updateStrategy: {type: OnDelete}}`,
		},
		"Backend": {
			reason:  "An Ingress backend is a service or a resource.",
			of:      k8s.Ingress,
			live:    `spec: {defaultBackend: {resource: {kind: A, name: b}}, ingressClassName: x}`,
			desired: `spec: {defaultBackend: {service: {name: b}}}`,
			want:    []string{`spec.defaultBackend.service: none -> {"name":"b"}`},
			merged:  `spec: {defaultBackend: {service: {name: b}}, ingressClassName: x}`,
		},
		"NoUnion": {
			reason:  "Other structs keep what they have.",
			of:      k8s.Service,
			live:    `spec: {type: NodePort, clusterIP: 10.0.0.1, ipFamilyPolicy: SingleStack}`,
			desired: `spec: {type: ClusterIP, sessionAffinity: None}`,
			want:    []string{`spec.sessionAffinity: none -> "None"`, `spec.type: "NodePort" -> "ClusterIP"`},
			merged:  `spec: {type: ClusterIP, clusterIP: 10.0.0.1, ipFamilyPolicy: SingleStack, sessionAffinity: None}`,
		},
		"VolumeIgnored": {
			reason:  "Not even then is something ignored dropped.",
			of:      k8s.Pod,
			live:    `spec: {volumes: [{name: a, configMap: {name: x, defaultMode: 420}, emptyDir: {}}]}`,
			desired: `spec: {volumes: [{name: a, secret: {secretName: x}}]}`,
			ignore:  []string{"spec.volumes[*].configMap.name"},
			want:    []string{`spec.volumes[name="a"].secret: none -> {"secretName":"x"}`},
			merged:  `spec: {volumes: [{name: a, configMap: {name: x}, secret: {secretName: x}}]}`,
		},
	})
}

// TestPruned: a field that the schema of a custom resource prunes is no difference. An update sends it nevertheless, since the API
// server's schema may be a newer one, but no apply does, which would be rejected.
func TestPruned(t *testing.T) {
	schema := listkeys.FromSchema(sample.YAML(t, `{type: object, properties: {spec: {type: object, properties: {size: {type: integer}, list: {type: array, items: {type: object, properties: {a: {type: string}}}},
		open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}}}}}`), nil)
	c := Comparison{Schema: schema}
	live := sample.YAML(t, `spec: {size: 1, list: [{a: x}], open: {a: x}}`)
	same := sample.YAML(t, `spec: {size: 1, color: red, list: [{a: x, b: y}], open: {a: x}}`)
	require.Empty(t, c.Compare(live, same, nil))
	require.Empty(t, c.Collect(live, same, nil))
	require.Equal(t, live, c.Merge(live, same, nil))
	require.Equal(t, sample.YAML(t, `spec: {size: 1, list: [{a: x}], open: {a: x}}`), c.Canonical(same))
	other := sample.YAML(t, `spec: {size: 2, color: red, open: {a: x, b: y}}`)
	require.Len(t, c.Compare(live, other, nil), 2)
	merged := c.Merge(live, other, nil)
	require.Equal(t, sample.YAML(t, `spec: {size: 2, color: red, list: [{a: x}], open: {a: x, b: y}}`), merged)
	require.Equal(t, sample.YAML(t, `spec: {size: 2, open: {a: x, b: y}}`), c.Applied(live, other, merged, nil).Body)
}

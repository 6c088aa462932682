package apischema

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/gotype"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const deploymentHead = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"

func check(t *testing.T, text string, creation bool) []string {
	t.Helper()
	var object map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &object))
	c, err := New()
	require.NoError(t, err)
	var out []string
	for _, p := range c.Check(object, creation) {
		out = append(out, p.String())
	}
	return out
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, object string
		update         bool
		want           []string
	}{
		"typo": {
			reason: "the path of each unknown field is told, and what it may mean",
			object: deploymentHead + "spec: {replica: 1, selector: {matchLabels: {a: b}}, template: {metadata: {label: {a: b}}, spec: {containers: [{name: web, img: nginx}]}}}",
			want: []string{
				"spec.replica: unknown field (spec.replicas?)", "spec.template.metadata.label: unknown field (spec.template.metadata.labels?)",
				"spec.template.spec.containers[0].img: unknown field",
			},
		},
		"case": {
			reason: "an API server heeds the case of names",
			object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nData: {a: b}",
			want:   []string{"Data: unknown field (data?)"},
		},
		"types": {
			reason: "all wrong types are told, in the words of YAML",
			object: deploymentHead + `spec: {replicas: "3", paused: 1, selector: [], minReadySeconds: 1.5, template: {metadata: {labels: {a: 1}}, spec: {containers: {name: web}, terminationGracePeriodSeconds: x}}}`,
			want: []string{
				"spec.minReadySeconds: wants an integer (int32), not 1.5", "spec.paused: wants true or false, not 1", `spec.replicas: wants an integer (int32), not the string "3"`,
				"spec.selector: wants an object, not a list", "spec.template.metadata.labels[a]: wants a string, not 1",
				"spec.template.spec.containers: wants a list, not an object", `spec.template.spec.terminationGracePeriodSeconds: wants an integer (int64), not the string "x"`,
			},
		},
		"missing": {
			reason: "of what is missing the outermost is told; what isn't demanded may be missing",
			object: deploymentHead + "spec: {template: {spec: {containers: [{image: nginx, ports: [{}]}], volumes: [{}]}}}",
			want: []string{
				"spec.selector: must be set", "spec.template.spec.volumes[0].name: must be set", "spec.template.spec.containers[0].name: must be set",
				"spec.template.spec.containers[0].ports[0].containerPort: must be set",
			},
		},
		"an update": {
			reason: "what is there needn't be said again",
			object: deploymentHead + "spec: {replicas: 2, replica: 3}", update: true,
			want: []string{"spec.replica: unknown field (spec.replicas?)"},
		},
		"enum": {
			reason: "values are compared wherever they are; an empty one is none",
			object: "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: Cluster, sessionAffinity: '', ipFamilies: [IPv5], ports: [{port: 80, protocol: HTTP}]}",
			want: []string{
				`spec.ports[0].protocol: "HTTP" isn't one of SCTP, TCP, UDP (of Kubernetes v1.36.3)`,
				`spec.type: "Cluster" isn't one of ClusterIP, ExternalName, LoadBalancer, NodePort (of Kubernetes v1.36.3)`,
				`spec.ipFamilies[0]: "IPv5" isn't one of IPv4, IPv6 (of Kubernetes v1.36.3)`,
			},
		},
		"quantities, ports and times": {
			reason: "types with a spelling of their own are read as an API server reads them",
			object: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi, x: lots}}, livenessProbe: {httpGet: {port: http}}, readinessProbe: {httpGet: {port: [1]}}}]}",
			want: []string{
				"spec.containers[0].readinessProbe.httpGet.port: wants an integer or a string, not a list",
				`spec.containers[0].resources.limits[x]: wants a quantity, not the string "lots"`,
			},
		},
		"nulls": {
			reason: "null is nothing, in lists too",
			object: deploymentHead + "spec: {replicas: null, selector: {matchLabels: {a: b}}, template: {metadata: null, spec: {containers: [{name: a, args: null, env: null}], nodeSelector: null}}}\nstatus: {}",
		},
		"a null container": {
			reason: "null is nothing",
			object: deploymentHead + "spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [null]}}}",
			want:   []string{"spec.template.spec.containers[0].name: must be set"},
		},
		"base64": {
			reason: "values of Secrets are in no message",
			object: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: hunter2!, b: 12345}\ntyp: hunter3",
			want:   []string{"data[a]: wants a string in base64, not this string", "data[b]: wants a string in base64, not this number", "typ: unknown field (type?)"},
		},
		"a custom resource": {
			reason: "nothing is known of it",
			object: "apiVersion: example.com/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replica: 1}",
		},
		"of another version": {
			reason: "client-go knows apps/v1beta1, but the API server doesn't: half of an opinion is none",
			object: "apiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: a}\nspec: {replica: 1}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := check(t, tc.object, !tc.update)
			for i := range got { // what the decoders of apimachinery say isn't ours
				if before, _, ok := strings.Cut(got[i], ": quantities must"); ok {
					got[i] = before
				}
				if before, _, ok := strings.Cut(got[i], ": json: "); ok {
					got[i] = before
				}
			}
			require.ElementsMatch(t, tc.want, got, tc.reason)
		})
	}
}

// TestKinds fails if the Go types of a kind that an API server has are missing.
func TestKinds(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	var unknown []string
	for _, kind := range c.table.Kinds {
		if !c.Knows(typeNamed(kind)) {
			unknown = append(unknown, kind)
		}
	}
	require.Equal(t, []string{"apiregistration.k8s.io/v1/APIService"}, unknown, "docs/guide/testing.md names them")
	for _, m := range k8s.Mappings() {
		require.Contains(t, c.table.Kinds, m.Type.String(), "generate the table anew")
	}
}

// TestModels fails if a demand of the table is for a field that no Go type has.
func TestModels(t *testing.T) {
	c, err := New()
	require.NoError(t, err)
	fields := map[string]map[string]reflect.Type{} // of each schema
	var visit func(typ reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(typ.Elem())
		case reflect.Struct:
			model := modelOf(reflect.New(typ).Elem())
			if model == "" || fields[model] != nil {
				return
			}
			fields[model] = gotype.Fields(typ)
			for _, field := range fields[model] {
				visit(field)
			}
		}
	}
	for kind, known := range c.kinds {
		object, err := known.New(typeNamed(kind).GroupVersionKind())
		require.NoError(t, err)
		visit(reflect.TypeOf(object))
	}
	for model, demands := range c.table.Models {
		if strings.HasPrefix(model, "io.k8s.kube-aggregator.") {
			continue // the one kind that isn't known
		}
		for field, demand := range demands {
			require.Contains(t, fields[model], field, model)
			for _, except := range append(demand.RequiredExcept, demand.EnumExcept...) {
				i := strings.LastIndexByte(except, '.')
				require.Contains(t, fields[except[:i]], except[i+1:], "%s.%s", model, field)
			}
		}
	}
}

// TestTables: a table that is broken, or lacks a kind, says so.
func TestTables(t *testing.T) {
	_, err := newChecker([]byte("{"))
	require.ErrorContains(t, err, "table: ")
	for name, tc := range map[string]struct {
		reason, table string
		knows         bool
	}{
		"a kind is missing":   {"client-go has the Go type, but what else is demanded isn't known", `{"kinds": ["v1/Service"], "models": {}}`, false},
		"a type is missing":   {"nothing can be decoded", `{"kinds": ["example.com/v1/Deployment", "apps/v9/Deployment"], "models": {}}`, false},
		"nothing is demanded": {"the Go types tell enough", `{"kinds": ["apps/v1/Deployment"], "models": {}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newChecker([]byte(tc.table))
			require.NoError(t, err)
			require.Equal(t, tc.knows, c.Knows(k8s.Deployment), tc.reason)
			problems := c.Check(map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replica": 1}}, true)
			require.Equal(t, tc.knows, len(problems) > 0, tc.reason)
			require.False(t, c.Knows(resource.Type{Kind: "Deployment"}))
		})
	}
}

func TestEncode(t *testing.T) {
	table, err := readTable(tableJSON)
	require.NoError(t, err)
	text, err := table.Encode()
	require.NoError(t, err)
	require.True(t, bytes.Equal(tableJSON, text), "the order is the same in every run")
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := newChecker(tableJSON); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c, err := New()
	if err != nil {
		b.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal([]byte(deploymentHead+"spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: nginx, ports: [{containerPort: 80}], env: [{name: A, value: b}]}]}}}"), &object); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if problems := c.Check(object, true); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

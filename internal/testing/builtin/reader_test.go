package builtin

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func treeOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &tree))
	return tree
}

func readerOf(t *testing.T, object map[string]any) *Reader {
	t.Helper()
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	r := NewReader(schema.FromAPIVersionAndKind(apiVersion, kind))
	require.NotNil(t, r)
	return r
}

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, object, want string
		unknown              []string
	}{
		"Default": {
			"what isn't set is set", `{apiVersion: v1, kind: Secret, metadata: {name: a}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: Opaque}`, nil,
		},
		"Set": {
			"what is set stays", `{apiVersion: v1, kind: Secret, metadata: {name: a}, type: x/y, data: {k: ""}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: x/y, data: {k: ""}}`, nil,
		},
		"Moved": {
			"texts become data", `{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {k: b}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: Opaque, data: {k: Yg==}}`, nil,
		},
		"Empty": {
			"an empty map isn't kept", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: v}}, data: {}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: v}}}`, nil,
		},
		"Null": {
			"nor is a null", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: null}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`, nil,
		},
		"Quantity": {
			"a quantity is written in one way", `{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {cpu: 1000m, memory: 1024Mi, pods: 5, x: 0.0001}}}`,
			`{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {cpu: "1", memory: 1Gi, pods: "5", x: 1m}}, status: {}}`, nil,
		},
		"Unknown": {
			"unknown fields go", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, label: {}}, dat: {}, data: {k: v}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}`, []string{`unknown field "metadata.label"`, `unknown field "dat"`},
		},
		"NoMeta": {
			"an object may have no metadata", `{apiVersion: v1, kind: ConfigMap}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {}}`, nil,
		},
		"MetaNumber": {
			"metadata keep their values", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, generation: 3, annotations: {a: "{}"}}}`,
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, generation: 3, annotations: {a: "{}"}}}`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := treeOf(t, tc.object)
			r := readerOf(t, object)
			for range 2 { // the second time it is known
				is, unknown, err := r.Read(object)
				require.NoError(t, err)
				want := treeOf(t, tc.want)
				require.YAMLEq(t, textOf(t, want), textOf(t, is), tc.reason)
				require.Equal(t, tc.unknown, unknown, tc.reason)
				again, unknown, err := r.Read(is)
				require.NoError(t, err)
				require.Equal(t, is, again, "what was read is read as it is")
				require.Empty(t, unknown)
				if data, ok := is["data"].(map[string]any); ok {
					data["changed"] = "Yg==" // belongs to who has it
				}
			}
			require.Equal(t, treeOf(t, tc.object), object, "what is read isn't changed")
		})
	}
}

func textOf(t *testing.T, tree map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(tree)
	require.NoError(t, err)
	return string(text)
}

func TestReadRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ reason, object, says string }{
		"Number": {"a number is no text", `{apiVersion: v1, kind: ConfigMap, data: {k: 1}}`, "data"},
		"Base64": {"data are encoded", `{apiVersion: v1, kind: Secret, data: {k: "?"}}`, "base64"},
		"Meta":   {"labels are texts", `{apiVersion: v1, kind: ConfigMap, metadata: {labels: {a: 1}}}`, "labels"},
	} {
		t.Run(name, func(t *testing.T) {
			object := treeOf(t, tc.object)
			_, _, err := readerOf(t, object).Read(object)
			require.ErrorContains(t, err, tc.says, tc.reason)
		})
	}
}

func TestOtherTypesHaveNoReader(t *testing.T) {
	require.Nil(t, NewReader(schema.FromAPIVersionAndKind("example.com/v1", "Site")))
	require.Nil(t, NewReader(schema.FromAPIVersionAndKind("apps/v9", "Deployment")))
}

// TestReadersForget holds that a Reader doesn't grow with what it reads.
func TestReadersForget(t *testing.T) {
	object := treeOf(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`)
	r := readerOf(t, object)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range maxKnown {
				_, _, err := r.Read(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"n": fmt.Sprint(i, " ", n)}})
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, r.known, maxKnown)
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]string{
		"nginx": "Always", "nginx:latest": "Always", "nginx:1": "IfNotPresent", "host:5000/nginx": "Always", "host:5000/a/nginx:2": "IfNotPresent",
		"nginx@sha256:01": "IfNotPresent", "nginx:latest@sha256:01": "IfNotPresent", "": "Always",
	} {
		require.EqualValues(t, want, pullPolicy(image), image)
	}
}

func TestFrozen(t *testing.T) {
	for name, tc := range map[string]struct{ reason, was, is, want string }{
		"Same":      {"nothing changes", `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}`, `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}`, ""},
		"Scaled":    {"replicas may change", `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 1}}`, `{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 2}}`, ""},
		"Service":   {"a service may not", `{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: a}}`, `{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: b}}`, "spec: Forbidden: "},
		"Selector":  {"nor a selector", `{apiVersion: apps/v1, kind: Deployment, spec: {selector: {matchLabels: {a: b}}}}`, `{apiVersion: apps/v1, kind: Deployment, spec: {selector: {}}}`, "spec.selector: Invalid value: "},
		"Suspended": {"a Job that waits may change", `{apiVersion: batch/v1, kind: Job, spec: {suspend: true}}`, `{apiVersion: batch/v1, kind: Job, spec: {suspend: true, template: {spec: {nodeName: a}}}}`, ""},
		"Running":   {"one that runs may not", `{apiVersion: batch/v1, kind: Job, spec: {}}`, `{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {nodeName: a}}}}`, "spec.template: Invalid value: "},
		"Data":      {"data may change", `{apiVersion: v1, kind: ConfigMap, data: {a: b}}`, `{apiVersion: v1, kind: ConfigMap, data: {a: c}}`, ""},
		"Immutable": {"but for those that say so", `{apiVersion: v1, kind: ConfigMap, immutable: true, data: {a: b}}`, `{apiVersion: v1, kind: ConfigMap, immutable: true, data: {a: c}}`, "data: Forbidden: "},
	} {
		t.Run(name, func(t *testing.T) {
			was := treeOf(t, tc.was)
			r := readerOf(t, was)
			was, _, err := r.Read(was)
			require.NoError(t, err)
			is, _, err := r.Read(treeOf(t, tc.is))
			require.NoError(t, err)
			errs := r.Frozen(was, is)
			if tc.want == "" {
				require.Empty(t, errs, tc.reason)
				return
			}
			require.Len(t, errs, 1, tc.reason)
			require.ErrorContains(t, errs[0], tc.want, tc.reason)
		})
	}
}

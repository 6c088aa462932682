package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	if name := os.Getenv(operatorproc.Variable); name != "" {
		leaver(name).Main()
	}
	testkit.Main(m, testkit.ClusterOptions{ControllerManager: true}, &cluster)
}

// definition is a CustomResourceDefinition with an irregular plural, and braces that
// aren't for Helm.
const definition = `# Made by hand.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mice.example.com}
spec:
  group: example.com
  names: {kind: Mouse, listKind: MouseList, plural: mice, singular: mouse}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, description: "{{ not a template }}", x-kubernetes-preserve-unknown-fields: true}}
`

func mice() config.Operator {
	return config.Operator{
		Name: "mice", Parent: resource.Type{APIVersion: "example.com/v1", Kind: "Mouse"}, CRDs: [][]byte{[]byte(definition)},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.Deployment, Strategy: config.Apply}},
		Related:  []config.Related{{Type: k8s.Secret, Fields: []string{"spec.secret"}}, {Type: k8s.Node}}, FormerChildren: []resource.Type{k8s.Job},
	}
}

// programs are those of the tests.
func programs() map[string]runner.Program {
	specs := func(operators ...config.Operator) (out []runner.Spec) {
		for _, cfg := range operators {
			out = append(out, runner.Spec{Config: cfg, Handler: handler.SyncFunc(nil)})
		}
		return out
	}
	restricted := mice()
	restricted.Namespaces = []string{"one", "two"}
	longest := mice()
	longest.Name = "a." + strings.Repeat("b", 60) + "c" // as long as a label's value
	teams := config.Operator{Name: "3.teams", Parent: k8s.Namespace, Children: []config.Child{{Type: k8s.ResourceQuota, Strategy: config.Replace}}}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/log"}, ResourceNames: []string{"a{{b}}"}, Verbs: []string{"get"}}}
	return map[string]runner.Program{
		"mice":       {Operators: specs(mice()), Rules: rules},
		"restricted": {Operators: specs(restricted), Rules: rules},
		"longest":    {Operators: specs(longest)},
		"teams":      {Operators: specs(teams)},
		"protected":  {Operators: specs(mice()), Options: runner.Options{MetricsSecure: &runner.MetricsSecurity{}}},
		"several":    {Name: "zoo", Operators: specs(mice(), teams)},
	}
}

// manifests runs the subcommand, and returns what it prints.
func manifests(t *testing.T, program string, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	code := programs()[program].Execute(t.Context(), append([]string{"manifests"}, args...), &stdout, &stderr)
	require.Zero(t, code, stderr.String())
	return stdout.String()
}

// An object is one as JSON.
type object = map[string]any

// objects reads YAML documents. CustomResourceDefinitions are left out, and what a chart's
// objects alone have.
func objects(t *testing.T, text string) (out []object) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "---\n") {
		var o object
		require.NoError(t, yaml.Unmarshal([]byte(doc), &o), doc)
		if len(o) == 0 || o["kind"] == "CustomResourceDefinition" {
			continue
		}
		labels, _ := o["metadata"].(object)["labels"].(object)
		for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
			delete(labels, label)
		}
		out = append(out, o)
	}
	return out
}

// render makes the objects of a chart: those of the release and those of its hooks.
func render(t *testing.T, dir, namespace string, values map[string]any) (release, hooks []object, notes string) {
	t.Helper()
	chart, err := loader.LoadDir(dir)
	require.NoError(t, err)
	all, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: "mine", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	require.NoError(t, err)
	files, err := engine.Render(chart, all)
	require.NoError(t, err)
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = text
			continue
		}
		for _, o := range objects(t, text) {
			annotations, _ := o["metadata"].(object)["annotations"].(object)
			if annotations["helm.sh/hook"] != nil {
				hooks = append(hooks, o)
			} else {
				release = append(release, o)
			}
		}
	}
	return release, hooks, notes
}

// values reads values as they are written.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))
	return out
}

const all = "--replicas=3 --env=A=1 --env-from-secret=B=cred/pass --env-from-configmap=C=cm/key --arg=--parent-metrics=3 --arg=--log-level=debug --cpu-limit=2 --memory-request=100Mi " +
	"--parent-roles --network-policy --service-monitor"

// A chart makes with its values what the YAML is with the same flags.
func TestChartsMakeWhatIsPrinted(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, program string
		chart, values   string // the flags that make the chart, and the values of the release
		printed         string // the flags that print the same
	}{
		"AsItComes": {"nothing is said", "mice", "", "", ""},
		"Flags":     {"the flags are the values that the chart comes with", "mice", all, "", all},
		"Values": {
			"values do what flags do", "mice", "", `
image: {repository: r.example.com:5000/other, tag: "2"}
replicas: 3
args: [--parent-metrics=3, --log-level=debug]
env:
- {name: A, value: "1"}
- {name: B, valueFrom: {secretKeyRef: {name: cred, key: pass}}}
- {name: C, valueFrom: {configMapKeyRef: {name: cm, key: key}}}
resources: {limits: {cpu: "2"}, requests: {memory: 100Mi}}
parentRoles: {create: true}
networkPolicy: {enabled: true}
serviceMonitor: {enabled: true}`, all + " --image=r.example.com:5000/other:2",
		},
		"Off": {
			"and undo what flags have done", "mice", all, `
replicas: 1
args: []
env: []
resources: {limits: {cpu: null}, requests: {memory: 64Mi}}
parentRoles: {create: false}
networkPolicy: {enabled: false}
serviceMonitor: {enabled: false}`, "",
		},
		"Namespace":       {"Roles in place of the ClusterRole", "mice", "", "watchNamespace: only", "--namespace=only"},
		"NamespaceOff":    {"and the other way round", "mice", "--namespace=only", `watchNamespace: ""`, ""},
		"NamespaceFlag":   {"it is the value that the chart comes with", "restricted", "--namespace=only", "", "--namespace=only"},
		"Restricted":      {"by the configuration", "restricted", all, "", all},
		"RestrictedMore":  {"the value says more", "restricted", "", "watchNamespace: two", "--namespace=two"},
		"Digest":          {"it holds", "mice", "--image=i@sha256:0000", "", "--image=i@sha256:0000"},
		"ClusterScoped":   {"the parents have no namespace", "teams", all, "", all},
		"Several":         {"one installation", "several", all, "", all},
		"Protected":       {"by a value", "mice", "--service-monitor", "metrics: {secure: true}", "--service-monitor --arg=--metrics-secure"},
		"ProtectedFlag":   {"it is the value that the chart comes with", "mice", "--service-monitor --arg=--metrics-secure=true", "", "--service-monitor --arg=--metrics-secure"},
		"Unprotected":     {"and off again", "mice", "--service-monitor --arg=-metrics-secure", "metrics: {secure: false}", "--service-monitor"},
		"AlwaysProtected": {"by the program", "protected", "", "serviceMonitor: {enabled: true}", "--service-monitor"},
		"NeverProtected":  {"against what the program does by itself", "protected", "", "metrics: {secure: false}", "--arg=--metrics-secure=false"},
		"Window":          {"what it needs comes with its argument", "mice", "--network-policy --arg=--window-bind-address=0.0.0.0:8090", "", "--network-policy --arg=--window-bind-address=0.0.0.0:8090"},
		"LocalWindow":     {"it needs nothing", "mice", "--network-policy", "args: [\"--window-bind-address=:8090\"]", "--network-policy --arg=--window-bind-address=:8090"},
		"NothingIsServed": {"no ports, no probes", "mice", "--arg=--metrics-bind-address=0 --arg=--health-probe-bind-address=0", "", "--arg=--metrics-bind-address=0 --arg=--health-probe-bind-address=0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "chart")
			where := []string{"--image=example.com/i:v1", "--install-namespace=default"}
			written := manifests(t, tc.program, slices.Concat(where, strings.Fields(tc.chart), []string{"-o", "helm", "--output-dir=" + dir})...)
			require.Contains(t, written, dir+"/Chart.yaml\n")

			for _, m := range lint.RunAll(dir, values(t, tc.values), "default").Messages {
				require.Less(t, m.Severity, support.WarningSev, m.Error())
			}
			release, hooks, notes := render(t, dir, "default", values(t, tc.values))
			plain := manifests(t, tc.program, slices.Concat(where, strings.Fields(tc.printed))...)
			require.ElementsMatch(t, objects(t, plain), release, tc.reason)
			require.Contains(t, notes, "rollout status deployment/")
			require.Equal(t, strings.Contains(plain, "metrics-auth"), strings.Contains(notes, "Bind the ClusterRole mice-operator-metrics-reader"))
			require.Equal(t, strings.Contains(plain, "window-auth"), strings.Contains(notes, "Bind the ClusterRole mice-operator-window-viewer"))
			require.NotEmpty(t, hooks)
			dryRun(t, slices.Concat(release, hooks))
			if strings.Contains(plain, "kind: CustomResourceDefinition") {
				text, err := os.ReadFile(dir + "/crds/mice.example.com.yaml")
				require.NoError(t, err)
				require.YAMLEq(t, definition, string(text), "as it was written")
				require.Contains(t, plain, string(text))
			}
		})
	}
}

// Values that YAML or a template would read otherwise, and names as long as they may be, stay what they are.
func TestOddValues(t *testing.T) {
	odd := []string{
		" ", "yes", "No", "null", "~", "1e3", "0x10", "010", "1_000", "12:30:45", "2026-01-01", "=", "<<", "- a", "a: b", "a #b", "*a", "&a", "!!int 1", "%a", "@a", "`a`", "'", `"`, `\`, "{", "}",
		"{{ .Values.image }}", "{{", "}}", "{{- end }}", "{{/*", "{{{ a", "$(A)", "$A", "one\ntwo\n", "\n", "  lead", "trail  ", "\ttab", "é ☃ \U0001F600", "\u2028\u00a0\ufeff", "\x1b[31m\x07\r\b",
		strings.Repeat("long words ", 50), "helm-value-0-x", "a helm-value-1-x b",
	}
	var flags, names []string
	given := []any{}
	for i, value := range odd {
		name := fmt.Sprintf("ODD_%d", i)
		flags, names, given = append(flags, "--env="+name+"="+value), append(names, name), append(given, object{"name": name, "value": value})
	}
	for _, program := range []string{"mice", "longest"} {
		plain := manifests(t, program, append(flags, "--image=example.com/i:1e3", "--install-namespace=default", "--replicas=2", "--parent-roles", "--service-monitor", "--network-policy")...)
		for name, tc := range map[string]struct {
			flags  []string
			values object
		}{
			"Flags":  {flags, nil},
			"Values": {nil, object{"env": given}},
		} {
			t.Run(program+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "chart")
				manifests(t, program, append(tc.flags, "--image=example.com/i:1e3", "-o=helm", "--output-dir="+dir, "--replicas=2", "--parent-roles", "--service-monitor", "--network-policy")...)
				for _, m := range lint.RunAll(dir, tc.values, "default").Messages {
					require.Less(t, m.Severity, support.WarningSev, m.Error())
				}
				release, hooks, _ := render(t, dir, "default", tc.values)
				require.ElementsMatch(t, objects(t, plain), release)
				seen := 0
				for _, o := range slices.Concat(release, hooks) {
					if o["kind"] != "Deployment" && o["kind"] != "Job" {
						continue
					}
					pod := o["spec"].(object)["template"].(object)["spec"].(object)
					env := pod["containers"].([]any)[0].(object)["env"].([]any)
					require.Len(t, env, len(names))
					for i, each := range env {
						value, _ := each.(object)["value"].(string)
						require.Equal(t, odd[i], value, "%s", names[i])
					}
					seen++
				}
				require.Equal(t, 2, seen)
				dryRun(t, slices.Concat(release, hooks))
			})
		}
		dir := filepath.Join(t.TempDir(), "base")
		manifests(t, program, append(flags, "--image=example.com/i:1e3", "--install-namespace=default", "-o=kustomize", "--output-dir="+dir, "--replicas=2", "--parent-roles", "--service-monitor", "--network-policy")...)
		require.ElementsMatch(t, objects(t, plain), objects(t, build(t, dir)))
	}
}

// dryRun asks the API server whether it would take objects. It doesn't know ServiceMonitors.
func dryRun(t *testing.T, all []object) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	for _, name := range []string{"one", "two", "only"} {
		_, err := client.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: object{
			"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name},
		}}, metav1.CreateOptions{})
		require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	}
	for _, o := range all {
		u := &unstructured.Unstructured{Object: o}
		if u.GetKind() == "ServiceMonitor" {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
		_, err := client.Resource(resource).Namespace(u.GetNamespace()).Create(t.Context(), u.DeepCopy(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		require.NoError(t, err, "%s %s", u.GetKind(), u.GetName())
	}
}

// The definitions are applied by the operator on request, with the right to.
func TestInstallCRDs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chart")
	manifests(t, "mice", "--image=i", "-o=helm", "--output-dir="+dir)
	release, _, notes := render(t, dir, "default", values(t, "installCRDs: true"))
	i := slices.IndexFunc(release, func(o object) bool {
		return o["kind"] == "ClusterRole" && o["metadata"].(object)["name"] == "mice-operator-crds"
	})
	require.GreaterOrEqual(t, i, 0)
	require.NotContains(t, notes, "helm show crds")
	text, err := yaml.Marshal(release)
	require.NoError(t, err)
	require.Contains(t, string(text), "- --install-crds=true\n")
	_, _, notes = render(t, dir, "default", nil)
	require.Contains(t, notes, "helm show crds")
}

// The hook runs uninstall as the operators, with the right to delete the parents besides.
func TestDrain(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, program, values string
		args                    []any
		rules                   string
		notes                   string
	}{
		"Parents": {
			"they are deleted", "mice", "", []any{"uninstall", "--yes", "--drain=4m"},
			"[map[apiGroups:[example.com] resources:[mice] verbs:[delete]] map[apiGroups:[batch] resources:[jobs] verbs:[patch]]]", "deletes the parents first",
		},
		"Values": {
			"all of them", "mice", "{watchNamespace: one, drain: {timeout: 1h, keepChildren: true, args: [--x]}}",
			[]any{"uninstall", "--yes", "--drain=1h", "--namespace=one", "--keep-children", "--x"},
			"[map[apiGroups:[example.com] resources:[mice] verbs:[delete]] map[apiGroups:[batch] resources:[jobs] verbs:[patch]]]", "waits 1h at most",
		},
		"BuiltIn": {"Namespaces are nobody's to delete", "teams", "", []any{"uninstall", "--yes", "--drain=4m", "--keep-parents"}, "", "takes the finalizers off"},
		"Off":     {"nothing of the kind", "mice", "drain: {enabled: false}", nil, "", "rollout status"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "chart")
			manifests(t, tc.program, "--image=i", "-o=helm", "--output-dir="+dir)
			_, hooks, notes := render(t, dir, "default", values(t, tc.values))
			require.Contains(t, notes, tc.notes, tc.reason)
			var args []any
			rules := ""
			for _, o := range hooks {
				switch o["kind"] {
				case "Job":
					spec := o["spec"].(object)["template"].(object)["spec"].(object)
					require.NotEqual(t, "default", spec["serviceAccountName"])
					args, _ = spec["containers"].([]any)[0].(object)["args"].([]any)
				case "ClusterRole":
					rules = fmt.Sprint(o["rules"])
				}
			}
			require.Equal(t, tc.args, args, tc.reason)
			require.Equal(t, tc.rules, rules, tc.reason)
		})
	}
}

// A value that can't be meant is refused, and named.
func TestSchemaRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chart")
	manifests(t, "teams", "--image=i", "-o=helm", "--output-dir="+dir)
	chart, err := loader.LoadDir(dir)
	require.NoError(t, err)
	for given, want := range map[string]string{
		"replica: 2": "replica", "replicas: many": "replicas", "image: {tag: 1}": "tag", "image: {pullPolicy: Sometimes}": "pullPolicy",
		"env: [{value: x}]": "name", "watchNamespace: one": "watchNamespace", "drain: {enabled: \"no\"}": "enabled",
		"podLabels: {app.kubernetes.io/name: mine}": "app.kubernetes.io/name", "podAnnotations: {kubectl.kubernetes.io/default-container: mine}": "default-container",
	} {
		_, err := util.ToRenderValues(chart, values(t, given), common.ReleaseOptions{Name: "mine", Namespace: "default"}, nil)
		require.ErrorContains(t, err, want, given)
	}
}

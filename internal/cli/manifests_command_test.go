package cli

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// Several operators have one installation, with the rights that they need together.
func TestManifestsOfSeveral(t *testing.T) {
	everywhere, restricted := sample.Operator(), sample.Operator()
	restricted.Name, restricted.Namespaces = "restricted", []string{"one"}
	restricted.Related = []config.Related{{Type: k8s.Node}, {Type: k8s.Secret}}
	elsewhere := restricted
	elsewhere.Name, elsewhere.Namespaces, elsewhere.Children = "elsewhere", []string{"two", "one"}, nil
	type kindAndName = [2]string
	kinds := func(text string) (out []kindAndName) {
		for doc := range strings.SplitSeq(text, "---\n") {
			var o metav1.PartialObjectMetadata
			require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
			if strings.HasSuffix(o.Kind, "Role") {
				out = append(out, kindAndName{o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")})
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		reason    string
		operators []config.Operator
		want      []kindAndName
	}{
		"Mixed": {
			"the one that works everywhere gives the ClusterRole its name", []config.Operator{everywhere, restricted},
			[]kindAndName{{"ClusterRole", "both-operator"}, {"Role", "one/both-operator"}, {"Role", "elect/both-operator-leader-election"}},
		},
		"Restricted": {
			"only related objects are read everywhere", []config.Operator{restricted, elsewhere},
			[]kindAndName{{"ClusterRole", "both-operator-related"}, {"Role", "one/both-operator"}, {"Role", "two/both-operator"}, {"Role", "elect/both-operator-leader-election"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Program{Name: "both", Defaults: Defaults{MetricsAddress: "0", HealthAddress: ":9", Lease: types.NamespacedName{Namespace: "elect", Name: "turns"}}}
			for _, cfg := range tc.operators {
				p.Operators = append(p.Operators, Operator{Config: cfg})
			}
			var stdout, stderr strings.Builder
			require.Zero(t, p.Do(t.Context(), []string{"manifests", "--image=i"}, &stdout, &stderr), stderr.String())
			got := stdout.String()
			require.Equal(t, tc.want, kinds(got), tc.reason)
			for _, want := range []string{
				"# The operators " + tc.operators[0].Name + ", " + tc.operators[1].Name + ", to be applied once their CustomResourceDefinitions and the namespace both-system are there.\n",
				"- --metrics-bind-address=:8080\n", "- --health-probe-bind-address=:8081\n", "  - turns\n",
			} {
				require.Contains(t, got, want)
			}
			for role := range strings.SplitSeq(got, "---\n") {
				require.LessOrEqual(t, strings.Count(role, "  - configmaps\n"), 1, "one rule for each resource")
			}
		})
	}
	for name, want := range map[string]string{"My_Program": `"My_Program" can't be the name of a Deployment`, strings.Repeat("a", 64): "at most 63"} {
		p := &Program{Name: name, Operators: []Operator{{Config: everywhere}}}
		var stdout, stderr strings.Builder
		require.Equal(t, exitError, p.Do(t.Context(), []string{"manifests", "--image=i"}, &stdout, &stderr))
		require.Contains(t, stderr.String(), want)
		require.Empty(t, stdout.String())
	}
}

// A mistake is named with its flag and its value, and nothing is printed or written.
func TestManifestsMistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(full, "mine"), nil, 0o600))
	out := filepath.Join(dir, "out")
	for name, tc := range map[string]struct {
		reason, args string
		code         int
		want         string
	}{
		"Env":             {"no value", "--env=A", exitUsage, `invalid value "A" for flag -env: not NAME=VALUE`},
		"EnvName":         {"no name", "--env==x", exitUsage, `invalid value "=x" for flag -env`},
		"EnvControl":      {"no YAML", "--env=A=x\x7f", exitUsage, "the character U+007F can't be written in YAML"},
		"EnvLost":         {"the same", "--env=A=x\u0080y", exitUsage, "the character U+0080 can't be written in YAML"},
		"EnvBytes":        {"no text", "--env=A=\xff", exitUsage, "for flag -env: not UTF-8"},
		"EnvTwice":        {"which of them?", "--env=A=1 --env-from-secret=A=s/k", exitError, "--env: the variable A is set twice"},
		"EnvSecret":       {"no key", "--env-from-secret=A=cred", exitUsage, `invalid value "A=cred" for flag -env-from-secret: there is no /`},
		"EnvSecretName":   {"no object", "--env-from-secret=A=Cred/k", exitUsage, `invalid value "A=Cred/k" for flag -env-from-secret`},
		"EnvSecretKey":    {"no key", "--env-from-configmap=A=c/a/b", exitUsage, `invalid value "A=c/a/b" for flag -env-from-configmap`},
		"Quantity":        {"no number", "--cpu-limit=many", exitUsage, `invalid value "many" for flag -cpu-limit: not a quantity`},
		"Negative":        {"less than nothing", "--memory-request=-1Mi", exitUsage, `invalid value "-1Mi" for flag -memory-request: negative`},
		"RequestAbove":    {"the API server would refuse it", "--memory-request=1Gi", exitError, "--memory-request: 1Gi is above the limit 512Mi; set --memory-limit"},
		"Argument":        {"the program would end", "--arg=--nonsense", exitError, "--arg: flag provided but not defined: -nonsense"},
		"ArgumentValue":   {"the same", "--arg=--log-format=xml", exitError, `--arg: --log-format: "xml" is neither`},
		"ArgumentWord":    {"the same", "--arg=plan", exitError, `--arg: unknown argument "plan"`},
		"ArgumentHelp":    {"it would print its help", "--arg=-h", exitError, "--arg: flag: help requested"},
		"ArgumentRights":  {"the rights depend on it", "--arg=--namespace=x", exitError, "say it by --namespace"},
		"ArgumentPort":    {"no number", "--arg=--metrics-bind-address=:http", exitError, "--metrics-bind-address=:http"},
		"WindowClash":     {"one of both fails", "--arg=--window-bind-address=0.0.0.0:8080", exitError, "--arg: --window-bind-address=0.0.0.0:8080 and --metrics-bind-address=:8080 can't"},
		"WindowPort":      {"kubectl port-forward has to know it", "--arg=--window-bind-address=:0", exitError, "--window-bind-address=:0: a Pod needs"},
		"NoMetrics":       {"nothing to scrape", "--arg=--metrics-bind-address=0 --service-monitor", exitError, "--service-monitor: the program serves no metrics"},
		"RulesMissing":    {"no file", "--rules=" + filepath.Join(dir, "none"), exitUsage, "none: no such file"},
		"RulesEmpty":      {"nothing in it", "--rules=" + file("empty", "# later\n"), exitUsage, "empty"},
		"RulesOther":      {"another kind", "--rules=" + file("pod", "{apiVersion: v1, kind: Pod}"), exitUsage, "document 1: v1 Pod is neither a list of rules nor a Role"},
		"RulesNotYAML":    {"no YAML", "--rules=" + file("text", "{"), exitUsage, "for flag -rules: document 1"},
		"RulesField":      {"a field that isn't", "--rules=" + file("typo", "- {apiGroup: [], resources: [pods], verbs: [get]}"), exitUsage, `unknown field "apiGroup"`},
		"RulesVerbs":      {"no verb", "--rules=" + file("verbs", `[{apiGroups: [""], resources: [pods], verbs: [get]}, {apiGroups: [""], resources: [pods]}]`), exitUsage, "rules[1]: verbs is empty"},
		"RulesGroup":      {"no group", "--rules=" + file("group", `[{resources: [pods], verbs: [get]}]`), exitUsage, `rules[0]: apiGroups is empty; the core group is ""`},
		"RulesNowhere":    {"where?", "--rules=" + file("role", `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`), exitUsage, "Role r: it has no namespace"},
		"RulesAggregated": {"unknown", "--rules=" + file("agg", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}, aggregationRule: {}}`), exitUsage, "aggregationRule"},
		"Output":          {"another", "-o json", exitUsage, `invalid value "json" for flag -o: neither yaml nor kustomize nor helm`},
		"ChartVersion":    {"no version", "--chart-version=v1", exitUsage, `invalid value "v1" for flag -chart-version`},
		"NoDirectory":     {"where?", "-o helm", exitError, "-o helm: it makes several files; say by --output-dir where"},
		"Full":            {"somebody's", "-o kustomize --output-dir=" + full, exitError, "full isn't empty"},
		"File":            {"no directory", "-o kustomize --output-dir=" + file("plain", ""), exitError, "plain"},
	} {
		t.Run(name, func(t *testing.T) {
			before := manifestsTree(t, dir)
			args := append([]string{"manifests", "--image=i"}, strings.Fields(tc.args)...)
			if !strings.Contains(tc.args, "-o") {
				args = append(args, "-o=helm", "--output-dir="+out)
			}
			var stdout, stderr strings.Builder
			require.Equal(t, tc.code, sampleProgram().Do(t.Context(), args, &stdout, &stderr), tc.reason)
			require.Contains(t, stderr.String(), tc.want, tc.reason)
			require.Empty(t, stdout.String())
			require.Equal(t, before, manifestsTree(t, dir), "nothing is written")
		})
	}
}

// manifestsTree returns the paths below a directory.
func manifestsTree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		paths = append(paths, path)
		return err
	}))
	return paths
}

// Files are written to a new directory, or to an empty one.
func TestManifestsFiles(t *testing.T) {
	dir := t.TempDir()
	for output, want := range map[string][]string{
		"yaml":      {"deployment.yaml", "rights.yaml", "service-account.yaml"},
		"kustomize": {"deployment.yaml", "kustomization.yaml"},
		"helm":      {"Chart.yaml", "values.yaml", "values.schema.json", "templates/deployment.yaml", "templates/drain.yaml", "templates/NOTES.txt"},
	} {
		for _, into := range []string{filepath.Join(dir, output, "new", "deep"), t.TempDir()} {
			var stdout, stderr strings.Builder
			require.Zero(t, sampleProgram().Do(t.Context(), []string{"manifests", "--image=i", "-o=" + output, "--output-dir=" + into}, &stdout, &stderr), stderr.String())
			for _, name := range want {
				require.FileExists(t, filepath.Join(into, name))
				require.Contains(t, stdout.String(), into+"/"+name+"\n")
			}
			entries, err := os.ReadDir(filepath.Dir(into))
			require.NoError(t, err)
			for _, entry := range entries {
				require.False(t, strings.HasPrefix(entry.Name(), "."), "nothing else is left: %s", entry.Name())
			}
		}
	}
}

// The program's own flags are arguments, too, and its rules are granted where it works.
func TestManifestsOfProgram(t *testing.T) {
	p := sampleProgram()
	p.Flags = func(fs *flag.FlagSet) { fs.Int("size", 1, "") }
	p.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}}}
	var stdout, stderr strings.Builder
	require.Zero(t, p.Do(t.Context(), []string{"manifests", "--image=i", "--arg=--size=3", "--arg=--health-probe-bind-address=:9"}, &stdout, &stderr), stderr.String())
	require.Contains(t, stdout.String(), "- --size=3\n")
	require.Contains(t, stdout.String(), "- containerPort: 9\n")
	require.Contains(t, stdout.String(), "- pods/exec\n")
	require.NotContains(t, stdout.String(), "tokenreviews")
	stdout.Reset()
	require.Zero(t, p.Do(t.Context(), []string{"manifests", "--image=i", "--service-monitor", "--arg=--metrics-secure"}, &stdout, &stderr), stderr.String())
	for _, text := range []string{"- tokenreviews\n", "- subjectaccessreviews\n", "- nonResourceURLs:\n  - /metrics\n", "scheme: https\n", "- --metrics-secure=true\n"} {
		require.Contains(t, stdout.String(), text)
	}
	stdout.Reset()
	require.Zero(t, p.Do(t.Context(), []string{"manifests", "--image=i", "--network-policy", "--arg=--window-bind-address=:8090"}, &stdout, &stderr), stderr.String())
	require.Contains(t, stdout.String(), "- --window-bind-address=:8090\n")
	for _, text := range []string{"containerPort: 8090", "name: window", "port: window", "-window-viewer", "tokenreviews"} {
		require.NotContains(t, stdout.String(), text, "kubectl port-forward needs none of it")
	}
	stdout.Reset()
	require.Zero(t, p.Do(t.Context(), []string{"manifests", "--image=i", "--network-policy", "--arg=--window-bind-address=0.0.0.0:8090"}, &stdout, &stderr), stderr.String())
	for _, text := range []string{
		"- --window-bind-address=0.0.0.0:8090\n", "- containerPort: 8090\n          name: window\n", "- port: window\n", "- tokenreviews\n", "- subjectaccessreviews\n",
		"name: hello-operator-window-viewer\nrules:\n- nonResourceURLs:\n  - /window/*\n  verbs:\n  - get\n",
	} {
		require.Contains(t, stdout.String(), text)
	}
	require.NotContains(t, stdout.String(), "/metrics", "they are open as before")
	stdout.Reset()
	require.Equal(t, exitError, p.Do(t.Context(), []string{"manifests", "--image=i", "--arg=--size=large"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), `--arg: invalid value "large" for flag -size`)
	p.Rules[0].Verbs = nil
	require.Equal(t, exitError, p.Do(t.Context(), []string{"manifests", "--image=i"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "runner.Program: Rules: rules[0]: verbs is empty")
	require.Empty(t, stdout.String())
}

// Replicas that share the parents need other rights to Leases.
func TestManifests_Shards(t *testing.T) {
	verbs := func(args ...string) []string {
		p := &Program{Name: "op", Operators: []Operator{{Config: config.Operator{Name: "op", Parent: sample.ParentType()}}}}
		var stdout, stderr strings.Builder
		require.Zero(t, p.Do(t.Context(), append([]string{"manifests", "--image=i"}, args...), &stdout, &stderr), stderr.String())
		var out []string
		for doc := range strings.SplitSeq(stdout.String(), "---\n") {
			var role rbacv1.Role
			require.NoError(t, yaml.Unmarshal([]byte(doc), &role))
			for _, rule := range role.Rules {
				if slices.Contains(rule.Resources, "leases") {
					out = append(out, strings.Join(append(rule.Verbs, rule.ResourceNames...), " "))
				}
			}
		}
		return out
	}
	require.Equal(t, []string{"create", "get update op"}, verbs())
	require.Equal(t, []string{"get list create update delete"}, verbs("--replicas=4", "--arg=--shards=8"))
}

package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
)

// sampleProgram returns a program with the sample operator, which can't be run.
func sampleProgram() *Program {
	return &Program{Operators: []Operator{{Config: sample.Operator()}}}
}

func TestCommandLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	for name, tc := range map[string]struct {
		reason         string
		args           string
		code           int
		stdout, stderr string // what they contain; "": nothing at all
	}{
		"Help":               {"of the whole", "--help", 0, "release-finalizers  take the operator's finalizers off every parent\n", ""},
		"HelpShort":          {"the same", "-h", 0, "-kubeconfig", ""},
		"HelpOfRun":          {"its own flags", "run --help", 0, "-max-concurrent-syncs", ""},
		"HelpOfPlan":         {"what the exit codes mean", "plan --help", 0, "Exit code: 0 if there is nothing to do", ""},
		"HelpOfManifests":    {"its own flags", "manifests --help", 0, "-install-namespace", ""},
		"HelpOfRelease":      {"what to do before", "release-finalizers --help", 0, "Stop the operator first", ""},
		"HelpOfUninstall":    {"what it waits for", "uninstall --help", 0, "waits until they and their children are gone", ""},
		"UninstallNowhere":   {"as for run", "uninstall --kubeconfig=" + missing, 1, "", missing},
		"UninstallArgument":  {"a namespace is a flag", "uninstall shop", 2, "", `unknown argument "shop"`},
		"UninstallDrain":     {"a duration", "uninstall --drain=5", 2, "", "invalid value \"5\" for flag -drain"},
		"DevDryRun":          {"a dry run takes no lease", "run --dev --dry-run", 2, "", "--dev and --dry-run contradict each other"},
		"DevAlone":           {"two would write", "run --dev --leader-elect=false", 2, "", "--dev and --leader-elect=false contradict each other"},
		"DevShards":          {"the process has all parents", "run --dev --shards=4", 2, "", "--dev and --shards contradict each other"},
		"Shards":             {"those that there can be", "run --shards=6", 2, "", "--shards: 6 is no number of shards; it must be a power of two up to 64"},
		"ShardsArgument":     {"as the Pod would refuse it", "manifests --arg=--shards=100", 1, "", "manifests: --arg: --shards: 100 is no number of shards"},
		"UnknownSubcommand":  {"and what there is", "destroy", 2, "", `hello: unknown subcommand "destroy"`},
		"UnknownFlag":        {"and which there are", "--nonsense", 2, "", "flag provided but not defined: -nonsense"},
		"FlagOfAnother":      {"a flag belongs to its subcommand", "plan --image=x", 2, "", "flag provided but not defined: -image"},
		"Argument":           {"there are none", "plan everything", 2, "", `unknown argument "everything"`},
		"SubcommandLast":     {"it says what to do", "--namespace=x plan", 2, "", `unknown argument "plan"; a subcommand is the first argument, before the flags`},
		"LogFormat":          {"those that there are", "run --log-format=xml", 2, "", `--log-format: "xml" is neither text nor json`},
		"Output":             {"those that there are", "plan -o yaml", 2, "", "none of text, json, github, markdown"},
		"Replicas":           {"a number", "manifests --replicas=-1", 2, "", "not a number of Pods"},
		"InstallNamespace":   {"a namespace", "manifests --install-namespace=a/b", 2, "", "install-namespace"},
		"Namespace":          {"a namespace", "manifests --namespace=A_B", 2, "", `--namespace: "A_B": `},
		"NamespaceOfRun":     {"the same", "run --namespace=a,b", 2, "", `--namespace: "a,b": `},
		"Image":              {"what a container runtime takes", "manifests --image=é", 2, "", `for flag -image: not an image such as`},
		"ImageEmpty":         {"a variable that isn't set", "manifests --image=", 2, "", `for flag -image: not an image such as`},
		"RunUnreachable":     {"nothing to talk to", "--kubeconfig=" + missing, 1, "", missing},
		"PlanUnreachable":    {"its own exit code", "plan --kubeconfig=" + missing, 2, "", missing},
		"ReleaseUnreachable": {"as for run", "release-finalizers --kubeconfig=" + missing, 1, "", missing},
		"Manifests":          {"needs no API server", "manifests --image=i --kubeconfig=" + missing, 0, "namespace: hello-system", ""},
		"ManifestsNoImage":   {"one can still apply it", "manifests", 0, "image: hello:latest", "name it by --image"},
		"ManifestsOptions": {
			"all at once", "manifests --image=i --install-namespace=inst --replicas=3 --service-monitor", 0, "replicas: 3", "",
		},
		"ManifestsNamespace": {"the flag restricts the operator, installed too", "manifests --image=i --namespace=one", 0, "- --namespace=one", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := sampleProgram().Do(t.Context(), strings.Fields(tc.args), &stdout, &stderr)
			require.Equal(t, tc.code, code, "%s: %s", tc.reason, stderr.String())
			for said, want := range map[*strings.Builder]string{&stdout: tc.stdout, &stderr: tc.stderr} {
				require.Contains(t, said.String(), want, tc.reason)
				if want == "" {
					require.Empty(t, said.String(), tc.reason)
				}
			}
		})
	}
}

package manifests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// An instruction is a line of a Dockerfile, with what continues it.
type instruction struct{ name, args string }

// readDockerfile returns the instructions of each stage.
func readDockerfile(t *testing.T, path string) (stages [][]instruction) {
	t.Helper()
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "ARG", "ENV", "LABEL", "EXPOSE"}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		require.Contains(t, known, name, "an instruction that may be in it, in capitals")
		require.NotEmpty(t, args, line)
		if name == "FROM" {
			stages = append(stages, nil)
		}
		require.NotEmpty(t, stages, "FROM comes first: %s", line)
		last := len(stages) - 1
		stages[last] = append(stages[last], instruction{name, strings.TrimSpace(args)})
	}
	return stages
}

// argsOf returns the arguments of each instruction of this name.
func argsOf(stage []instruction, name string) []string {
	var out []string
	for _, i := range stage {
		if i.name == name {
			out = append(out, i.args)
		}
	}
	return out
}

// There is no container engine here, so the Dockerfile isn't built; what it
// would do is checked step by step: go is asked what its build command would run.
func TestDockerfile(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	stages := readDockerfile(t, filepath.Join(root, "examples/echoserver/Dockerfile"))
	require.Len(t, stages, 2, "one that builds, one that is shipped")
	build, shipped := stages[0], stages[1]

	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	require.Equal(t, []string{"golang:" + string(version[1]) + " AS build"}, argsOf(build, "FROM"), "the Go that go.mod asks for")
	for _, line := range argsOf(build, "COPY") {
		fields := strings.Fields(line)
		for _, source := range fields[:len(fields)-1] {
			_, err := os.Stat(filepath.Join(root, source))
			require.NoError(t, err, "COPY %s", line)
		}
	}
	commands := argsOf(build, "RUN")
	command := commands[len(commands)-1]
	require.Contains(t, command, "CGO_ENABLED=0 ", "the image has no C library")
	require.Contains(t, command, "-o /operator ")
	require.Contains(t, command, "go build ")
	cmd := exec.Command("sh", "-c", strings.Replace(command, "go build ", "go build -n ", 1)) // for real it takes minutes
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))

	base := argsOf(shipped, "FROM")[0]
	require.True(t, strings.HasPrefix(base, "gcr.io/distroless/static-") && strings.HasSuffix(base, ":nonroot"), base)
	require.Equal(t, []string{"--from=build /operator /operator"}, argsOf(shipped, "COPY"), "nothing but the program")
	require.Empty(t, argsOf(shipped, "RUN"), "there is no shell")
	users := argsOf(shipped, "USER")
	require.Len(t, users, 1)
	for id := range strings.SplitSeq(users[0], ":") {
		n, err := strconv.Atoi(id)
		require.NoError(t, err, "runAsNonRoot needs a number")
		require.Positive(t, n)
	}
	var entrypoint []string
	require.NoError(t, json.Unmarshal([]byte(argsOf(shipped, "ENTRYPOINT")[0]), &entrypoint), "without a shell, it is a list")
	require.Equal(t, []string{"/operator"}, entrypoint, "the Deployment gives arguments only")
}

// The program takes the arguments that the Deployment gives it.
func TestDeploymentArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"--namespace=one"}, {"--replicas=3", "--service-monitor"}} {
		found := false
		for doc := range strings.SplitSeq(manifestsFor(t, "rights", args...), "---\n") {
			var deployment appsv1.Deployment
			require.NoError(t, yaml.Unmarshal([]byte(doc), &deployment))
			if deployment.Kind != "Deployment" {
				continue
			}
			found = true
			container := deployment.Spec.Template.Spec.Containers[0]
			require.Empty(t, container.Command)
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(self, append(slices.Clone(container.Args), "--help")...)
			cmd.Env = append(os.Environ(), asOperator+"=rights")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Contains(t, string(out), "Usage:")
		}
		require.True(t, found)
	}
}

package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/internal/manifests"
)

// manifestsFlags are the values of the flags of the subcommand manifests.
type manifestsFlags struct {
	manifests.Options
	output, dir string
}

// register registers the flags.
func (m *manifestsFlags) register(fs *flag.FlagSet) {
	fs.Func("install-namespace", "namespace to install the operator in (default: its name with -system)", func(value string) error {
		m.Namespace = value
		return complaint(validation.IsDNS1123Label(value))
	})
	fs.Func("image", "image of the operator (default: its name with :latest)", func(value string) error {
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return errors.New("not an image such as registry.example.com/shop/operator:v1")
		}
		m.Image = value
		return nil
	})
	fs.Func("replicas", "how many Pods, of which one leads (default 1)", func(value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 0 {
			return errors.New("not a number of Pods")
		}
		m.Replicas = int(n)
		return nil
	})
	fs.Func("arg", "further argument of the operator, such as --arg=--parent-metrics=100; may be repeated", func(value string) error {
		m.Args = append(m.Args, value)
		return nil
	})
	m.registerEnv(fs)
	m.registerResources(fs)
	fs.Func("rules", "file with further RBAC rules: a list of rules, Roles and ClusterRoles; may be repeated", func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rules, roles, err := manifests.ReadRules(text)
		m.Rules, m.Roles = append(m.Rules, rules...), append(m.Roles, roles...)
		return err
	})
	fs.BoolVar(&m.ParentRoles, "parent-roles", false, "add ClusterRoles to view and to edit the parents, which become part of view, edit and admin")
	fs.BoolVar(&m.NetworkPolicy, "network-policy", false, "add a NetworkPolicy: nothing but the metrics, the probes and a window that asks for a token can be reached")
	fs.BoolVar(&m.ServiceMonitor, "service-monitor", false, "add a Service of the metrics and a ServiceMonitor for the Prometheus Operator")
	m.registerOutput(fs)
}

func (m *manifestsFlags) registerOutput(fs *flag.FlagSet) {
	output := func(value string) error {
		if value != "yaml" && value != "kustomize" && value != "helm" {
			return errors.New("neither yaml nor kustomize nor helm")
		}
		m.output = value
		return nil
	}
	fs.Func("o", "output: yaml, kustomize or helm (default yaml)", output)
	fs.Func("output", "the same as -o", output)
	fs.StringVar(&m.dir, "output-dir", "", "directory to write files to, which must be empty or not be there yet (default: yaml is printed)")
	fs.Func("chart-version", "version of the Helm chart (default 0.1.0)", func(value string) error {
		if !manifests.SemVer().MatchString(value) {
			return errors.New("not a version such as 1.2.3")
		}
		m.ChartVersion = value
		return nil
	})
}

// registerEnv registers the flags of the environment.
func (m *manifestsFlags) registerEnv(fs *flag.FlagSet) {
	variable := func(name string, then func(env *corev1.EnvVar, value string) error) func(string) error {
		return func(text string) error {
			env := corev1.EnvVar{}
			var value string
			var found bool
			env.Name, value, found = strings.Cut(text, "=")
			if !found {
				return errors.New("not " + name)
			}
			if err := complaint(validation.IsEnvVarName(env.Name)); err != nil {
				return err
			}
			if err := then(&env, value); err != nil {
				return err
			}
			m.Env = append(m.Env, env)
			return nil
		}
	}
	fs.Func("env", "environment variable of the operator, NAME=VALUE; may be repeated", variable("NAME=VALUE", func(env *corev1.EnvVar, value string) error {
		env.Value = value
		return yamlHolds(value)
	}))
	fs.Func("env-from-secret", "environment variable from a key of a Secret, NAME=SECRET/KEY; may be repeated", variable("NAME=SECRET/KEY", func(env *corev1.EnvVar, value string) error {
		object, key, err := objectAndKey(value)
		env.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key}}
		return err
	}))
	fs.Func("env-from-configmap", "environment variable from a key of a ConfigMap, NAME=CONFIGMAP/KEY; may be repeated", variable("NAME=CONFIGMAP/KEY", func(env *corev1.EnvVar, value string) error {
		object, key, err := objectAndKey(value)
		env.ValueFrom = &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key}}
		return err
	}))
}

// yamlHolds says which character of a text would be lost in YAML, or would be no YAML.
func yamlHolds(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("not UTF-8")
	}
	for _, r := range text {
		if r == 0 || r >= 0x7f && r <= 0x9f || r == 0xfffe || r == 0xffff {
			return fmt.Errorf("the character %U can't be written in YAML; take the value from a Secret or a ConfigMap", r)
		}
	}
	return nil
}

// objectAndKey returns the parts of "object/key".
func objectAndKey(value string) (object, key string, err error) {
	object, key, found := strings.Cut(value, "/")
	if !found {
		return "", "", errors.New("there is no / between the object's name and the key")
	}
	if err := complaint(validation.IsDNS1123Subdomain(object)); err != nil {
		return "", "", err
	}
	return object, key, complaint(validation.IsConfigMapKey(key))
}

// registerResources registers the flags of what the container may use.
func (m *manifestsFlags) registerResources(fs *flag.FlagSet) {
	for _, r := range []struct {
		flag, usage string
		list        corev1.ResourceList
		name        corev1.ResourceName
	}{
		{"cpu-request", "CPU that the operator is given; 0: none (default 10m)", m.Resources.Requests, corev1.ResourceCPU},
		{"cpu-limit", "CPU that the operator may use (default: no limit)", m.Resources.Limits, corev1.ResourceCPU},
		{"memory-request", "memory that the operator is given; 0: none (default 64Mi)", m.Resources.Requests, corev1.ResourceMemory},
		{"memory-limit", "memory that the operator may use; 0: no limit (default 512Mi)", m.Resources.Limits, corev1.ResourceMemory},
	} {
		fs.Func(r.flag, r.usage, func(value string) error {
			quantity, err := resource.ParseQuantity(value)
			switch {
			case err != nil:
				return errors.New("not a quantity such as 100m or 256Mi")
			case quantity.Sign() < 0:
				return errors.New("negative")
			case quantity.IsZero():
				delete(r.list, r.name)
			default:
				r.list[r.name] = quantity
			}
			return nil
		})
	}
}

// complaint returns the first of the messages of a validation as an error.
func complaint(messages []string) error {
	if len(messages) == 0 {
		return nil
	}
	return errors.New(messages[0])
}

// check returns what is wrong with the flags together.
func (m *manifestsFlags) check() error {
	if m.output != "yaml" && m.dir == "" {
		return fmt.Errorf("-o %s: it makes several files; say by --output-dir where", m.output)
	}
	return nil
}

// readArguments reads what --arg says as the program will: a mistake is told here, and
// not by a Pod that doesn't start. The ports and what the options know are taken from there.
func (c *command) readArguments(o *manifests.Options) error {
	run, f := runSubcommand(), &flags{}
	fs, _, err := c.program.flagSet(&run, f)
	if err != nil {
		return err
	}
	if err := fs.Parse(slices.Concat(o.FixedArgs, o.Args)); err != nil {
		return fmt.Errorf("manifests: --arg: %w", err)
	}
	if err := f.check(fs.Args()); err != nil {
		return fmt.Errorf("manifests: --arg: %w", err)
	}
	if f.namespace != "" {
		return fmt.Errorf("manifests: --arg: --namespace=%s: the rights depend on it; say it by --namespace", f.namespace)
	}
	if o.MetricsPort, err = portOf("metrics-bind-address", f.metricsAddress); err != nil {
		return err
	}
	if o.HealthPort, err = portOf("health-probe-bind-address", f.healthAddress); err != nil {
		return err
	}
	window, err := portOf("window-bind-address", f.windowAddress)
	if err != nil {
		return err
	}
	o.Shards = f.shards
	if f.guardsWindow() { // on a loopback address, kubectl port-forward alone reaches it, and needs no port
		o.WindowPort = window
	}
	// option returns what a flag says that the options know, and what it says by itself.
	option := func(name string) (value, standard bool) {
		f := fs.Lookup(name)
		if f == nil {
			return false, false
		}
		o.Args = slices.DeleteFunc(slices.Clone(o.Args), func(arg string) bool {
			arg, _, _ = strings.Cut(strings.TrimLeft(arg, "-"), "=")
			return arg == name
		})
		return f.Value.String() == "true", f.DefValue == "true"
	}
	if o.MetricsPort != 0 {
		o.MetricsSecure, o.SecuresMetrics = option("metrics-secure")
	}
	o.InstallCRDs, o.InstallsCRDs = option("install-crds")
	return nil
}

// portOf returns the port of an address, 0 if nothing is served.
func portOf(flag, address string) (int32, error) {
	if listenAt(address) == "" {
		return 0, nil
	}
	_, port, err := net.SplitHostPort(address)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil || n == 0 {
		return 0, fmt.Errorf("manifests: --arg: --%s=%s: a Pod needs an address with the number of a port, such as :8080", flag, address)
	}
	return int32(n), nil
}

// write prints the objects, or writes them to the directory.
func (m *manifestsFlags) write(made *manifests.Manifests, stdout io.Writer) error {
	if m.dir == "" {
		text, err := made.YAML()
		if err != nil {
			return err
		}
		_, err = stdout.Write(text)
		return err
	}
	contents := map[string]func() (map[string][]byte, error){"yaml": made.Files, "kustomize": made.Kustomize, "helm": made.Helm}[m.output]
	files, err := contents()
	if err != nil {
		return err
	}
	if err := writeFiles(m.dir, files); err != nil {
		return fmt.Errorf("manifests: --output-dir: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(stdout, "%s/%s\n", strings.TrimRight(m.dir, "/"), path)
	}
	return nil
}

package manifests

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
)

// Helm returns the files of a Helm chart, by their paths. With the values that it comes with
// it makes the objects of YAML, but where they are installed, their labels, and the hook by
// which the parents leave before the operators do.
func (m *Manifests) Helm() (map[string][]byte, error) {
	c := &chart{Manifests: m, files: map[string][]byte{}}
	if err := c.templates(); err != nil {
		return nil, err
	}
	values, schema, err := c.values()
	if err != nil {
		return nil, err
	}
	about, err := c.about()
	if err != nil {
		return nil, err
	}
	for _, d := range m.crds {
		c.files["crds/"+d.Name+".yaml"] = d.text
	}
	c.files["Chart.yaml"], c.files["values.yaml"], c.files["values.schema.json"] = about, values, schema
	c.files["templates/_helpers.tpl"] = []byte(c.helpers())
	c.files["templates/NOTES.txt"] = []byte(c.notes())
	c.files[".helmignore"] = []byte(".git/\n*.tgz\n*.orig\n")
	return c.files, nil
}

// A chart is a Helm chart that is being made.
type chart struct {
	*Manifests
	template

	files map[string][]byte
	// restrictable says whether the operators can be restricted to a namespace.
	restrictable bool
}

// templates makes the files of all parts, wanted or not.
func (c *chart) templates() error {
	o := c.options
	o.Namespace, o.Image = c.inline(".Release.Namespace"), c.inline(fmt.Sprintf("include %q . | quote", c.options.Name+".image"))
	o.WatchNamespace, o.Env, o.Args, o.InstallCRDs, o.MetricsSecure = "", nil, nil, o.InstallsCRDs, o.SecuresMetrics
	in := newInstallation(o, c.crds)
	parts, _, err := in.parts(c.configs)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.name == "rights-crds" && len(c.crds) == 0 || p.name == "rights-metrics" && c.options.MetricsPort == 0 || p.name == "rights-window" && c.options.WindowPort == 0 {
			continue
		}
		text, err := c.part(p)
		if err != nil {
			return err
		}
		if p.name == "rights" {
			if text, err = c.rightsByNamespace(in, text); err != nil {
				return err
			}
		}
		if p.value != "" {
			text = "{{- if " + p.value + " }}\n" + text + "{{- end }}\n"
		}
		c.files["templates/"+p.name+".yaml"] = []byte(text)
	}
	text, err := c.part(part{objects: in.drain(c, c.configs)})
	c.files["templates/drain.yaml"] = []byte("{{- if .Values.drain.enabled }}\n" + text + "{{- end }}\n")
	return err
}

// rightsByNamespace returns the template of the rights: all is that without a value
// watchNamespace. Operators that can't be restricted have no such value.
func (c *chart) rightsByNamespace(in *installation, all string) (string, error) {
	configs := restricted(c.configs, c.inline(".Values.watchNamespace"))
	parts, _, err := in.parts(configs)
	if err != nil {
		return all, nil //nolint:nilerr // the parents have no namespace: it isn't offered
	}
	c.restrictable = true
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == "rights" })
	one, err := c.part(parts[i])
	if err != nil {
		return "", err
	}
	return "{{- if .Values.watchNamespace }}\n" + one + "{{- else }}\n" + all + "{{- end }}\n", nil
}

// part returns the template of a part's objects.
func (c *chart) part(p part) (string, error) {
	var docs []string
	for _, object := range p.objects {
		fields, err := fieldsOf(object)
		if err != nil {
			return "", fmt.Errorf("manifests: %T: %w", object, err)
		}
		c.label(fields)
		switch fields["kind"] {
		case "Deployment":
			c.deployment(fields)
		case "Job":
			c.job(fields)
		case "ServiceAccount":
			at(fields, "metadata")["annotations"] = c.optional("with .Values.serviceAccount.annotations")
		case "NetworkPolicy":
			c.networkPolicy(fields)
		case "ServiceMonitor":
			if err := c.monitor(fields); err != nil {
				return "", err
			}
		}
		text, err := c.render(fields)
		if err != nil {
			return "", err
		}
		docs = append(docs, text)
	}
	return strings.Join(docs, "---\n"), nil
}

// label adds the labels of a chart's objects.
func (c *chart) label(fields map[string]any) {
	labels := at(fields, "metadata", "labels")
	labels["app.kubernetes.io/instance"] = c.inline(".Release.Name")
	labels["app.kubernetes.io/managed-by"] = c.inline(".Release.Service")
	labels["helm.sh/chart"] = c.inline(`printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-"`)
}

// deployment puts the values into a Deployment.
func (c *chart) deployment(fields map[string]any) {
	spec := at(fields, "spec")
	spec["replicas"] = c.inline(".Values.replicas")
	meta, pod := at(spec, "template", "metadata"), at(spec, "template", "spec")
	at(meta, "labels")[c.optional("with .Values.podLabels")] = ""
	at(meta, "annotations")[c.optional("with .Values.podAnnotations")] = ""
	spread, _ := yaml.Marshal([]any{map[string]any{ // these can be encoded
		"labelSelector": map[string]any{"matchLabels": at(spec, "selector", "matchLabels")},
		"maxSkew":       1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
	}})
	pod["topologySpreadConstraints"] = c.guarded("if gt (int .Values.replicas) 1", strings.TrimSuffix(string(spread), "\n"))
	c.pod(pod)
	main := container(pod)
	args := main["args"].([]any) //nolint:forcetypeassert // this package makes it
	if c.restrictable {
		args = slices.Insert(args, 1, any(c.guarded("with .Values.watchNamespace", "- --namespace={{ . }}")))
	}
	if c.options.MetricsPort != 0 {
		args = append(args, c.flag("metrics-secure", ".Values.metrics.secure", c.options.SecuresMetrics))
	}
	if len(c.crds) > 0 {
		args = append(args, c.flag("install-crds", ".Values.installCRDs", c.options.InstallsCRDs))
	}
	main["args"] = append(args, c.optional("with .Values.args"))
	main["resources"] = c.optional("with .Values.resources")
}

// flag returns an argument that is there where a value isn't what the program does by itself.
func (c *chart) flag(name, value string, byItself bool) string {
	condition := "if " + value
	if byItself {
		condition = "if not " + value
	}
	return c.guarded(condition, fmt.Sprintf("- --%s=%v", name, !byItself))
}

// job puts the values into the Job of the hook.
func (c *chart) job(fields map[string]any) {
	pod := at(fields, "spec", "template", "spec")
	c.pod(pod)
	main := container(pod)
	args := main["args"].([]any) //nolint:forcetypeassert // this package makes it
	if c.restrictable {
		args = append(args, c.guarded("with .Values.watchNamespace", "- --namespace={{ . }}"))
	}
	main["args"] = append(args, c.guarded("if .Values.drain.keepChildren", "- --keep-children"), c.optional("with .Values.drain.args"))
	main["resources"] = c.optional("with .Values.resources")
}

// pod puts the values into the spec of a Pod that every Pod of the chart has.
func (c *chart) pod(pod map[string]any) {
	for _, name := range []string{"imagePullSecrets", "nodeSelector", "tolerations", "affinity"} {
		pod[name] = c.optional("with .Values." + name)
	}
	main := container(pod)
	main["env"] = c.optional("with .Values.env")
	main["imagePullPolicy"] = c.optional("with .Values.image.pullPolicy")
}

// networkPolicy puts who may ask for the metrics, and for the window, into a NetworkPolicy.
func (c *chart) networkPolicy(fields map[string]any) {
	rules, _ := at(fields, "spec")["ingress"].([]any)
	for _, rule := range rules {
		rule := rule.(map[string]any) //nolint:forcetypeassert // this package makes it
		if rule["from"] == nil {
			continue
		}
		value := "metricsFrom"
		if port := rule["ports"].([]any)[0].(map[string]any)["port"]; port == "window" { //nolint:forcetypeassert // this package makes it
			value = "windowFrom"
		}
		rule["from"] = c.inline("toYaml .Values.networkPolicy." + value + " | nindent 4")
	}
}

// monitor puts into a ServiceMonitor how the metrics are scraped where they are protected,
// and where they aren't.
func (c *chart) monitor(fields map[string]any) error {
	plain, err := yaml.Marshal(map[string]any{"endpoints": endpoints(false)})
	if err != nil {
		return err
	}
	secure, err := yaml.Marshal(map[string]any{"endpoints": endpoints(true)})
	if err != nil {
		return err
	}
	spec := at(fields, "spec")
	delete(spec, "endpoints")
	spec[c.guarded("if .Values.metrics.secure", string(secure)+"{{- else }}\n"+strings.TrimSuffix(string(plain), "\n"))] = ""
	return nil
}

// container returns the only container of a Pod.
func container(pod map[string]any) map[string]any {
	return pod["containers"].([]any)[0].(map[string]any) //nolint:forcetypeassert // this package makes it
}

// at returns the object at a path, which is made where it isn't.
func at(fields map[string]any, path ...string) map[string]any {
	for _, name := range path {
		inner, ok := fields[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			fields[name] = inner
		}
		fields = inner
	}
	return fields
}

// about returns the Chart.yaml.
func (c *chart) about() ([]byte, error) {
	return yaml.Marshal(map[string]any{
		"apiVersion": "v2", "type": "application", "name": c.options.Name, "version": c.options.ChartVersion,
		"appVersion": appVersion(c.options), "description": description(c.configs),
	})
}

// appVersion is the image's tag, where it has one.
func appVersion(o Options) string {
	if _, tag, _ := splitImage(o.Image); tag != "" {
		return tag
	}
	return o.ChartVersion
}

func description(operators []config.Operator) string {
	var parents []string
	for _, cfg := range operators {
		if !slices.Contains(parents, cfg.Parent.String()) {
			parents = append(parents, cfg.Parent.String())
		}
	}
	if len(operators) == 1 {
		return fmt.Sprintf("The operator %s of %s", operators[0].Name, parents[0])
	}
	return fmt.Sprintf("%d operators of %s", len(operators), strings.Join(parents, ", "))
}

// splitImage returns the parts of an image's name. Each but the first may be empty.
func splitImage(image string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:i], repository[i+1:]
	}
	return repository, tag, digest
}

// helpers returns the named templates.
func (c *chart) helpers() string {
	return fmt.Sprintf(`{{- define %q -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}
`, c.options.Name+".image")
}

// notes returns what Helm says after an installation.
func (c *chart) notes() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s runs in the namespace {{ .Release.Namespace }}:

  kubectl -n {{ .Release.Namespace }} rollout status deployment/%s
  kubectl -n {{ .Release.Namespace }} logs deployment/%[2]s
`, literal(description(c.configs)), c.options.Name)
	if len(c.crds) > 0 {
		fmt.Fprintf(&b, `
{{- if not .Values.installCRDs }}

Helm creates the CustomResourceDefinitions that the chart has, and never changes them. Before an upgrade:

  helm show crds CHART | kubectl apply --server-side -f -
{{- end }}
`)
	}
	if c.options.MetricsPort != 0 {
		fmt.Fprintf(&b, `
{{- if .Values.metrics.secure }}

The metrics are for those who may get them. Bind the ClusterRole %s to the ServiceAccount of your Prometheus.
{{- end }}
`, newInstallation(c.options, c.crds).metricsReader())
	}
	if c.options.WindowPort != 0 {
		fmt.Fprintf(&b, `
The window is for those who may look at it. Bind the ClusterRole %s to them.
`, newInstallation(c.options, c.crds).windowViewer())
	}
	b.WriteString(`{{- if .Values.drain.enabled }}

helm uninstall`)
	if keepsParents(c.configs) {
		b.WriteString(" takes the finalizers off the parents, which stay,")
	} else {
		b.WriteString(" deletes the parents first, all of them,")
	}
	b.WriteString(` and waits {{ .Values.drain.timeout }} at most until that is done.
It does nothing of the kind with --no-hooks, or where the value drain.enabled is false.
{{- end }}
`)
	return b.String()
}

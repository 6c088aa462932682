package manifests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// A value is one that a chart takes.
type value struct {
	name, comment string
	standard      any            // what it is if nothing else is said
	schema        map[string]any // of JSON
	inner         []value        // of an object with these fields alone
}

// Schemas of values.
func textSchema() map[string]any { return map[string]any{"type": "string"} }
func boolSchema() map[string]any { return map[string]any{"type": "boolean"} }
func mapSchema() map[string]any  { return map[string]any{"type": "object"} }
func textMapSchema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": textSchema()}
}

// furtherSchema is that of texts beside those that the chart has set itself.
func furtherSchema(own ...string) map[string]any {
	schema := textMapSchema()
	schema["propertyNames"] = map[string]any{"not": map[string]any{"enum": own}}
	return schema
}

func listSchema(item map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": item}
}

// values returns the values.yaml and the values.schema.json.
func (c *chart) values() (text, schema []byte, err error) {
	all := c.list()
	var out bytes.Buffer
	if err := writeValues(&out, all, ""); err != nil {
		return nil, nil, err
	}
	fields := objectSchema(all)
	fields["$schema"] = "http://json-schema.org/draft-07/schema#"
	fields["properties"].(map[string]any)["global"] = mapSchema() //nolint:forcetypeassert // objectSchema makes it; "global" is Helm's own
	schema, err = json.MarshalIndent(fields, "", "  ")
	return out.Bytes(), append(schema, '\n'), err
}

// list returns the chart's values in the order of the file.
func (c *chart) list() []value {
	o := &c.options
	repository, tag, digest := splitImage(o.Image)
	out := []value{
		{name: "image", comment: "The image of the operator. A digest holds whatever the tag is.", inner: []value{
			{name: "repository", standard: repository, schema: textSchema()},
			{name: "tag", standard: tag, schema: textSchema()},
			{name: "digest", standard: digest, schema: textSchema()},
			{name: "pullPolicy", standard: "", schema: map[string]any{"enum": []string{"", "Always", "IfNotPresent", "Never"}}},
		}},
		{name: "imagePullSecrets", comment: "Secrets to pull the image with: [{name: …}].", standard: []any{}, schema: listSchema(mapSchema())},
		{name: "replicas", comment: "How many Pods, of which one leads.", standard: o.Replicas, schema: map[string]any{"type": "integer", "minimum": 0}},
	}
	if c.restrictable {
		out = append(out, value{name: "watchNamespace", comment: "The namespace that the operator is restricted to; empty: as it is configured.", standard: o.WatchNamespace, schema: textSchema()})
	}
	out = append(out,
		value{name: "args", comment: "Further arguments of the operator.", standard: nonNil(o.Args), schema: listSchema(textSchema())},
		value{name: "env", comment: "Environment variables of the operator, as a container has them.", standard: nonNil(o.Env), schema: listSchema(map[string]any{"type": "object", "required": []string{"name"}})},
		value{name: "resources", comment: "Requests and limits of the operator.", standard: o.Resources, schema: mapSchema()},
	)
	if len(c.crds) > 0 {
		out = append(out, value{name: "installCRDs", comment: "Whether the operator applies its CustomResourceDefinitions at its start. Helm creates them once, and never changes them.", standard: o.InstallCRDs, schema: boolSchema()})
	}
	if o.MetricsPort != 0 {
		out = append(out, value{name: "metrics", inner: []value{{name: "secure", comment: "Whether the metrics are served by TLS, to those only whom RBAC allows to get them.", standard: o.MetricsSecure, schema: boolSchema()}}})
	}
	return append(out,
		value{name: "serviceAccount", inner: []value{{name: "annotations", comment: "Annotations of the ServiceAccount, such as those that give it a cloud's identity.", standard: map[string]any{}, schema: textMapSchema()}}},
		value{name: "podLabels", comment: "Further labels and annotations of the Pods.", standard: map[string]any{}, schema: furtherSchema(slices.Sorted(maps.Keys(newInstallation(c.options, c.crds).labels))...)},
		value{name: "podAnnotations", standard: map[string]any{}, schema: furtherSchema(defaultContainer)},
		value{name: "nodeSelector", comment: "Where the Pods run.", standard: map[string]any{"kubernetes.io/os": "linux"}, schema: textMapSchema()},
		value{name: "tolerations", standard: []any{}, schema: listSchema(mapSchema())},
		value{name: "affinity", standard: map[string]any{}, schema: mapSchema()},
		value{name: "parentRoles", inner: []value{{name: "create", comment: "Whether to add ClusterRoles for the users of the parents, which become part of view, edit and admin.", standard: o.ParentRoles, schema: boolSchema()}}},
		value{name: "serviceMonitor", inner: []value{{name: "enabled", comment: "Whether to add a Service of the metrics and a ServiceMonitor for the Prometheus Operator.", standard: o.ServiceMonitor, schema: boolSchema()}}},
		value{name: "networkPolicy", inner: policyValues(o)},
		value{name: "drain", comment: "What helm uninstall does first: the program's subcommand uninstall.", inner: []value{
			{name: "enabled", standard: true, schema: boolSchema()},
			{name: "timeout", comment: "How long to wait. The --timeout of helm uninstall has to be longer; it is 5m unless you say so.", standard: "4m", schema: textSchema()},
			{name: "keepChildren", comment: "Whether the children stay, as nobody's.", standard: false, schema: boolSchema()},
			{name: "args", comment: "Further arguments, such as the program's own flags.", standard: []any{}, schema: listSchema(textSchema())},
		}},
	)
}

// policyValues returns the values of the NetworkPolicy.
func policyValues(o *Options) []value {
	from := func(name, what string) value {
		return value{name: name, comment: "Who may ask for " + what + ", as a NetworkPolicy says it; empty: everybody.", standard: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: anyNamespace()}}, schema: listSchema(mapSchema())}
	}
	enabled := value{name: "enabled", comment: "Whether nothing but the metrics and the probes can be reached.", standard: o.NetworkPolicy, schema: boolSchema()}
	if o.WindowPort == 0 {
		return []value{enabled, from("metricsFrom", "the metrics")}
	}
	enabled.comment = "Whether nothing but the metrics, the window and the probes can be reached."
	return []value{enabled, from("metricsFrom", "the metrics"), from("windowFrom", "the window")}
}

// nonNil returns a list that is encoded as one even if it is empty.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// objectSchema returns the schema of an object with these fields and no others.
func objectSchema(values []value) map[string]any {
	properties := map[string]any{}
	for _, v := range values {
		if v.inner != nil {
			v.schema = objectSchema(v.inner)
		}
		properties[v.name] = v.schema
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// writeValues writes values with their comments.
func writeValues(out *bytes.Buffer, values []value, indent string) error {
	for _, v := range values {
		if v.comment != "" {
			fmt.Fprintf(out, "%s# %s\n", indent, v.comment)
		}
		if v.inner != nil {
			fmt.Fprintf(out, "%s%s:\n", indent, v.name)
			if err := writeValues(out, v.inner, indent+"  "); err != nil {
				return err
			}
			continue
		}
		text, err := yaml.Marshal(map[string]any{v.name: v.standard})
		if err != nil {
			return fmt.Errorf("manifests: %s: %w", v.name, err)
		}
		for line := range strings.Lines(string(text)) {
			out.WriteString(indent + line)
		}
	}
	return nil
}

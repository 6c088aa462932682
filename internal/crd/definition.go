package crd

import (
	"cmp"
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
)

const (
	// APIVersion is that of every CustomResourceDefinition.
	APIVersion = "apiextensions.k8s.io/v1"
	// Kind is that of every CustomResourceDefinition.
	Kind = "CustomResourceDefinition"
)

// A Definition is a CustomResourceDefinition. It is immutable.
type Definition struct {
	Name          string // "<Plural>.<Group>"
	Group, Kind   string
	Plural        string
	ClusterScoped bool
	Versions      []Version // at least one

	object map[string]any
}

// A Version is one of the versions of a Definition.
type Version struct {
	Name            string
	Served, Storage bool
	HasStatus       bool           // it has the status subresource
	Schema          map[string]any // the openAPIV3Schema; not to be changed; nil: there is none
}

// Object returns the definition as JSON values, without its status. The caller may
// change the outermost map and that of the metadata, and nothing below.
func (d *Definition) Object() map[string]any {
	out := shallow(d.object)
	out["metadata"] = shallow(mapOf(d.object["metadata"]))
	return out
}

func shallow(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	maps.Copy(out, m)
	return out
}

// Digest tells the definition from others: it is that of all that its author wrote.
func (d *Definition) Digest() string { return jsonvalue.Sum(d.object).String() }

// Version returns a version by its name, nil if there is none.
func (d *Definition) Version(name string) *Version {
	i := slices.IndexFunc(d.Versions, func(v Version) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Versions[i]
}

// Storage returns the version in which objects are stored.
func (d *Definition) Storage() *Version {
	for i := range d.Versions {
		if d.Versions[i].Storage {
			return &d.Versions[i]
		}
	}
	return &Version{}
}

// Of returns a CustomResourceDefinition that an API server has sent. It isn't validated:
// what is missing in it is empty in the Definition.
func Of(object map[string]any) *Definition {
	spec := mapOf(object["spec"])
	names := mapOf(spec["names"])
	d := &Definition{
		Name: textOf(mapOf(object["metadata"])["name"]), Group: textOf(spec["group"]), Kind: textOf(names["kind"]), Plural: textOf(names["plural"]),
		ClusterScoped: spec["scope"] == "Cluster", object: object,
	}
	versions, _ := spec["versions"].([]any)
	for _, item := range versions {
		v := mapOf(item)
		_, hasStatus := mapOf(v["subresources"])["status"]
		served, _ := v["served"].(bool)
		storage, _ := v["storage"].(bool)
		d.Versions = append(d.Versions, Version{
			Name: textOf(v["name"]), Served: served, Storage: storage, HasStatus: hasStatus, Schema: mapOf(mapOf(v["schema"])["openAPIV3Schema"]),
		})
	}
	return d
}

// converts says whether a webhook converts objects between the versions. Otherwise only
// their apiVersion changes.
func (d *Definition) converts() bool {
	return cmp.Or(textOf(mapOf(mapOf(d.object["spec"])["conversion"])["strategy"]), "None") != "None"
}

// closes says whether next takes the installed definition out of the mode of the API v1beta1
// in which fields without a schema are kept everywhere. It does so only by saying it.
func closes(installed, next *Definition) bool {
	const field = "preserveUnknownFields"
	return mapOf(installed.object["spec"])[field] == true && mapOf(next.object["spec"])[field] == false
}

// mapOf returns v as an object, nil if it is none.
func mapOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// textOf returns v as a string, "" if it is none.
func textOf(v any) string {
	s, _ := v.(string)
	return s
}

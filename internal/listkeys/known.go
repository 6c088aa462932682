package listkeys

import "slices"

// A knownList is a keyed list of which more is known than its schema says. Lists
// of custom resources with the same name and the same keys have the same meaning:
// they are parts of built-in kinds, such as the template of a Pod.
type knownList struct {
	field  string
	keys   []string
	beside string // another field of the struct that has the list; "": any struct
	// uniqueNames and soleUnnamed are as in Node.
	uniqueNames, soleUnnamed bool
}

// knownLists are the keyed lists whose order means nothing: the API documents none,
// and what reads the list finds the items by their keys, or takes all of them.
//
//nolint:gochecknoglobals // immutable
var knownLists = []knownList{
	{field: "ports", keys: []string{"port", "protocol"}, uniqueNames: true, soleUnnamed: true}, // of a Service
	{field: "ports", keys: []string{"containerPort", "protocol"}, uniqueNames: true},           // of a container
	{field: "volumeMounts", keys: []string{"mountPath"}},                                       // of a container
	{field: "volumeDevices", keys: []string{"devicePath"}},                                     // of a container
	{field: "claims", keys: []string{"name"}, beside: "requests"},                              // of a container's resources
	{field: "volumes", keys: []string{"name"}, beside: "containers"},                           // of a Pod, as are those below
	{field: "imagePullSecrets", keys: []string{"name"}, beside: "containers"},
	{field: "resourceClaims", keys: []string{"name"}, beside: "containers"},
	{field: "schedulingGates", keys: []string{"name"}, beside: "containers"},
	{field: "hostAliases", keys: []string{"ip"}, beside: "containers"},
	{field: "topologySpreadConstraints", keys: []string{"topologyKey", "whenUnsatisfiable"}},
	{field: "secrets", keys: []string{"name"}, beside: "automountServiceAccountToken"}, // of a ServiceAccount
	{field: "drivers", keys: []string{"name"}},                                         // of a CSINode
	{field: "conditions", keys: []string{"type"}},
	{field: "ownerReferences", keys: []string{"uid"}},
}

// noteKnown completes the nodes of the known lists among a struct's fields. It
// replaces nodes instead of changing them, since nodes may be shared.
func noteKnown(fields map[string]*Node) {
	for _, known := range knownLists {
		list := fields[known.field]
		if list == nil || list.Kind != List || !slices.Equal(list.Keys, known.keys) || known.beside != "" && !has(fields, known.beside) {
			continue
		}
		noted := *list
		noted.AnyOrder, noted.UniqueNames, noted.SoleUnnamed = true, known.uniqueNames, known.soleUnnamed
		fields[known.field] = &noted
	}
}

// has says whether a struct has a field, of whatever schema.
func has(fields map[string]*Node, name string) bool {
	_, ok := fields[name]
	return ok
}

package plan

import (
	"encoding/base64"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// spellOut fills in, in a desired object of a built-in type, the fields that the
// API server derives from other fields. Fields that the API server filled in would
// belong to nobody: they would stay when the desired state drops the field that
// they come from, and would bring that field back. spellOut also takes out what isn't
// for the desired state to say: the rules of a ClusterRole with an aggregationRule,
// which a controller fills in. schema is that of the type, nil if the type isn't
// built in.
func spellOut(t resource.Type, schema *listkeys.Node, desired map[string]any) {
	if t == (resource.Type{APIVersion: "v1", Kind: "Secret"}) {
		storeStringData(desired)
		return
	}
	if t == (resource.Type{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}) && desired["aggregationRule"] != nil {
		delete(desired, "rules")
	}
	if schema != nil {
		spellOutPods(desired, schema)
	}
}

// storeStringData moves the stringData of a Secret, which is write-only, to data. An
// entry that the API server would refuse stays where it is.
func storeStringData(secret map[string]any) {
	plain, ok := secret["stringData"].(map[string]any)
	if !ok {
		return
	}
	if _, ok := secret["data"].(map[string]any); !ok && secret["data"] != nil {
		return
	}
	for name, value := range plain {
		if text, ok := value.(string); ok {
			objectAt(secret, "data")[name] = base64.StdEncoding.EncodeToString([]byte(text))
			delete(plain, name)
		} else if value == nil {
			delete(plain, name)
		}
	}
	if len(plain) == 0 {
		delete(secret, "stringData")
	}
}

// spellOutPods fills in serviceAccount, the alias of serviceAccountName, or the
// other way round, in the spec of a Pod and in templates of Pods. As with the API
// server, serviceAccountName wins where the two differ.
func spellOutPods(of map[string]any, schema *listkeys.Node) {
	if schema.Field("serviceAccountName") != nil && schema.Field("serviceAccount") != nil {
		if name, ok := of["serviceAccountName"].(string); ok && name != "" {
			of["serviceAccount"] = name
		} else if alias, ok := of["serviceAccount"].(string); ok && alias != "" {
			of["serviceAccountName"] = alias
		}
		return
	}
	for _, field := range []string{"spec", "jobTemplate", "template"} {
		if below, ok := of[field].(map[string]any); ok {
			spellOutPods(below, schema.Field(field))
		}
	}
}

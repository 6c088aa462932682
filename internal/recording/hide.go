package recording

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// lastApplied is the annotation in which kubectl keeps a whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// markSuffix ends the name of the annotation in which an operator remembers a desired
// state. Earlier builds put a hash of a Secret's values there. Others keep a whole object
// in an annotation of such a name.
const markSuffix = "/applied"

// A Hider returns what stands for a value that isn't told. It replaces every value,
// whatever the value looks like: one that looks as if it were hidden may be a value.
type Hider func(value string) string

// ByKey hides values behind hashes with a key: equal values behind equal ones. Who
// doesn't know the key can't find out a value by trying, so it must not be kept. The Hider
// may be called concurrently.
func ByKey(key string) Hider {
	return func(value string) string {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(value)) // never fails
		return "hidden:" + hex.EncodeToString(mac.Sum(nil)[:16])
	}
}

// Alike is a Hider that hides all values behind the same text.
func Alike(string) string { return "hidden" }

// Hidden returns an object without what isn't told. In place of it are texts of hide. The
// object isn't modified. Not told are
//
//   - all values of a Secret, wherever in it they are, its mark, and annotations that
//     repeat an object. Its name, labels and type stay, and the names of its values.
//   - all values of a list of Secrets, and of an object that doesn't say its kind
//   - Secrets inside other objects: the items of a List, a manifest in a custom resource
//   - kubectl's last-applied annotation, of any object
//
// Values in base64 stay such values.
func Hidden(object map[string]any, hide Hider) map[string]any {
	if object == nil {
		return nil
	}
	kind, _ := object["kind"].(string)
	if kind == "" || ofSecrets(kind) {
		return hiddenSecret(object, hide)
	}
	return withoutSecrets(object, hide)
}

// ofSecrets says whether objects of a kind are Secrets, or lists of them. A kind that is
// spelled otherwise names nothing that exists, but the values beside it may be a Secret's.
func ofSecrets(kind string) bool {
	return strings.EqualFold(kind, "Secret") || strings.EqualFold(kind, "SecretList")
}

// withoutSecrets returns an object that isn't a Secret without the Secrets inside.
func withoutSecrets(object map[string]any, hide Hider) map[string]any {
	out := make(map[string]any, len(object))
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if key == lastApplied {
			out[key] = hide(fmt.Sprint(object[key]))
			continue
		}
		out[key] = inner(object[key], hide)
	}
	return out
}

// inner returns a value inside an object without the Secrets in it.
func inner(v any, hide Hider) any {
	switch v := v.(type) {
	case map[string]any:
		switch {
		case v == nil:
			return v
		case isWholeSecret(v):
			return hiddenSecret(v, hide)
		}
		return withoutSecrets(v, hide)
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = inner(v[i], hide)
		}
		return out
	}
	return v
}

// isWholeSecret tells a Secret, or a list of them, from what only refers to one.
func isWholeSecret(v map[string]any) bool {
	kind, _ := v["kind"].(string)
	return ofSecrets(kind) && (v["data"] != nil || v["stringData"] != nil || v["items"] != nil)
}

// hiddenSecret returns a Secret without its values.
func hiddenSecret(secret map[string]any, hide Hider) map[string]any {
	out := maps.Clone(secret)
	if meta, ok := out["metadata"]; ok {
		out["metadata"] = hiddenMetadata(meta, hide)
	}
	for _, field := range slices.Sorted(maps.Keys(out)) {
		if field != "metadata" && !isTold(field, out[field]) {
			out[field] = hiddenValues(out[field], field == "data", hide)
		}
	}
	return out
}

// isTold says whether a field of a Secret holds no value of it: only if it is what it is
// in an object of the API server.
func isTold(field string, value any) bool {
	switch value.(type) {
	case string:
		return field == "apiVersion" || field == "kind" || field == "type"
	case bool:
		return field == "immutable"
	}
	return false
}

// hiddenMetadata returns the metadata of a Secret without what isn't told of it.
func hiddenMetadata(v any, hide Hider) any {
	meta, ok := v.(map[string]any)
	if !ok {
		return hiddenValues(v, false, hide)
	}
	out := maps.Clone(meta)
	for _, field := range slices.Sorted(maps.Keys(out)) {
		annotations, ok := out[field].(map[string]any)
		switch {
		case field == "annotations" && ok:
			out[field] = hiddenAnnotations(annotations, hide)
		case !slices.Contains(toldMetadata(), field):
			out[field] = hiddenValues(out[field], false, hide)
		}
	}
	return out
}

// toldMetadata are the fields of an object's metadata but for its annotations.
func toldMetadata() []string {
	return []string{
		"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "ownerReferences", "finalizers", "managedFields",
	}
}

// hiddenAnnotations returns the annotations of a Secret without those that may repeat its
// values.
func hiddenAnnotations(annotations map[string]any, hide Hider) map[string]any {
	out := maps.Clone(annotations)
	for _, name := range slices.Sorted(maps.Keys(out)) {
		text, ok := out[name].(string)
		if !ok || name == lastApplied || strings.HasSuffix(name, markSuffix) || strings.HasPrefix(strings.TrimSpace(text), "{") {
			out[name] = hide(fmt.Sprint(out[name]))
		}
	}
	return out
}

// hiddenValues returns a JSON value in which all but the keys of objects is hidden. Texts
// in base64 stay such texts.
func hiddenValues(v any, inBase64 bool, hide Hider) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out[key] = hiddenValues(v[key], inBase64, hide)
		}
		return out
	case string:
		if raw, err := base64.StdEncoding.DecodeString(v); inBase64 && err == nil {
			return base64.StdEncoding.EncodeToString([]byte(hide(string(raw))))
		}
		return hide(v)
	}
	return hide(fmt.Sprint(v))
}

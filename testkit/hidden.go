package testkit

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
// state. Earlier builds put a hash of a Secret's values there.
const markSuffix = "/applied"

// A hider returns what stands for a value that isn't told. It replaces every value,
// whatever the value looks like: one that looks as if it were hidden may be a value.
type hider func(value string) string

// byKey hides values behind hashes with a key: equal values behind equal ones. Who
// doesn't know the key can't find out a value by trying, so it must not be kept.
func byKey(key string) hider {
	return func(value string) string {
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(value)) // never fails
		return "hidden:" + hex.EncodeToString(mac.Sum(nil)[:16])
	}
}

// byNumber hides values behind numbers, in the order in which they come: equal values
// behind equal ones. It isn't safe for concurrent use.
func byNumber() hider {
	numbers := map[string]int{}
	return func(value string) string {
		if numbers[value] == 0 {
			numbers[value] = len(numbers) + 1
		}
		return fmt.Sprint("hidden:", numbers[value])
	}
}

// byNothing hides all values behind the same text.
func byNothing(string) string { return "hidden" }

// hidden returns an object without what isn't told: the values of a Secret, its mark, and
// in any object an annotation that repeats an object. The names stay. The object isn't
// modified.
func hidden(object map[string]any, hide hider) map[string]any {
	out := maps.Clone(object)
	secret := holdsSecrets(object)
	if meta, ok := out["metadata"].(map[string]any); ok {
		out["metadata"] = hiddenMetadata(meta, secret, hide)
	}
	if !secret {
		return out
	}
	for _, field := range slices.Sorted(maps.Keys(out)) {
		switch field {
		case "apiVersion", "kind", "metadata", "type", "immutable", "keep", "leave", "after", "when": // the last four are childObject's
		default:
			out[field] = hiddenValues(out[field], field == "data", hide)
		}
	}
	return out
}

// hiddenMetadata returns the metadata of an object without what isn't told of it.
func hiddenMetadata(meta map[string]any, secret bool, hide hider) map[string]any {
	annotations, ok := meta["annotations"].(map[string]any)
	if !ok {
		return meta
	}
	meta, annotations = maps.Clone(meta), maps.Clone(annotations)
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if name == lastApplied || secret && strings.HasSuffix(name, markSuffix) {
			annotations[name] = hide(fmt.Sprint(annotations[name]))
		}
	}
	meta["annotations"] = annotations
	return meta
}

// hiddenValues returns a JSON value in which all but the keys of objects is hidden. Texts
// in base64 stay such texts.
func hiddenValues(v any, inBase64 bool, hide hider) any {
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

// holdsSecrets says whether an object is a Secret.
func holdsSecrets(object map[string]any) bool { return typeOf(object).Kind == "Secret" }

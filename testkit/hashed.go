package testkit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
)

// lastApplied is the annotation in which kubectl keeps a whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// hashPrefix begins what stands for a value that isn't told.
const hashPrefix = "sha256:"

// hashed returns an object in which the values of a Secret, and an annotation
// that repeats an object, are replaced by hashes: equal values by equal ones.
// What is a hash already stays. The object is not modified.
func hashed(object map[string]any, salt string) map[string]any {
	out := maps.Clone(object)
	if meta, ok := out["metadata"].(map[string]any); ok {
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			if text, ok := annotations[lastApplied].(string); ok {
				meta, annotations = maps.Clone(meta), maps.Clone(annotations)
				annotations[lastApplied] = hashOf(text, salt)
				meta["annotations"], out["metadata"] = annotations, meta
			}
		}
	}
	if !holdsSecrets(object) {
		return out
	}
	for _, field := range []string{"data", "stringData"} {
		values, ok := out[field].(map[string]any)
		if !ok {
			continue
		}
		values = maps.Clone(values)
		for key, v := range values {
			text, ok := v.(string)
			switch raw, err := base64.StdEncoding.DecodeString(text); {
			case ok && field == "data" && err == nil:
				values[key] = base64.StdEncoding.EncodeToString([]byte(hashOf(string(raw), salt)))
			default:
				if !ok {
					text = fmt.Sprint(v)
				}
				values[key] = hashOf(text, salt)
			}
		}
		out[field] = values
	}
	return out
}

// holdsSecrets says whether an object is a Secret.
func holdsSecrets(object map[string]any) bool { return typeOf(object).Kind == "Secret" }

func hashOf(text, salt string) string {
	if strings.HasPrefix(text, hashPrefix) {
		return text
	}
	mac := hmac.New(sha256.New, []byte(salt))
	mac.Write([]byte(text)) // never fails
	return hashPrefix + hex.EncodeToString(mac.Sum(nil)[:16])
}

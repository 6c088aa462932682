package apierror

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// IsDenial says whether a webhook or a policy has denied a request. They answer with
// codes of their own choice: a denial may look like a conflict, or as if the object
// weren't there. IsDenial returns false for nil.
func IsDenial(err error) bool {
	if status := apierrors.APIStatus(nil); err == nil || !errors.As(err, &status) {
		return false
	}
	text := statusMessage(err)
	return strings.Contains(text, "admission webhook") && strings.Contains(text, "denied the request") ||
		strings.Contains(text, "ValidatingAdmissionPolicy") && strings.Contains(text, "denied request")
}

// IsAllocated says whether an object couldn't be created since another object has a
// port or an IP address that it asks for. The API server answers so with several
// codes. IsAllocated returns false for nil.
func IsAllocated(err error) bool {
	return err != nil && strings.Contains(statusMessage(err), "already allocated")
}

// Collides says whether a refusal speaks of something that exists already, and names
// the object called name. It returns false for nil.
func Collides(err error, name string) bool {
	if err == nil || !strings.Contains(statusMessage(err), "already") {
		return false
	}
	for _, word := range strings.FieldsFunc(statusMessage(err), func(r rune) bool { return strings.ContainsRune(" \t\n\"'`/,;()[]{}=", r) }) {
		if strings.TrimRight(word, ".:!?") == name {
			return true
		}
	}
	return false
}

// A QuotaExceeded is the refusal of an object for which a ResourceQuota has no room.
// The maps have the same keys: the resources of which too little is left.
type QuotaExceeded struct {
	Quota                    string                       // the name of the ResourceQuota
	Requested, Used, Limited map[string]resource.Quantity // by the name of the resource
}

// QuotaOf reads the refusal of an object for which a ResourceQuota has no room. It
// returns false for any other error, and for nil.
func QuotaOf(err error) (QuotaExceeded, bool) {
	if err == nil || !apierrors.IsForbidden(err) {
		return QuotaExceeded{}, false
	}
	words := regexp.MustCompile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`).FindStringSubmatch(statusMessage(err))
	if words == nil {
		return QuotaExceeded{}, false
	}
	q := QuotaExceeded{words[1], quantities(words[2]), quantities(words[3]), quantities(words[4])}
	for name := range q.Requested {
		_, used := q.Used[name]
		_, limited := q.Limited[name]
		if !used || !limited {
			return QuotaExceeded{}, false
		}
	}
	return q, len(q.Requested) > 0
}

// quantities reads a list such as "pods=1,requests.cpu=500m". It leaves out what
// isn't a quantity.
func quantities(list string) map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	for item := range strings.SplitSeq(list, ",") {
		name, text, _ := strings.Cut(item, "=")
		if q, err := resource.ParseQuantity(text); err == nil {
			out[name] = q
		}
	}
	return out
}

package apierror

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A TakenField is a field whose value another object has, by the answer of the API
// server.
type TakenField struct {
	Field   string // such as spec.ports[0].nodePort
	message string // names the value
}

// Mentions says whether the answer names this value. No answer names the empty one.
func (t TakenField) Mentions(value string) bool {
	rest := t.message
	for value != "" {
		before, after, found := strings.Cut(rest, value)
		if !found {
			return false
		}
		rest = after
		if !endsInWord(before) && !beginsWithWord(rest) {
			return true
		}
	}
	return false
}

func endsInWord(text string) bool { return regexp.MustCompile(`[\w.:-]$`).MatchString(text) }

func beginsWithWord(text string) bool { return regexp.MustCompile(`^[\w-]|^[.:]\w`).MatchString(text) }

// TakenFields returns the fields whose values another object has, such as a port
// that is allocated already. It returns none for any other error, and for nil.
func TakenFields(err error) []TakenField {
	var taken []TakenField
	for _, cause := range statusCauses(err) {
		if cause.Field == "" {
			continue
		}
		if cause.Type == metav1.CauseTypeFieldValueDuplicate || strings.Contains(cause.Message, "already allocated") || strings.Contains(cause.Message, "already in use") {
			taken = append(taken, TakenField{Field: cause.Field, message: cause.Message})
		}
	}
	return taken
}

// IsQuotaUsedUp says whether an object was refused for a quota that has room for
// all that is there, and for nothing more. So there is room once an object like it
// has gone. It returns false for nil.
func IsQuotaUsedUp(err error) bool {
	quota, ok := QuotaOf(err)
	if !ok {
		return false
	}
	for name, used := range quota.Used {
		if used.Cmp(quota.Limited[name]) > 0 {
			return false
		}
	}
	return true
}

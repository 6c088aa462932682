package apierror

import (
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A ForbiddenError is a refusal by RBAC, with the rule that would allow the request.
type ForbiddenError struct {
	Err  error  // the API server's answer
	Rule string // as RuleText prints it
}

// Error returns the API server's answer and the rule to add.
func (e *ForbiddenError) Error() string { return e.Err.Error() + "; add the rule " + e.Rule }

// Unwrap returns the API server's answer.
func (e *ForbiddenError) Unwrap() error { return e.Err }

// A Request says what the operator has asked for, in the words of RBAC. What an answer
// says is believed only as far as it agrees with the request.
type Request struct {
	// Verb is RBAC's, such as create. For a server-side apply it is patch.
	Verb        string
	Group       string // of the API; empty: the core group
	Resource    string // plural, such as secrets
	Subresource string // such as status; empty: none
	Name        string // of the object; empty: the request names none, as a create or a list
	Body        []byte // the JSON that was sent; empty: none
	// Applies says that the request is a server-side apply, for which the API server
	// also asks RBAC for the verb create if the object doesn't exist.
	Applies bool
}

// WithRule returns the refusal of a request by RBAC as a *ForbiddenError, and any other
// error as it is. The rule is that of the request. Admission refuses with the same
// status code as RBAC, and any server may write what it likes: unless the answer is
// RBAC's, word for word, about this very request, no rule is named.
func WithRule(err error, r Request) error {
	for _, verb := range r.verbs() {
		if r.lacks(err, verb) {
			return &ForbiddenError{err, RuleText(r.Group, r.path(), verb)}
		}
	}
	return err
}

// verbs returns the verbs that RBAC may be asked for.
func (r *Request) verbs() []string {
	if r.Applies {
		return []string{r.Verb, "create"}
	}
	return []string{r.Verb}
}

// path returns the resource as rules name it, with its subresource.
func (r *Request) path() string {
	if r.Subresource == "" {
		return r.Resource
	}
	return r.Resource + "/" + r.Subresource
}

// lacks says whether err is RBAC's answer that some user may not do this with what was
// asked for.
func (r *Request) lacks(err error, verb string) bool {
	who, ok := strings.CutPrefix(WhyForbidden(err, r.Group, r.Resource), "User ")
	user, quoteErr := strconv.QuotedPrefix(who)
	if !ok || quoteErr != nil {
		return false
	}
	where, ok := strings.CutPrefix(who[len(user):], fmt.Sprintf(" cannot %s resource %q in API group %q ", verb, r.path(), r.Group))
	return ok && (strings.HasPrefix(where, "in the namespace ") || strings.HasPrefix(where, "at the cluster scope"))
}

// WhyForbidden returns why the API server itself forbids a request about a resource, in
// its words, "" if it doesn't. Its answer begins with the resource, and with the name of
// the object if the request has one. So the message of a webhook, or what a policy says,
// can't pass for it. It may quote the object. WhyForbidden returns "" for nil.
func WhyForbidden(err error, group, resource string) string {
	if err == nil || !apierrors.IsForbidden(err) {
		return ""
	}
	rest, ok := strings.CutPrefix(statusMessage(err), schema.GroupResource{Group: group, Resource: resource}.String()+" ")
	if !ok {
		return ""
	}
	if name, err := strconv.QuotedPrefix(rest); err == nil {
		rest = strings.TrimPrefix(rest[len(name):], " ")
	}
	why, _ := strings.CutPrefix(rest, "is forbidden: ")
	if why == rest {
		return ""
	}
	return why
}

// RuleText prints an RBAC rule as YAML on one line. resource may include a
// subresource, as in "pods/status".
func RuleText(group, resource string, verbs ...string) string {
	return fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: ["%s"]}`, group, resource, strings.Join(verbs, `", "`))
}

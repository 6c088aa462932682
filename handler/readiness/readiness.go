package readiness

import (
	"fmt"
	"regexp"

	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roperator/roperator/resource"
)

// A State is how far an object has come towards what its spec asks for.
type State string

// The states of an object.
const (
	// Current: the object is as its spec asks for, as far as its status tells.
	Current State = "Current"
	// InProgress: what reconciles the object isn't done with its newest generation.
	InProgress State = "InProgress"
	// Failed: what reconciles the object has given up, or waits for somebody to act.
	Failed State = "Failed"
	// Terminating: the object is being deleted.
	Terminating State = "Terminating"
	// Unknown: the object's status can't be read.
	Unknown State = "Unknown"
)

// A Readiness is the State of an object, and why it is in that state.
type Readiness struct {
	State State
	// Message is for people. It doesn't name the object. It may quote the message of
	// a condition. It is never empty.
	Message string
}

// Of returns the readiness of an object, by the rules of kstatus. A nil object, which
// isn't there, is Unknown. Of a status that can't be read the message says why.
func Of(r *resource.Resource) (out Readiness) {
	if r == nil {
		return Readiness{Unknown, "no such object"}
	}
	defer func() {
		if v := recover(); v != nil { // kstatus takes it for granted that the API server has validated a Pod
			out = Readiness{Unknown, fmt.Sprintf("the status of the %s can't be read", r.Type().Kind)}
		}
	}()
	if r.IsDeleting() {
		return Readiness{Terminating, "being deleted"}
	}
	result, err := status.Compute(essence(r))
	if err != nil {
		return Readiness{Unknown, err.Error()}
	}
	if result.Message == "" {
		return Readiness{State(result.Status), "its conditions don't say more"}
	}
	return Readiness{State(result.Status), inWords(result.Message)}
}

// essence returns that part of an object which kstatus looks at. To decode all of it
// would cost more than the rest of Of.
func essence(r *resource.Resource) *unstructured.Unstructured {
	meta := map[string]any{"name": r.Name()}
	if g := r.Generation(); g != 0 {
		meta["generation"] = g
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": r.Type().APIVersion, "kind": r.Type().Kind, "metadata": meta,
	}}
	if live, ok := r.Field("status"); ok {
		u.Object["status"] = live
	}
	if status.GetLegacyConditionsFn(u) == nil {
		return u // only kstatus' rules for built-in kinds read more
	}
	if spec, ok := r.Field("spec"); ok {
		u.Object["spec"] = spec
	}
	if created, ok := r.Field("metadata", "creationTimestamp"); ok {
		meta["creationTimestamp"] = created
	}
	return u
}

// ratio is how kstatus says that only some replicas have got somewhere: "Updated: 1/3".
var ratio = regexp.MustCompile(`^(\w+): (\d+)/(\d+)$`)

// inWords makes a sentence of those messages of kstatus that are none.
func inWords(message string) string {
	m := ratio.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	what := map[string]string{
		"Replicas": "exist", "Ready": "are ready", "Available": "are available", "Labelled": "are labelled",
		"Updated": "updated", "updated": "updated", "Current": "are current", "current": "are current",
	}[m[1]]
	if what == "" {
		return message
	}
	return fmt.Sprintf("%s of %s replicas %s", m[2], m[3], what)
}

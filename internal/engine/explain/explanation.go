package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/object"
)

// An Explanation says why a parent and its children are as they are. Its JSON is part of
// the public format of the subcommand explain.
type Explanation struct {
	Operator string    `json:"operator"`
	Parent   Parent    `json:"parent"`
	Children []Child   `json:"children"` // in the order of their types, then of their names
	Related  []Related `json:"related"`
	Process  Process   `json:"process"`
}

// An Object names an object.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

func objectOf(ref object.Ref) Object {
	return Object{ref.Type.APIVersion, ref.Type.Kind, ref.Key.Namespace, ref.Key.Name}
}

// String names the object as "Deployment shop/web".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// A State says in one word how a parent is doing.
type State string

// The states of a parent. Where several hold, it is the first of them.
const (
	NotSelected State = "not selected" // the operator doesn't look at the parent
	Finalizing  State = "finalizing"   // the parent is being deleted
	Paused      State = "paused"       // by its annotation
	Throttled   State = "throttled"    // by a conflict loop
	Failing     State = "failing"      // the handler, or a write
	Pending     State = "pending"      // something is to be written
	Waiting     State = "waiting"      // something has to come first
	NotReady    State = "not ready"    // all is as desired, but a child isn't Current
	Settled     State = "settled"      // all is as desired, and Current
)

// A Parent is what there is to say of the parent itself.
type Parent struct {
	Object
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // why it is in that state
	// Error is the last one, or the one that a pass would have now.
	Error        string     `json:"error,omitempty"`
	FailingSince *time.Time `json:"failingSince,omitempty"`

	Generation         int64              `json:"generation,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"` // 0: the status doesn't say
	DeletedAt          *time.Time         `json:"deletedAt,omitempty"`
	Finalizers         []string           `json:"finalizers,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	Fields             []Field            `json:"fields,omitempty"` // of the parent that the operator would change
}

// A ChildState says in a word how a child is doing.
type ChildState string

// The states of a child.
const (
	AsDesired   ChildState = "as desired"
	Differs     ChildState = "differs"      // and is to be written
	Missing     ChildState = "missing"      // and is to be created
	Foreign     ChildState = "foreign"      // an object has its name that isn't the operator's
	WaitsFor    ChildState = "waiting"      // something has to come first
	Deleting    ChildState = "deleting"     // it is on its way out
	Undesired   ChildState = "undesired"    // and is to be deleted
	LeftAlone   ChildState = "left alone"   // whatever it looks like
	NotServed   ChildState = "not served"   // the API server doesn't serve its type
	NotCompared ChildState = "not compared" // what is desired isn't known
)

// A Child is what there is to say of one child.
type Child struct {
	Object
	State ChildState `json:"state"`
	// Verb is what the operator is to do with it: create, update, recreate, delete, adopt;
	// empty: nothing.
	Verb     string   `json:"verb,omitempty"`
	Reason   string   `json:"reason,omitempty"`   // why it is in that state
	WaitsFor []Object `json:"waitsFor,omitempty"` // what has to come first
	Error    string   `json:"error,omitempty"`    // of its last write

	Readiness        readiness.State `json:"readiness,omitempty"` // empty: it doesn't exist
	ReadinessMessage string          `json:"readinessMessage,omitempty"`
	Finalizers       []string        `json:"finalizers,omitempty"` // of a child that is being deleted
	Fields           []Field         `json:"fields,omitempty"`     // those that differ
}

// A Field is one in which a live object differs from what is desired.
type Field struct {
	Path    string  `json:"path"`
	Live    any     `json:"live"`    // null: the field is absent
	Desired any     `json:"desired"` // null: the field is to go
	By      *Writer `json:"by,omitempty"`
	// Perhaps is, where nobody owns the field, who else has written the object last.
	Perhaps *Writer `json:"perhaps,omitempty"`
}

// A Writer is a field manager that has written a field, by the managedFields of the object.
type Writer struct {
	Manager     string     `json:"manager"`
	Operation   string     `json:"operation"`
	Subresource string     `json:"subresource,omitempty"`
	Time        *time.Time `json:"time,omitempty"` // of the manager's last write of the object
	// Self says that the manager is the operator.
	Self bool `json:"self,omitempty"`
}

// A Related is one reference of the parent, with what it leads to.
type Related struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace,omitempty"` // empty: the type is cluster-scoped, or all namespaces
	Name       string   `json:"name,omitempty"`      // of a reference to one object
	Selector   string   `json:"selector,omitempty"`
	From       []string `json:"from"`  // where the reference comes from: fields of the parent, or the handler
	Found      []Object `json:"found"` // what there is
	NotServed  bool     `json:"notServed,omitempty"`
}

// String names the reference as "Secret shop/key" or "Pod shop/[tier=gold]".
func (r Related) String() string {
	what := r.Name
	if what == "" {
		what = "[" + r.Selector + "]"
	}
	return Object{Kind: r.Kind, Namespace: r.Namespace, Name: what}.String()
}

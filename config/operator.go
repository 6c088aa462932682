package config

import (
	"time"

	"github.com/roperator/roperator/resource"
)

// DefaultDomain is the Domain of an Operator that sets none.
const DefaultDomain = "roperator.com"

// An Operator describes an operator: the parents it serves, the children they
// have, and how it works. The zero value of a field is its default.
type Operator struct {
	// Name identifies the operator among all in the cluster. It is the value
	// of the ownership label, the field manager, the user agent, and part of
	// the names of the lease and the finalizer: at most 63 lowercase letters,
	// digits, "-" and ".". It must be set, and not change between builds.
	Name string
	// Parent is the type of the parents. It must be set.
	Parent resource.Type
	// Children are the types of children that handlers may return, in the
	// order in which they are written.
	Children []Child
	// Namespaces restricts the operator to parents and children in these
	// namespaces. None means all.
	Namespaces []string
	// ParentSelector restricts the operator to the parents that match a label
	// selector, "tier=gold,!legacy". "" means every parent. A parent that
	// leaves the selector, also while no operator runs, is released: its
	// finalizer is removed, its children stay. So operators with the same Name
	// and Domain in one cluster must not differ in their selectors alone: each
	// would release the parents of the other.
	ParentSelector string
	// Domain is the prefix of the labels, annotations and the finalizer that
	// the engine sets. Default: DefaultDomain.
	Domain string
	// TrackingLabel is the label of children that holds their parent's UID.
	// Default: "<Domain>/parent-uid".
	TrackingLabel string
	// OwnershipLabel is the label of children that holds the operator's Name.
	// Default: "<Domain>/operator".
	OwnershipLabel string
	// Finalizer says whether parents get the operator's finalizer,
	// "<Domain>/<Name>". Default: FinalizerAuto.
	Finalizer FinalizerPolicy
	// ReadyCondition has the engine keep the conditions Ready, Reconciling and Stalled in the
	// status of each parent, by the conventions of kstatus, whatever status the handler
	// returns, nil included. Ready is True only if the last pass over the parent has succeeded, nothing
	// is left to write, every desired child is Current (see handler/readiness; here a Job
	// isn't while it runs, nor a Pod when it has failed), and the handler's own Ready, if it returns one, is True. The message of
	// Ready names the first thing in the way. Reconciling is True while the engine goes on by
	// itself, Stalled while somebody has to act.
	//
	// The conditions are part of the one status write of a pass, and a pass that fails writes them, too.
	// status.observedGeneration is always that of the parent that was looked at. The parent's
	// type needs a status subresource, and conditions in its schema. Default: false.
	ReadyCondition bool
	// Teardown says in which order the children of a parent that is being deleted go. Default:
	// TeardownGC.
	Teardown TeardownPolicy
	// FormerFinalizers are names of finalizers that earlier builds used. They
	// are removed from parents wherever they are found. If this build adds a
	// finalizer, see Finalizer, a parent that is being deleted with a former one is
	// finalized first. That of this build may be among them with FinalizerNever.
	FormerFinalizers []string
	// MaxErrorBackoff is the longest time between two tries of a failing
	// parent, unless the handler names a time itself. Default: 10 minutes.
	MaxErrorBackoff time.Duration
	// MaxConcurrentSyncs is how many parents are synced at the same time, at most
	// 10,000. Default: 16.
	MaxConcurrentSyncs int
	// HandlerTimeout ends the context of each call of the handler; a call that
	// doesn't heed its context goes on all the same. Default: none, since only
	// the handler's author knows how long a call may take. A call keeps one of
	// MaxConcurrentSyncs workers until it returns.
	HandlerTimeout time.Duration
	// DryRun makes the operator do everything but persisted writes. What it
	// would write is logged. Handlers are told by handler.IsPlan, and their
	// Finalize isn't called.
	DryRun bool
	// Related are the types of objects that handlers look at, and that aren't theirs:
	// see Related.
	Related []Related
	// FormerChildren are types of children that earlier builds had, and this one hasn't.
	// What is left of them is deleted: each time the operator begins to work it lists them
	// once, by its labels, and then each parent's are deleted by the first pass over the
	// parent that succeeds. They are never watched, and handlers aren't shown them.
	// What belongs to a parent that the operator doesn't hold is left alone. A type that
	// isn't served is skipped.
	FormerChildren []resource.Type
	// CRDs are the CustomResourceDefinitions that belong to the operator, as YAML of one
	// document or several, embedded for example:
	//
	//	//go:embed crd.yaml
	//	var definition []byte
	//
	// The subcommand manifests prints them. run installs them with --install-crds: see
	// runner.Options.InstallCRDs. Without it the engine makes no request about them. They
	// needn't be those of the parents or of children. One that is must serve the version
	// that is used here. What is wrong with one is an error of Validate.
	CRDs [][]byte
	// Mappings say how kinds are served that are not built in, where that
	// can't be asked from an API server: in the manifests command and in
	// testkit.Sync. Without one, plural and scope are guessed.
	Mappings []resource.Mapping
}

// A Child is a type of children and how to treat them.
type Child struct {
	// Type must be set.
	Type resource.Type
	// Strategy says what to do if a live child differs from the desired one.
	// It must be set.
	Strategy UpdateStrategy
	// Adopt allows taking over an object that has the name of a desired child
	// and is nobody's: it has no controller, or the parent is its controller
	// and no operator has labelled it. Without Adopt such an object is an
	// error. An object with another controller, or with the labels or the mark
	// of another operator, is never taken.
	//
	// Objects of which the parent is the controller and that nobody has labelled
	// are also found when the operator starts, whatever their names are. The
	// handler is shown them as children, and they are taken over, so that they
	// are deleted if it doesn't return them.
	Adopt bool
	// AdoptOffered is Adopt for those objects alone that are offered to this
	// operator: they carry an annotation or a label "<Domain>/adopt" whose
	// value is the operator's Name. It is for clusters where the author of a
	// parent must not be able to take the objects of others.
	AdoptOffered bool
	// DeleteFirst deletes the children that are no longer desired before it
	// creates others, for kinds that hold something scarce such as ports or
	// quota. By default they are deleted last, once all else has succeeded.
	DeleteFirst bool
	// Retain lets the children of this type survive their parent. A finalizer holds the parent until
	// the operator's labels and owner reference are taken off them. They keep everything else, and
	// a later parent may adopt them: see Adopt. A child that the handler doesn't return any more is
	// deleted all the same, and so is one whose parent is deleted with the propagation policy
	// Foreground: the garbage collector may be faster.
	Retain bool
	// RecreateImmutable recreates a child whose update is refused since it would change an
	// immutable field: the Strategy is Recreate for that child then, and only then. A child
	// whose update is refused for any other reason, by a webhook, a policy, a quota or for
	// another client's field, stays as it is. So does one that another client has changed. It
	// is for Replace and Apply, and not for kinds that hold data: PersistentVolumeClaims,
	// PersistentVolumes, Namespaces and CustomResourceDefinitions.
	RecreateImmutable bool
	// Roll updates the children of this type a few at a time. Nil: all at once. See Roll.
	Roll *Roll
	// Optional says that the API server needn't serve the type when the operator starts.
	// Every few seconds it is asked whether it does. As soon as it does, the type is watched.
	// Until then a desired child of the type isn't created, which is no error: log and Event
	// say once what is waited for, and everything else of the response is carried out.
	// Without Optional the operator doesn't start where the type isn't served.
	//
	// A type that isn't served any more comes back the same way, whether it is Optional or
	// not. A desired child of a type that isn't Optional is an error meanwhile.
	Optional bool
	// IgnoreFields are paths of fields that are set when a child is created,
	// and from then on neither compared nor changed. Another value of such a field
	// is no change of the desired state. What the engine itself sets is never
	// ignored:
	//
	//	spec.replicas
	//	metadata.annotations["example.com/owner"]
	//	spec.template.spec.containers[name=app].image
	//	spec.template.spec.containers[*].resources
	IgnoreFields []string
}

// A Roll bounds how many children of a type and of one parent an update makes unavailable. Those
// that aren't Current count, whatever the reason is (see handler/readiness; here a Job
// that runs and a Pod that has failed aren't). A child that is being deleted isn't, and neither is a desired one that
// doesn't exist, unless its creation waits (handler.After and When).
//
// A child is outdated if its mark says that it was given another desired state. Outdated
// children that aren't Current go first, so that a rollout that breaks can be mended by the next
// desired state. All others follow in the order of the response. If none becomes Current, the
// rollout stands still; log and Event say at which child.
//
// Creations and deletions aren't bounded, and neither is a write that corrects what somebody
// else has changed in a child that isn't outdated.
type Roll struct {
	// MaxUnavailable is how many children may be unavailable: a number, "2", or a share of
	// the desired children of the type, "25%", rounded down. It is never less than 1. Default: "1".
	MaxUnavailable string
	// Partition is the path of a field of the parent, "spec.partition". Its value is how many
	// children are updated at all: the last of the type in the response. The others stay
	// as they are until then, but a child that doesn't exist is created as it is desired now. A parent
	// without that field has all updated. Default: none.
	Partition string
}

// A Related is a type of objects that a parent may refer to: the Secret that its spec
// names, the Nodes of a pool, another operator's resource. The handler is shown those that
// the parent refers to as SyncRequest.Related, and called whenever one of them changes.
// They are never written.
//
// The type may be one of the children, and the parent's own.
type Related struct {
	// Type must be set.
	Type resource.Type
	// Fields are paths of fields of the parent that hold the name of an object, or a
	// list of names. What is empty or missing refers to nothing.
	//
	//	spec.secretName
	//	spec.template.spec.volumes[*].secret.secretName
	//
	// The objects are in the parent's namespace. So Fields of a namespaced type need a
	// namespaced parent. A handler.Relater has more to say.
	Fields []string
	// AnyNamespace allows references to other namespaces than the parent's own. Without
	// it, who may write a parent could read through the operator what is in a namespace
	// that they have no access to. It means nothing to a cluster-scoped type.
	AnyNamespace bool
	// Optional says that the API server needn't serve the type. While it doesn't, there are
	// no objects of the type, whatever a parent refers to. Every few seconds the API server
	// is asked whether it does by now. Without Optional the operator doesn't start where the
	// type isn't served.
	Optional bool
}

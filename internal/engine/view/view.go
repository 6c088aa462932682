package view

import (
	"time"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/plan"
)

// An Overview is what there is to say of all parents of an operator.
type Overview struct {
	Parents []Parent // by namespace and name
	Figures Figures
}

// A Parent is one line of the overview. It is comparable.
type Parent struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	State     explain.State `json:"state"`
	Reason    string        `json:"reason"` // why it is in that state, in one line and bounded; may be empty
	// Since is when the parent began to fail, or the pass under way began; zero: neither.
	Since    time.Time `json:"since,omitzero"`
	Children int       `json:"children"` // those that exist
	LastPass time.Time `json:"lastPass,omitzero"`
}

// Figures are counts of an operator and the state of its process.
type Figures struct {
	Time     time.Time `json:"time"`
	Operator string    `json:"operator"`
	Parent   string    `json:"parent"` // the type of the parents, as "Site.example.com/v1"
	// Namespaced says that parents have a namespace.
	Namespaced bool `json:"namespaced"`

	Host    string    `json:"host"`    // of the process
	Started time.Time `json:"started"` // when the engine began to work

	Leading bool   `json:"leading"` // the process may write
	DryRun  bool   `json:"dryRun"`  // nothing is written
	Lease   *Lease `json:"lease"`   // nil: there is no election
	Synced  bool   `json:"synced"`  // all types are mirrored

	Parents int `json:"parents"`
	Queue   int `json:"queue"`   // parents that wait for a worker
	Running int `json:"running"` // passes under way
	Workers int `json:"workers"`
	// LongestMillis is for how long the longest of the passes has been under way; 0: none is.
	LongestMillis float64 `json:"longestMs"`

	Watches []Watch       `json:"watches"` // by type: the parents' first, then the children's, then related ones
	Plots   journal.Plots `json:"plots"`
}

// A Lease is the lock of the election.
type Lease struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Identity  string `json:"identity"` // of this process
	Held      bool   `json:"held"`     // by this process
	Holder    string `json:"holder"`   // who was last seen to hold it; empty: nobody was
	// Renewed is when this process last renewed it; zero: it never did.
	Renewed time.Time `json:"renewed,omitzero"`
}

// A Watch is one of the types that an operator watches.
type Watch struct {
	Type    string `json:"type"`    // as "Deployment.apps/v1"
	Role    string `json:"role"`    // parent, child or related
	Objects int    `json:"objects"` // held
	Bytes   int    `json:"bytes"`   // of their JSON; 0 of related ones
	// Heard is when the API server last sent anything; zero: it isn't known.
	Heard   time.Time `json:"heard,omitzero"`
	Problem string    `json:"problem"` // what is wrong with the watch; empty: nothing is known to be
}

// A Family is what the process knows of one parent without asking anybody.
type Family struct {
	// Version differs whenever the parent, a child or a pass has changed what an explanation says.
	Version string          `json:"-"`
	Process explain.Process `json:"process"`
	Passes  []journal.Pass  `json:"passes"` // the newest first, 100 at most
	Events  []journal.Event `json:"events"` // the newest first
}

// A Planned is what a pass over one parent would change.
type Planned struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Changes   []plan.Change `json:"changes"`
	Error     string        `json:"error"` // empty: the pass would succeed
}

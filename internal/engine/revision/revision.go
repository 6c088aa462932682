package revision

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
)

// A Storage is what a process knows of the revisions of the API server's storage. Its
// methods may be called concurrently. A nil Storage knows nothing and finds nothing.
type Storage struct {
	restored func(error)
	losses   chan struct{} // has room for one: see ConnectionLost
	mu       sync.Mutex
	types    map[[2]string]*Type // by API version and kind
}

// New returns a Storage of which nothing is known. It calls restored each time that a read
// shows that etcd was restored. restored may be called concurrently, and may be nil.
func New(restored func(error)) *Storage {
	if restored == nil {
		restored = func(error) {}
	}
	return &Storage{restored: restored, losses: make(chan struct{}, 1), types: map[[2]string]*Type{}}
}

// Of returns what is known of the type with this API version and kind. It is the same for each call.
func (s *Storage) Of(apiVersion, kind string) *Type {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{apiVersion, kind}
	if s.types[key] == nil {
		s.types[key] = &Type{name: apiVersion + "/" + kind, storage: s}
	}
	return s.types[key]
}

// ConnectionLost notes that the connection to the API server was lost. etcd may have been restored
// meanwhile, until a consistent read that begins afterwards has shown the contrary.
func (s *Storage) ConnectionLost() {
	if s == nil {
		return
	}
	select {
	case s.losses <- struct{}{}:
	default: // there is one already
	}
}

// Losses returns a channel that has a value if ConnectionLost was called since the last value was received.
func (s *Storage) Losses() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.losses
}

// A Type is the newest resourceVersion that the API server has told of a type of objects.
// A version that is no positive number does not count. A nil Type knows nothing.
type Type struct {
	name    string
	storage *Storage
	newest  atomic.Uint64
}

// See notes a version that the API server has told.
func (t *Type) See(version string) {
	if t != nil {
		t.see(number(version))
	}
}

func (t *Type) see(n uint64) {
	for {
		newest := t.newest.Load()
		if n <= newest || t.newest.CompareAndSwap(newest, n) {
			return
		}
	}
}

// Newest returns the newest version that was seen, 0 if none was.
func (t *Type) Newest() uint64 {
	if t == nil {
		return 0
	}
	return t.newest.Load()
}

// Compare notes the version of a consistent read. It returns an error if that is older than
// since, which Newest has returned before the request was sent: etcd was restored.
func (t *Type) Compare(since uint64, version string) error {
	if t == nil {
		return nil
	}
	n := number(version)
	if n == 0 || n >= since {
		t.see(n)
		return nil
	}
	err := &RestoredError{Type: t.name, Before: since, Now: n}
	t.storage.restored(err)
	return err
}

// CompareWrite is Compare for the response to a write, which has this version of the object.
// sent is the version that the request was for, "" for a create. If both are equal, nothing
// was persisted, and the response is no consistent read.
func (t *Type) CompareWrite(since uint64, sent, version string) error {
	if sent == version {
		t.See(version)
		return nil
	}
	return t.Compare(since, version)
}

// number returns a resourceVersion as a number, 0 if it is none.
func number(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// A RestoredError says that etcd was restored from a backup.
type RestoredError struct {
	Type        string // of the objects whose versions have shown it
	Before, Now uint64 // resourceVersions of the type
}

// Error says what has happened and what to do.
func (e *RestoredError) Error() string {
	return fmt.Sprintf("etcd was restored from a backup: %s was at resourceVersion %d, and now is at %d; what this process knows is void; "+
		"restart it, as Kubernetes does with a Pod, and it reads everything anew", e.Type, e.Before, e.Now)
}

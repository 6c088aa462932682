package plan

import "github.com/roperator/roperator/resource"

// Finalize remembers that the handler has finalized the parent, which is being deleted.
func (p *ParentMemory) Finalize(parent *resource.Resource) { p.finalized = deletedAt(parent) }

// Finalized says whether the handler has finalized the parent, which is being deleted, in
// this very deletion. A parent lives again after a restore of etcd.
func (p *ParentMemory) Finalized(parent *resource.Resource) bool {
	at := deletedAt(parent)
	return at != 0 && p.finalized == at
}

// deletedAt returns the deletionTimestamp of an object in seconds since 1970, zero if
// it has none.
func deletedAt(res *resource.Resource) int64 {
	if at := res.DeletionTimestamp(); at != nil {
		return at.Unix()
	}
	return 0
}

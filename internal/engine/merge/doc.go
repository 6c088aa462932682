// Package merge compares a live object with a desired one, and computes the
// object that the live one is to be updated to.
//
// There are two types. A Comparison says in which fields the live object doesn't
// satisfy the desired one, and merges the two. A FieldSet is the set of paths
// that an earlier desired object had set. The text of a FieldSet is written on
// the child, in an annotation. A later pass, perhaps of a later build of the
// operator, reads the text back and removes from the live object what the
// desired one has dropped:
//
//	c := merge.Comparison{Schema: listkeys.For(k8s.Deployment)}
//	former, err := merge.ParseFieldSet(text) // of what was desired last time
//	for _, d := range c.Compare(live, desired, former) {
//		fmt.Println(d.Path, d.Live, d.Desired)
//	}
//	body := c.Merge(live, desired, former)
//	text = c.Record(desired).Encode(limit)
//
// Comparison.Applied returns the server-side apply that does the same as Merge, if
// there is one. An Ownership tells what an apply would remove, by managedFields, and
// makes the managedFields for an update that takes the place of an apply.
//
// The package is pure. It sends no request, reads no clock, logs nothing, keeps
// no state and starts no goroutine. All its values are immutable once made, so
// that goroutines may share them. Objects are read and never changed.
//
// It imports resource and leaves of internal (fieldpath, jsonvalue, listkeys),
// apimachinery and structured-merge-diff. It must not import another package of
// the engine, client-go or a logger.
package merge

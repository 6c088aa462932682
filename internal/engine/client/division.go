package client

import (
	"bytes"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/resource"
)

// Replicas may share the parents of an operator. Then an API server that can do so is asked
// for the parents of a shard alone. One that can't sends all of them, and those of other
// shards are dropped here, before they are decoded.

// A division says which objects of one type are passed on.
type division struct {
	of    resource.Type
	shard shard.Shard
	rest  rest.Interface // whose watches drop the others
}

// Divide has lists and watches of the parents pass on those of a shard alone. It must be called before the
// first request.
func (c *Client) Divide(parents resource.Type, into shard.Shard) error {
	if !into.Divides() {
		return nil
	}
	divided, err := c.dial(wireSerializer{c.observed, into})
	if err != nil {
		return err
	}
	c.division = &division{parents, into, divided}
	return nil
}

// shardOf returns the shard whose objects of a type are passed on.
func (c *Client) shardOf(t resource.Type) shard.Shard {
	if c.division == nil || c.division.of != t {
		return shard.Shard{}
	}
	return c.division.shard
}

// drops says whether a frame of a watch tells of an object of another shard.
func (r *frameReader) drops(frame []byte) bool {
	if !r.only.Divides() {
		return false
	}
	t, object, ok := splitEvent(frame)
	switch {
	case !ok:
		return false // the watcher looks at it
	case t != watch.Added && t != watch.Modified && t != watch.Deleted:
		return false
	}
	return isForeign(object, r.only)
}

// isForeign says whether an object, given as JSON, is of another shard. Of one whose UID
// can't be found so, the watcher knows.
func isForeign(object []byte, only shard.Shard) bool {
	uid, ok := uidOf(object)
	return ok && !only.OwnsBucket(shard.Bucket(uid))
}

// uidOf finds the UID of an object without decoding it, as written in its JSON. It returns false if
// the object has none, or has one with an escape.
func uidOf(object []byte) (uid []byte, ok bool) {
	text := find(find(object, "metadata"), "uid")
	uid, _ = stringAt(text, skipSpaces(text, 0))
	return uid, len(uid) > 0 && bytes.IndexByte(uid, '\\') < 0
}

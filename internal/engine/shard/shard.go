// Package shard divides the parents of an operator among its replicas: into shards, by the
// hash of their UIDs.
//
//	s := shard.Shard{Index: 3, Of: 8}
//	s.Owns(parent.UID())     // whether the parent is of the shard
//	s.Selector()             // has an API server send the parents of the shard alone
//	shard.Bucket(uid)        // the value of the label that children of the parent get
//
// The hash is the one by which Kubernetes divides lists and watches (KEP-5866): FNV-1a of
// 64 bits. The shards of an operator are equal parts of its range, from below. So are the
// buckets, of which there are as many as there can be shards: a shard is always a number of
// whole buckets, and the bucket of a child stays the same when the number of shards changes.
//
// The package is pure. It imports nothing of the engine.
package shard

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Buckets is into how many parts the range of the hash is divided, and how many shards an
// operator has at most.
const Buckets = 64

// bucketBits is how many bits of a hash tell its bucket.
const bucketBits = 6

// Validate returns an error if an operator can't have this number of shards.
func Validate(shards int) error {
	if shards < 1 || shards > Buckets || bits.OnesCount(uint(shards)) != 1 {
		return fmt.Errorf("%d is no number of shards; it must be a power of two up to %d: 1, 2, 4, 8, 16, 32 or 64", shards, Buckets)
	}
	return nil
}

// Bucket returns the bucket of the parent with this UID, from 0 to Buckets-1. It allocates
// nothing, since it is asked for each event of the parents of other shards.
func Bucket[T ~string | ~[]byte](uid T) int {
	const offset, prime = 14695981039346656037, 1099511628211 // of FNV
	sum := uint64(offset)
	for i := range len(uid) {
		sum = (sum ^ uint64(uid[i])) * prime
	}
	return int(sum >> (64 - bucketBits))
}

// A Shard is one of the parts into which the parents of an operator are divided. The zero
// value is the whole: all parents. Its methods may be called concurrently.
type Shard struct {
	Index int // from 0 to Of-1
	Of    int // how many there are: see Validate; 0: the parents aren't divided
}

// Divides says whether the shard is one of several that replicas share, even if it is the
// only one.
func (s Shard) Divides() bool { return s.Of > 0 }

// Owns says whether the parent with this UID is of the shard.
func (s Shard) Owns(uid types.UID) bool { return s.Of <= 1 || s.OwnsBucket(Bucket(uid)) }

// OwnsBucket says whether the parents of a bucket are of the shard.
func (s Shard) OwnsBucket(bucket int) bool { return s.Of <= 1 || bucket*s.Of/Buckets == s.Index }

// BucketSelector returns the label selector of the objects whose label has a bucket of the
// shard.
func (s Shard) BucketSelector(label string) string {
	each := Buckets / s.Of
	names := make([]string, 0, each)
	for i := range each {
		names = append(names, strconv.Itoa(s.Index*each+i))
	}
	return label + " in (" + strings.Join(names, ",") + ")"
}

// NoBucketSelector returns the label selector of the objects whose label has no bucket: it is
// missing, or has another value.
func NoBucketSelector(label string) string {
	names := make([]string, 0, Buckets)
	for i := range Buckets {
		names = append(names, strconv.Itoa(i))
	}
	return label + " notin (" + strings.Join(names, ",") + ")"
}

// Selector returns the shardSelector of a list or a watch of the shard's parents; empty: of
// all parents.
func (s Shard) Selector() string {
	if s.Of <= 1 {
		return ""
	}
	return fmt.Sprintf("shardRange(object.metadata.uid, '%s', '%s')", s.bound(s.Index), s.bound(s.Index+1))
}

// bound returns the lower bound of the shard with this index, as the API server writes it.
func (s Shard) bound(index int) string {
	if index == s.Of {
		return "0x10000000000000000"
	}
	return fmt.Sprintf("0x%016x", uint64(index)<<(64-bits.TrailingZeros(uint(s.Of))))
}

// String returns the shard as logs and metrics name it: its index.
func (s Shard) String() string { return strconv.Itoa(s.Index) }

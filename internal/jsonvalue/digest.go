package jsonvalue

import (
	"crypto/sha256"
	"encoding/hex"
)

// A Digest is the first half of a SHA-256 sum of a value's text. Values with equal
// digests are taken to be equal.
type Digest [16]byte

// String returns the digest as 32 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// sumSize is the initial size of the buffer for a value's text, in bytes.
const sumSize = 512

// Sum returns the digest of the text that Append writes for a JSON value. Values that
// Equal tells apart have different digests. Equal values have the same digest, but
// for a few numbers: -0 and whole float64 beyond 2^53 are written in another way than
// the int64 that equals them.
func Sum(v any) Digest {
	raw, err := Append(make([]byte, 0, sumSize), v)
	if err != nil {
		raw = []byte(err.Error()) // can't be: v came from JSON
	}
	sum := sha256.Sum256(raw)
	return Digest(sum[:])
}

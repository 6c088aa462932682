package jsonvalue

import (
	"crypto/sha256"
	"encoding/hex"
)

// A Digest is the first half of a SHA-256 sum: enough to tell two values apart.
type Digest [16]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// sumSize is room for the text of most values that are summed, in bytes.
const sumSize = 512

// Sum returns the digest of a value that came from JSON.
func Sum(v any) Digest {
	raw, err := Append(make([]byte, 0, sumSize), v)
	if err != nil {
		raw = []byte(err.Error()) // can't be: JSON has no such value
	}
	sum := sha256.Sum256(raw)
	return Digest(sum[:])
}

package access

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// rememberYes is how long somebody is let in who is no longer allowed to be. Prometheus
	// asks for the metrics two to four times in it.
	rememberYes = time.Minute
	// rememberNo is how long somebody is kept out who is allowed by now.
	rememberNo = 10 * time.Second
	// remembered is how many answers of each kind are kept at most.
	remembered = 512
)

// A hash stands for what was asked.
type hash [sha256.Size]byte

func hashOf(text []byte) hash { return sha256.Sum256(text) }

// answers remember what the API server has answered, each for a while. Of either kind
// those that were used last are kept: who asks with many wrong tokens pushes out no right
// one. Methods may be called concurrently.
type answers struct{ good, bad *cache.LRUExpireCache }

func newAnswers() *answers {
	return &answers{cache.NewLRUExpireCache(remembered), cache.NewLRUExpireCache(remembered)}
}

// get returns the answer to a question; false: it isn't known.
func (a *answers) get(key hash) (any, bool) {
	if value, ok := a.good.Get(key); ok {
		return value, true
	}
	return a.bad.Get(key)
}

// yes remembers a good answer, until end at most (zero: there is none).
func (a *answers) yes(key hash, value any, end time.Time) {
	ttl := rememberYes
	if !end.IsZero() {
		ttl = min(ttl, time.Until(end))
	}
	if ttl > 0 {
		a.good.Add(key, value, ttl)
	}
}

// no remembers a bad answer.
func (a *answers) no(key hash, value any) { a.bad.Add(key, value, rememberNo) }

// endOf returns when a token that is valid now expires, as it says itself; zero if it
// doesn't say.
func endOf(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if json.Unmarshal(raw, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}

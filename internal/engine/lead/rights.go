package lead

import "time"

// passing is how soon a request must be forbidden again for both refusals to have one cause.
const passing = time.Minute

// rights tells a right that was never given from one that is gone for a moment, as while RBAC's
// objects are replaced. The first ends a process, with an error that names the rule; the second
// is waited for. The zero value has seen no request.
type rights struct {
	given   map[string]bool   // requests that were allowed once
	allowed int               // how many requests were allowed
	denied  map[string]denial // requests that never were
}

// A denial says when a request was forbidden, and how many requests had been allowed by then.
type denial struct {
	at      time.Time
	allowed int
}

// allow notes that the API server has allowed a request.
func (r *rights) allow(request string) {
	if r.given == nil {
		r.given = map[string]bool{}
	}
	r.given[request] = true
	r.allowed++
}

// deny notes that RBAC has forbidden a request, and says whether that right was never given. It
// was given if the request was allowed once. Otherwise, all rights may be gone for the moment if
// other requests were allowed before. So it takes a second refusal then, and a request that was
// allowed in between.
func (r *rights) deny(request string) bool {
	if r.given[request] {
		return false
	}
	now := denial{time.Now(), r.allowed}
	before, again := r.denied[request]
	if again = again && now.at.Sub(before.at) < passing; !again {
		if r.denied == nil {
			r.denied = map[string]denial{}
		}
		r.denied[request] = now
	}
	return r.allowed == 0 || again && r.allowed > before.allowed
}

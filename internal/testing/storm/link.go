package storm

import (
	"bytes"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/testing/faults"
)

// connect returns what carries the requests of a process.
func (w *world) connect(p *process) *faults.Link {
	return &faults.Link{
		Process: p.Process, Dice: w.dice.Dice, Hang: w.pace.hang,
		Unreachable: func(x *faults.Exchange) bool { return w.isDown() || isLease(x) && p.IsCut() },
		Serve: func(x *faults.Exchange, _ faults.Fault) (*http.Response, error) {
			resp, err := w.server.RoundTrip(x.Request)
			if err == nil && x.Write && resp.StatusCode < 300 {
				w.changed()
			}
			return resp, err
		},
		Frame: func(x *faults.Exchange, frame []byte) faults.Fault {
			if bytes.Contains(frame, []byte(`"type":"BOOKMARK"`)) {
				return faults.Fault{} // whose number isn't the same in each run
			}
			name := "frame of " + x.Name
			f := w.dice.next(name, frames)
			w.met(p, name, f)
			return f
		},
	}
}

// RoundTrip carries a request of the process to the API server. It is http.RoundTripper's.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.Killed() {
		return nil, faults.ErrDead
	}
	x, err := faults.Read(req)
	if err != nil {
		return nil, err
	}
	switch {
	case x.On.Resource.Resource == "":
		return p.world.server.RoundTrip(x.Request)
	case x.On.Resource.Resource == "selfsubjectaccessreviews":
		return x.Refusal("404"), nil // it would allow everything, and takes its time
	case req.Method != http.MethodGet && isEvents(x.On.Resource):
		return x.Answer(http.StatusCreated, "application/json", `{"apiVersion":"events.k8s.io/v1","kind":"Event"}`), nil // nobody reads it
	}
	x.Name = p.world.nameOf(x)
	c := reads
	switch {
	case x.Write:
		c = writes
	case x.Trial:
		c = trials
	}
	f := p.world.dice.next(x.Name, c)
	p.world.asked(p, x, f)
	resp, err := p.link.Carry(x, f)
	if x.Write && err == nil && resp.StatusCode < 300 {
		p.world.wrote(p, x)
	}
	return resp, err
}

func isEvents(r schema.GroupVersionResource) bool {
	return r.Resource == "events" && (r.Group == "" || r.Group == "events.k8s.io")
}

// isLease says whether a request is about the lease that the operator's processes compete for.
func isLease(x *faults.Exchange) bool {
	return x.On.Resource.Resource == "leases" && x.On.Name == leaseName
}

// nameOf names a request as people do.
func (w *world) nameOf(x *faults.Exchange) string {
	kind := w.kindOf(x.On.Resource.Resource)
	if x.On.Subresource != "" {
		kind = x.On.Subresource + " of " + kind
	}
	words := []string{x.On.Verb, kind}
	if at := strings.TrimPrefix(x.On.Namespace+"/"+x.On.Name, "/"); at != "" {
		words = append(words, at)
	}
	query := x.URL.Query()
	if selector := query.Get("fieldSelector"); selector != "" {
		words = append(words, selector)
	}
	if query.Get("continue") != "" {
		words = append(words, "next page")
	}
	if x.Trial {
		words = append(words, "(dry run)")
	}
	return strings.Join(words, " ")
}

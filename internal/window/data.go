package window

import (
	"context"
	"errors"
	"net/http"

	"github.com/roperator/roperator/internal/guard"
)

// A service is what is served below /window/.
type service struct {
	mediaType string
	parent    bool // the query must name a parent
	// serve answers until ctx ends. Nothing may be written after it has returned.
	serve func(ctx context.Context, a *answer, t target)
}

// serviceAt returns what is served at a path, false if there is none.
func (w *Window) serviceAt(path string) (service, bool) {
	switch path {
	case "/window/overview":
		return service{eventStream, false, w.serveOverview}, true
	case "/window/parent":
		return service{eventStream, true, w.serveParent}, true
	case "/window/plan":
		return service{eventStream, false, w.servePlan}, true
	case "/window/recording":
		return service{recordingType, true, w.serveRecording}, true
	}
	return service{}, false
}

// serveData answers a request for data. A request of its head alone has nothing looked at.
func (w *Window) serveData(rw http.ResponseWriter, req *http.Request) {
	a := newAnswer(rw)
	var err error
	defer func() {
		if err != nil && !a.begun {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
		}
	}()
	defer w.recovered(req.URL.Path, &err)
	what, ok := w.serviceAt(req.URL.Path)
	if !ok {
		http.NotFound(rw, req)
		return
	}
	t, ok := w.target(rw, req, what.parent)
	if !ok {
		return
	}
	if req.Method == http.MethodHead {
		rw.Header().Set("Content-Type", what.mediaType)
		return
	}
	ctx, ok := w.begin(a, req)
	if !ok {
		return
	}
	defer w.end(a)
	what.serve(ctx, a, t)
}

// errPanic says that the source of the window has panicked; the log says more.
var errPanic = errors.New("the operator panicked; its log says more")

// recovered turns a panic into an error, and logs it. It is deferred.
func (w *Window) recovered(what string, err *error) {
	if v := recover(); v != nil {
		*err = errPanic
		panicked := guard.Recovered(v)
		w.opts.Log.Error("window: panic", "in", what, "panic", panicked.Text, "stack", panicked.Stack)
	}
}

package storm

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

// A server is the API server of a run. What others than the operator do with it meets no faults.
// RoundTrip carries the operator's requests.
type server interface {
	http.RoundTripper
	RESTConfig() *rest.Config
	Get(t resource.Type, key types.NamespacedName) *resource.Resource // nil: it isn't there
	List(t resource.Type) []*resource.Resource                        // by namespace and name
	Create(object map[string]any) (*resource.Resource, error)
	// Change changes all of an object that there is to change, its status too.
	Change(t resource.Type, key types.NamespacedName, change func(object map[string]any)) (*resource.Resource, error)
	Delete(t resource.Type, key types.NamespacedName) error
	// CollectGarbage deletes objects whose owners are gone, and returns them.
	CollectGarbage() []*resource.Resource
	// Compact, BreakWatches and Bookmark are what an API server does of its own accord.
	Compact()
	BreakWatches()
	Bookmark()
	// tell has touched be called with each object that has changed. It may block nobody.
	tell(touched func(t resource.Type, key types.NamespacedName))
	// run does what the server needs done until ctx ends.
	run(ctx context.Context)
}

// An inProcess is a server in the process, for a bubble.
type inProcess struct{ *fakeapi.Server }

func newInProcess(kinds []fakeapi.Kind) inProcess {
	s := fakeapi.New(kinds...)
	s.NoteRequests(false)
	s.NameUIDs()
	return inProcess{s}
}

func (s inProcess) run(context.Context) {}

func (s inProcess) tell(touched func(t resource.Type, key types.NamespacedName)) {
	s.SetHooks(fakeapi.Hooks{Touched: touched})
}

// Package live looks at operators on a real API server through the window, in a browser.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/test/window/browser"
	"github.com/roperator/roperator/testkit"
)

// patience only bounds a hang.
const patience = 2 * time.Minute

// shops is the type of the parents.
func shops() resource.Type {
	return resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Parent"}
}

// shop returns a parent.
func shop(name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": shops().APIVersion, "kind": shops().Kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

// page returns the ConfigMap of a parent.
func page(name, text string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"text": text}}
}

// A keeper is a handler. Each parent has a ConfigMap with the text of its spec, but for some.
type keeper struct{ rebranded atomic.Bool }

func (k *keeper) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	text, _ := req.Parent.Field("spec", "text")
	if k.rebranded.Load() && handler.IsPlan(ctx) {
		text = "rebranded"
	}
	child := page(name, fmt.Sprint(text))
	children := []any{child}
	switch name {
	case "failing":
		return nil, errors.New("no such theme: neon")
	case "waiting":
		children = []any{handler.When(child, false)}
	}
	return &handler.SyncResponse{Status: map[string]any{"pages": req.Children.Len()}, Children: children}, nil
}

func (k *keeper) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// A street is an operator with parents in all kinds of states, and the address of its window.
type street struct {
	*testkit.Kit
	keeper  *keeper
	address string
}

// open runs the operator, on an API server of its own, until the test ends.
func open(t *testing.T, name string) *street {
	t.Helper()
	cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"../../conformance/testdata/crds.yaml"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	s := &street{keeper: &keeper{}, address: plane.FreeAddress(t)}
	cfg := config.Operator{Name: name, Parent: shops(), MaxErrorBackoff: 2 * time.Second, Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}}}
	s.Kit = testkit.NewWithOptions(t, cluster, cfg, s.keeper, testkit.KitOptions{
		AllowHandlerErrors: true, Runner: runner.Options{WindowAddress: s.address},
	})
	for _, name := range []string{"bakery", "books", "flowers", "failing", "fought", "waiting"} {
		s.Create(shop(name, map[string]any{"text": "open"}))
	}
	for _, name := range []string{"bakery", "books", "flowers", "fought"} {
		s.EventuallyExists(page(name, "open"), patience)
	}
	return s
}

// fight changes a child until its parent is throttled.
func (s *street) fight(t *testing.T) {
	t.Helper()
	for n := range 6 {
		s.Update(page("fought", "theirs"))
		require.Eventually(t, func() bool {
			live := s.Get(page("fought", ""))
			text, _ := live.Field("data", "text")
			return text == "open" || n > 4
		}, patience, 10*time.Millisecond)
	}
}

// row returns the text of a parent's line.
func row(name string) string {
	return fmt.Sprintf(`([...document.querySelectorAll('[role=row]')].find((e) => e.innerText.includes(%q))?.innerText ?? "")`, name)
}

func TestWindow(t *testing.T) {
	b := browser.Start(t) // skips the test where there is none
	s := open(t, "street")
	s.fight(t)
	tab := b.Open(t, "http://"+s.address+"/")
	for name, state := range map[string]string{"bakery": "settled", "failing": "failing", "fought": "throttled", "waiting": "waiting"} {
		tab.Until(row("/"+name) + fmt.Sprintf(`.includes(%q)`, state))
	}
	tab.Until(row("/failing") + `.includes("no such theme: neon")`)
	tab.Until(row("/fought") + `.includes('alternates between "theirs" and "open"')`)
	tab.See("main", "conformance.roperator.com/v1/Parent")
	tab.Click("summary", "2 watches")
	tab.See("main", "v1/ConfigMap")
	tab.Click("summary", "2 watches")
	if path := os.Getenv("WINDOW_SCREENSHOT"); path != "" {
		tab.Resize(1280, 860, false)
		tab.Picture(path)
	}
	t.Run("Parent", func(t *testing.T) { s.lookAtParent(t, b) })
	t.Run("Live", func(t *testing.T) { s.lookWhileThingsChange(t, b) })
	t.Run("Plan", func(t *testing.T) { s.lookAtPlan(t, b) })
	t.Run("Recording", func(t *testing.T) { s.replayRecording(t) })
}

// at returns the address of a parent's view.
func (s *street) at(name string) string {
	return fmt.Sprintf("http://%s/#/street/parent/%s/%s", s.address, s.Namespace, name)
}

func (s *street) lookAtParent(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, s.at("fought"))
	tab.See("main", "throttled")
	tab.See("main", `"theirs"`)
	tab.See("main", "data.text")
	tab.See("main", "ConfigMap")
	tab.See("main", "update")
	tab.Go(s.at("failing"))
	tab.See("main", "no such theme: neon")
	tab.See("main", "SyncFailed")
	tab.Go(s.at("waiting"))
	tab.See("main", "waiting")
	tab.Go(s.at("nobody"))
	tab.See("main", "no such parent")
}

// lookWhileThingsChange: what happens is seen without a reload.
func (s *street) lookWhileThingsChange(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, s.at("books"))
	tab.See("main", "settled")
	s.Update(shop("books", map[string]any{"text": "sale"}))
	s.EventuallyExists(page("books", "sale"), patience)
	tab.See("main", "data.text")
	tab.See("main", "Updated")
	s.Create(shop("late", map[string]any{"text": "open"}))
	tab.Go("http://" + s.address + "/#/street")
	tab.Until(row("/late") + `.includes("settled")`)
	s.Delete(shop("late", nil))
	tab.Until(row("/late") + ` === ""`)
}

// lookAtPlan: what another build would do is found by dry runs, and done by nobody.
func (s *street) lookAtPlan(t *testing.T, b *browser.Browser) {
	s.keeper.rebranded.Store(true)
	defer s.keeper.rebranded.Store(false)
	tab := b.Open(t, "http://"+s.address+"/#/street/plan")
	tab.Click("button", "Plan all parents")
	tab.See("main", "rebranded")
	tab.See("main", "flowers")
	tab.See("main", "no such theme: neon")
	live := s.Get(page("flowers", ""))
	text, _ := live.Field("data", "text")
	require.Equal(t, "open", text)
}

// replayRecording: what is downloaded is a regression test of the handler.
func (s *street) replayRecording(t *testing.T) {
	query := url.Values{"namespace": {s.Namespace}, "name": {"bakery"}}.Encode()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+"/window/recording?"+query, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
	testkit.Replay(t, strings.NewReader(string(body)), &keeper{})
}

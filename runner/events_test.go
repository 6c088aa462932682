package runner

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// recorded returns the Events as "Type Reason: note", in the order in which
// they were recorded.
func (r *rig) recorded() []string {
	r.t.Helper()
	elapse(time.Millisecond)
	var events []eventsv1.Event
	for _, res := range r.server.List(fakeapi.Events().Type) {
		event, err := resource.As[eventsv1.Event](res)
		require.NoError(r.t, err)
		require.Equal(r.t, "op", event.ReportingController)
		require.Equal(r.t, testParentType().Kind, event.Regarding.Kind)
		events = append(events, event)
	}
	slices.SortFunc(events, func(a, b eventsv1.Event) int { // nobody updates them here; the clock stands still in between
		if n := len(a.ResourceVersion) - len(b.ResourceVersion); n != 0 {
			return n
		}
		return strings.Compare(a.ResourceVersion, b.ResourceVersion)
	})
	var out []string
	for _, e := range events {
		out = append(out, e.Type+" "+e.Reason+": "+e.Note)
	}
	return out
}

// numbered is a handler whose parents have as many ConfigMaps as they say,
// which hold the same number.
func numbered(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	text, _ := value.(string)
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, errors.New("no number: " + text)
	}
	resp := &handler.SyncResponse{}
	for i := range n {
		resp.Children = append(resp.Children, copied(fmt.Sprintf("c%04d", i), text))
	}
	return resp, nil
}

func TestEvents_OfWrites(t *testing.T) {
	cases := map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		do       func(r *rig)
		want     []string
	}{
		"create": {"one Event for both", config.Replace, func(*rig) {}, nil},
		"update": {"a delete comes after the update, each with its Event", config.Replace, func(r *rig) { r.setSpec("one", "1") }, []string{
			"Normal Updated: updated ConfigMap c0000", "Normal Deleted: deleted ConfigMap c0001",
		}},
		"recreate": {"it is deleted and created", config.Recreate, func(r *rig) {
			r.change(k8s.ConfigMap, "c0000", func(o map[string]any) { o["data"] = map[string]any{"value": "by hand"} })
		}, []string{
			"Normal Recreated: deleted, to be created anew: ConfigMap c0000", "Normal Created: created ConfigMap c0000",
		}},
		"adopt": {"the labels were taken off", config.Replace, func(r *rig) {
			r.change(k8s.ConfigMap, "c0000", func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") }) //nolint:forcetypeassert // the test's own
		}, []string{"Normal Adopted: adopted ConfigMap c0000"}},
		"error": {"told once, however often it is tried again", config.Replace, func(r *rig) {
			r.setSpec("one", "many")
			elapse(time.Minute)
		}, []string{"Warning SyncFailed: handler: Sync: no number: many"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := rigConfig()
				cfg.Children[0].Strategy = tc.strategy
				r := startRig(t, rigServer(), cfg, handler.SyncFunc(numbered))
				r.create("one", "2")
				require.Equal(t, []string{"Normal Created: created ConfigMap c0000, ConfigMap c0001"}, r.recorded())
				elapse(time.Hour)
				require.Len(t, r.recorded(), 1, "a settled operator records none")
				tc.do(r)
				require.Equal(t, append([]string{"Normal Created: created ConfigMap c0000, ConfigMap c0001"}, tc.want...), r.recorded(), tc.reason)
				r.stop()
			})
		})
	}
}

func TestEvents_ManyChildrenAreOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(numbered))
		r.create("one", "1000")
		events := r.recorded()
		require.Len(t, events, 1)
		require.True(t, strings.HasPrefix(events[0], "Normal Created: created ConfigMap c0000, ConfigMap c0001, "), events[0])
		require.True(t, strings.HasSuffix(events[0], "ConfigMap c0019 and 980 more"), events[0])
		r.stop()
	})
}

func TestEvents_OfTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tries := 0
		h := handler.Funcs{SyncFunc: copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			if tries++; tries == 1 {
				return nil, errors.New("not yet")
			}
			return &handler.FinalizeResponse{Finalized: true}, nil
		}}
		r := startRig(t, rigServer(), rigConfig(), h)
		r.create("one", "v1")
		elapse(time.Second)
		require.NoError(t, r.server.Delete(testParentType(), rigKey("one")))
		elapse(time.Minute)
		require.Nil(t, r.get(testParentType(), "one"))
		require.Equal(t, []string{
			"Normal Created: created ConfigMap one", "Warning FinalizeFailed: handler: Finalize: not yet",
			"Normal Finalized: finalized, the deletion goes on",
		}, r.recorded())
		r.stop()
	})
}

func TestListed(t *testing.T) {
	long := slices.Repeat([]string{strings.Repeat("x", 253)}, 10)
	for name, tc := range map[string]struct {
		reason string
		names  []string
		want   string
	}{
		"one":  {"nothing more", []string{"a"}, "a"},
		"two":  {"nothing more", []string{"a", "b"}, "a, b"},
		"long": {"what an Event takes", long, strings.Join(long[:3], ", ") + " and 7 more"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, listed(tc.names), tc.reason) })
	}
}

// The table in docs/reference/events.md has every reason, and every Event's
// reason is a constant.
func TestEvents_Reference(t *testing.T) {
	reasons := map[string]string{} // constant -> reason
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	calls := 0
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if value, ok := at(n.Values, i).(*ast.BasicLit); ok && strings.HasPrefix(name.Name, "reason") {
						reasons[name.Name], err = strconv.Unquote(value.Value)
						require.NoError(t, err)
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "event" && len(n.Args) == 4 {
					calls++
					_, literal := n.Args[2].(*ast.BasicLit)
					require.False(t, literal, "%s: an Event's reason that isn't a constant", entry.Name())
				}
			}
			return true
		})
	}
	require.GreaterOrEqual(t, calls, 5)
	page, err := os.ReadFile("../docs/reference/events.md")
	require.NoError(t, err)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (?:Normal|Warning) \\| ").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, row[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Values(reasons)), documented)
}

func at(values []ast.Expr, i int) ast.Expr {
	if i < len(values) {
		return values[i]
	}
	return nil
}

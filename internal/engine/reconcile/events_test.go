package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
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
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// recorded returns the Events as "Type Reason: note", in the order in which
// they were recorded.
func recorded(r *rig.Rig) []string {
	r.T.Helper()
	rig.Elapse(time.Millisecond)
	var events []eventsv1.Event
	for _, res := range r.Server.List(fakeapi.Events().Type) {
		event, err := resource.As[eventsv1.Event](res)
		require.NoError(r.T, err)
		require.Equal(r.T, "op", event.ReportingController)
		require.Equal(r.T, sample.ParentType().Kind, event.Regarding.Kind)
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
		resp.Children = append(resp.Children, rig.Copied(fmt.Sprintf("c%04d", i), text))
	}
	return resp, nil
}

func TestEvents_OfWrites(t *testing.T) {
	cases := map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		do       func(r *rig.Rig)
		want     []string
	}{
		"create": {"one Event for both", config.Replace, func(*rig.Rig) {}, nil},
		"update": {"a delete comes after the update, each with its Event", config.Replace, func(r *rig.Rig) { r.SetSpec("one", "1") }, []string{
			"Normal Updated: updated ConfigMap c0000", "Normal Deleted: deleted ConfigMap c0001",
		}},
		"recreate": {"it is deleted and created", config.Recreate, func(r *rig.Rig) { r.SetSpec("one", "1") }, []string{
			"Normal Recreated: deleted, to be created anew: ConfigMap c0000", "Normal Deleted: deleted ConfigMap c0001", "Normal Created: created ConfigMap c0000",
		}},
		"drift": {"it is corrected", config.Recreate, func(r *rig.Rig) {
			r.Change(k8s.ConfigMap, "c0000", func(o map[string]any) { o["data"] = map[string]any{"value": "by hand"} })
		}, []string{"Normal Updated: updated ConfigMap c0000"}},
		"adopt": {"the labels were taken off", config.Replace, func(r *rig.Rig) {
			r.Change(k8s.ConfigMap, "c0000", func(o map[string]any) { delete(o["metadata"].(map[string]any), "labels") })
		}, []string{"Normal Adopted: adopted ConfigMap c0000"}},
		"error": {"told once, however often it is tried again", config.Replace, func(r *rig.Rig) {
			r.SetSpec("one", "many")
			rig.Elapse(time.Minute)
		}, []string{"Warning SyncFailed: handler: Sync: no number: many"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.Children[0].Strategy = tc.strategy
				r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(numbered))
				r.Create("one", "2")
				require.Equal(t, []string{"Normal Created: created ConfigMap c0000, ConfigMap c0001"}, recorded(r))
				rig.Elapse(time.Hour)
				require.Len(t, recorded(r), 1, "a settled operator records none")
				tc.do(r)
				require.Equal(t, append([]string{"Normal Created: created ConfigMap c0000, ConfigMap c0001"}, tc.want...), recorded(r), tc.reason)
				r.Stop()
			})
		})
	}
}

func TestEvents_ManyChildrenAreOne(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(numbered))
		r.Create("one", "1000")
		events := recorded(r)
		require.Len(t, events, 1)
		require.True(t, strings.HasPrefix(events[0], "Normal Created: created ConfigMap c0000, ConfigMap c0001, "), events[0])
		require.True(t, strings.HasSuffix(events[0], "ConfigMap c0019 and 980 more"), events[0])
		r.Stop()
	})
}

func TestEvents_OfTheEnd(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		tries := 0
		h := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			if tries++; tries == 1 {
				return nil, errors.New("not yet")
			}
			return &handler.FinalizeResponse{Finalized: true}, nil
		}}
		r := rig.Start(t, rig.Server(), rig.Config(), h)
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(sample.ParentType(), "one"))
		require.Equal(t, []string{
			"Normal Created: created ConfigMap one", "Warning FinalizeFailed: handler: Finalize: not yet",
			"Normal Finalized: finalized, the deletion goes on",
		}, recorded(r))
		r.Stop()
	})
}

// The table in docs/reference/events.md has every reason, and every Event's
// reason is a constant.
func TestEvents_Reference(t *testing.T) {
	reasons := map[string]string{} // constant -> reason
	here, err := filepath.Glob("*.go")
	require.NoError(t, err)
	observe, err := filepath.Glob("../observe/*.go")
	require.NoError(t, err)
	calls := 0
	for _, name := range append(here, observe...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, constant := range n.Names {
					if value, ok := at(n.Values, i).(*ast.BasicLit); ok && strings.HasPrefix(constant.Name, "Reason") {
						reasons[constant.Name], err = strconv.Unquote(value.Value)
						require.NoError(t, err)
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "event" && len(n.Args) == 4 {
					calls++
					_, literal := n.Args[2].(*ast.BasicLit)
					require.False(t, literal, "%s: an Event's reason that isn't a constant", name)
				}
			}
			return true
		})
	}
	require.GreaterOrEqual(t, calls, 5)
	page, err := os.ReadFile("../../../docs/reference/events.md")
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

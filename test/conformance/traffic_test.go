package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// traffic returns the requests of an operator since then as "verb resource",
// sorted, without Events, discovery, reviews of rights, lists and watches.
func traffic(t *testing.T, log *auditLog, from mark, operator string) []string {
	t.Helper()
	lines := []string{}
	for _, r := range log.since(t, from, operator) {
		if r.Resource == "events" || r.Resource == "" || r.Resource == "selfsubjectaccessreviews" || r.Verb == "list" {
			continue
		}
		line := r.Verb + " " + r.Resource
		if r.Subresource != "" {
			line += "/" + r.Subresource
		}
		if r.DryRun {
			line += dryRun
		}
		if r.Code >= 300 {
			line += fmt.Sprintf(": %d", r.Code)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// dryRun marks what is only asked for.
const dryRun = " (dry run)"

// times returns a line as often as that.
func times(n int, line string) []string { return slices.Repeat([]string{line}, n) }

// fleet is a handler that wants as many ConfigMaps as the parent says.
func fleet(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	count, _ := req.Parent.Field("spec", "count")
	value, _ := req.Parent.Field("spec", "value")
	n, _ := count.(int64)
	var children []any
	for i := range n {
		children = append(children, configMap(fmt.Sprintf("%s-%d", req.Parent.Name(), i), "k", fmt.Sprint(value)))
	}
	return &handler.SyncResponse{Children: children, Status: map[string]any{"seen": req.Children.Len()}}, nil
}

func TestC245_OneRequestForEachThing(t *testing.T) {
	scenario(t, "C245", "creating a parent's children costs a finalizer patch, one create each and one status write, and nothing else")
	log := needsAudit(t)
	for _, tc := range []struct {
		name, reason string
		strategy     config.UpdateStrategy
		finalize     bool
		update       []string // of what a change of three children costs
	}{
		{"plain", "a create for each child and a status", config.Replace, false, times(3, "update configmaps")},
		{"finalized", "and a patch for the finalizer", config.Replace, true, times(3, "update configmaps")},
		{"recreated", "a delete and a create, and a status of the time between", config.Recreate, false, slices.Concat(
			times(3, "create configmaps"), times(3, "delete configmaps"), []string{"update parents/status"},
		)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			name := "traffic-" + tc.name
			h := handler.Funcs{SyncFunc: fleet}
			var first, last []string
			if tc.finalize {
				h.FinalizeFunc = func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
					return &handler.FinalizeResponse{Finalized: true}, nil
				}
				first, last = []string{"patch parents"}, []string{"patch parents"}
			}
			kit := testkit.New(t, cluster, operator(name, config.Child{Type: k8s.ConfigMap, Strategy: tc.strategy}), h)
			it := func(count int, value string) map[string]any {
				return parent("one", map[string]any{"count": count, "value": value})
			}
			step := func(what string, act func(), want ...string) {
				t.Helper()
				from := log.mark(t)
				act()
				settle(t, kit)
				want = append([]string{}, want...)
				slices.Sort(want)
				got := traffic(t, log, from, name)
				if tc.strategy == config.Recreate { // it may look before it deletes
					got = slices.DeleteFunc(got, func(line string) bool { return strings.Contains(line, dryRun) })
				}
				require.Equal(t, want, got, "%s: %s", what, tc.reason)
			}
			step("create", func() { kit.Create(it(3, "a")) }, slices.Concat(first, times(3, "create configmaps"), []string{"update parents/status"})...)
			step("change the children", func() { kit.Update(it(3, "b")) }, append(slices.Clone(tc.update), "update parents/status")...)
			step("add one", func() { kit.Update(it(4, "b")) }, "create configmaps", "update parents/status")
			step("drop two", func() { kit.Update(it(2, "b")) }, "delete configmaps", "delete configmaps", "update parents/status")
			step("touch the parent", func() {
				kit.Update(map[string]any{
					"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "spec": it(2, "b")["spec"],
					"metadata": map[string]any{"name": "one", "annotations": map[string]any{"example.com/touched": "yes"}},
				})
			})
			step("restart", func() {
				kit.Restart(operator(name, config.Child{Type: k8s.ConfigMap, Strategy: tc.strategy}), h)
			})
			if !tc.finalize {
				// Nothing holds the parent, and the garbage collector may be faster
				// with its children than the watch that tells of its end.
				kit.Delete(it(0, ""))
				kit.EventuallyGone(it(0, ""), patience)
				return
			}
			step("delete", func() {
				kit.Delete(it(0, ""))
				kit.EventuallyGone(it(0, ""), patience)
			}, last...)
			require.Empty(t, kit.HandlerErrors(it(0, "")))
		})
	}
}

func TestC246_SettledIsSilent(t *testing.T) {
	scenario(t, "C246", "a settled operator makes no request")
	kit := testkit.New(t, cluster, operator("traffic-settled", configMapChild()), handler.SyncFunc(fleet))
	for i := range 20 {
		kit.Create(parent(fmt.Sprintf("p%d", i), map[string]any{"count": 3, "value": "v"}))
	}
	settle(t, kit)
	quiet(t, "traffic-settled")
}

func TestC247_StatusConflictFailsNothing(t *testing.T) {
	scenario(t, "C247", "a 409 on status fails nothing")
	log := needsAudit(t)
	_, untyped := clients(t, "somebody")
	var touches atomic.Int64
	w := newWitness()
	var once sync.Once
	ready := make(chan struct{})
	touch := func(namespace, name string) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/touched":"%d"}}}`, touches.Add(1))
		_, err := untyped.Resource(parents).Namespace(namespace).Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	h := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp, err := fleet(ctx, req)
		if err == nil && req.Children.Len() == 2 && touches.Load() < 3 { // the parent changes while its handler thinks
			err = touch(req.Parent.Namespace(), req.Parent.Name())
			once.Do(func() { close(ready) })
		}
		return resp, err
	}
	from := log.mark(t)
	kit := testkit.NewWithOptions(t, cluster, operator("traffic-conflict", configMapChild()), handler.SyncFunc(h), w.options())
	it := parent("one", map[string]any{"count": 2, "value": "v"})
	kit.Create(it)
	select {
	case <-ready:
	case <-time.After(patience):
		t.Fatal("the handler isn't called with its children")
	}
	kit.Eventually(map[string]any{
		"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "metadata": map[string]any{"name": "one"},
		"status": map[string]any{"seen": 2, "observedGeneration": 1},
	}, patience)
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(it))
	require.Contains(t, traffic(t, log, from, "traffic-conflict"), "update parents/status: 409")
	require.Contains(t, w.metrics(), `roperator_syncs_total{controller="traffic-conflict",result="error"} 0`)
	require.False(t, anyContains(kit.Events(it), "Warning"), "%q", kit.Events(it))
	require.NotContains(t, w.logged(), "level=ERROR")
}

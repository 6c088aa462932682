package catalog

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestFinalizers: the operator has one finalizer on a parent while there is something to
// finalize, and never touches those of others.
func TestFinalizers(t *testing.T) {
	const ours, former, theirs = "roperator.com/op", "roperator.com/old", "example.com/theirs"
	for name, tc := range map[string]struct {
		reason    string
		finalizes config.FinalizerPolicy
		held      []string
		wanted    []string
		without   []string
	}{
		"Missing":   {"there is something to finalize", config.FinalizerAlways, []string{theirs}, []string{theirs, ours}, []string{theirs}},
		"There":     {"once is enough", config.FinalizerAlways, []string{ours, theirs}, []string{ours, theirs}, []string{theirs}},
		"Unwanted":  {"a new build has nothing to finalize", config.FinalizerNever, []string{theirs, ours}, []string{theirs}, []string{theirs}},
		"Earlier":   {"an earlier build had another name", config.FinalizerAlways, []string{former, theirs}, []string{theirs, ours}, []string{theirs}},
		"Untouched": {"nothing is wanted, and nothing is ours", config.FinalizerNever, []string{theirs}, []string{theirs}, []string{theirs}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaults.Apply(config.Operator{Name: "op", Parent: sample.ParentType(), Finalizer: tc.finalizes, FormerFinalizers: []string{former}})
			types, err := Offline(cfg)
			require.NoError(t, err)
			s := NewSettings(cfg, handler.SyncFunc(nil), types)
			held := slices.Clone(tc.held)
			require.Equal(t, tc.wanted, s.WantedFinalizers(held), tc.reason)
			require.Equal(t, tc.held, held, "what a parent holds is left unchanged")
			require.Equal(t, tc.without, s.WithoutOurs(slices.Clone(held)))
		})
	}
}

// A plain handler says nothing of what it finalizes.
type plain struct{ handler.Handler }

// TestFinalizerAuto: a parent gets the finalizer if the handler has something to finalize, or if
// Teardown or Retain needs it. config.FinalizerAuto states the same.
func TestFinalizerAuto(t *testing.T) {
	finalize := func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) { return nil, nil }
	typedFinalize := func(context.Context, struct{}, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return nil, nil
	}
	for name, tc := range map[string]struct {
		reason           string
		cfg              config.Operator
		h                handler.Handler
		finalizes, holds bool
	}{
		"SyncFunc":      {"it has nothing to finalize", config.Operator{}, handler.SyncFunc(nil), false, false},
		"Funcs":         {"its FinalizeFunc is nil", config.Operator{}, handler.Funcs{}, false, false},
		"FinalizeFunc":  {"its FinalizeFunc is set", config.Operator{}, handler.Funcs{FinalizeFunc: finalize}, true, true},
		"Typed":         {"its FinalizeFunc is nil", config.Operator{}, handler.Typed[struct{}](nil), false, false},
		"TypedFinalize": {"its FinalizeFunc is set", config.Operator{}, handler.Typed(nil, handler.TypedFuncs[struct{}]{FinalizeFunc: typedFinalize}), true, true},
		"Own":           {"any other handler finalizes", config.Operator{}, plain{handler.SyncFunc(nil)}, true, true},
		"Never":         {"the policy decides", config.Operator{Finalizer: config.FinalizerNever}, handler.Funcs{FinalizeFunc: finalize}, false, false},
		"Always":        {"the policy decides", config.Operator{Finalizer: config.FinalizerAlways}, handler.SyncFunc(nil), true, true},
		"Ordered":       {"the deletion of children in order needs it", config.Operator{Teardown: config.TeardownOrdered}, handler.SyncFunc(nil), false, true},
		"Retain": {"the release of children needs it",
			config.Operator{Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace, Retain: true}}}, handler.SyncFunc(nil), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Name, tc.cfg.Parent = "op", sample.ParentType()
			cfg := defaults.Apply(tc.cfg)
			types, err := Offline(cfg)
			require.NoError(t, err)
			s := NewSettings(cfg, tc.h, types)
			require.Equal(t, tc.finalizes, s.Finalizes, tc.reason)
			require.Equal(t, tc.holds, s.Holds, tc.reason)
		})
	}
}

// TestCatalog_Order: other children may have to live in the Namespaces.
func TestCatalog_Order(t *testing.T) {
	cfg := defaults.Apply(config.Operator{Name: "op", Parent: sample.ParentType(), Children: []config.Child{
		{Type: k8s.Secret}, {Type: k8s.Namespace}, {Type: k8s.ConfigMap},
	}})
	c, err := Offline(cfg)
	require.NoError(t, err)
	for i, want := range []resource.Type{k8s.Namespace, k8s.Secret, k8s.ConfigMap} {
		require.Equal(t, want, c.Children[i].Type)
		require.Equal(t, i, c.Children[i].Order)
	}
}

// TestCatalog_Pending: a schema is pending again if its CRD is gone. That of a built-in
// type is known for good.
func TestCatalog_Pending(t *testing.T) {
	thing := resource.Type{APIVersion: "example.com/v1", Kind: "Thing"}
	cfg := defaults.Apply(config.Operator{Name: "op", Parent: sample.ParentType(), Children: []config.Child{{Type: k8s.ConfigMap}, {Type: thing}}})
	c, err := Offline(cfg)
	require.NoError(t, err)
	c = c.WithSchemas(map[resource.Type]Schema{thing: {}})
	require.False(t, c.Of(thing).SchemaPending())
	now := c.WithSchemas(nil, k8s.ConfigMap, thing)
	require.True(t, now.Of(thing).SchemaPending())
	require.False(t, now.Of(k8s.ConfigMap).SchemaPending(), "its schema is in this program")
	require.False(t, c.Of(thing).SchemaPending(), "a catalog is immutable")
	require.Same(t, now, now.WithSchemas(nil, thing), "nothing changes")
}

// TestCheckStorage: objects that an API server serves in two API groups would be
// conflicts of their own.
func TestCheckStorage(t *testing.T) {
	kind := func(kind, storage string) *Kind {
		return &Kind{Type: resource.Type{APIVersion: "a.com/v1", Kind: kind}, storage: storage}
	}
	require.ErrorContains(t, checkStorage(&Catalog{Parent: kind("P", "x"), Children: []*Kind{kind("C", "y"), kind("D", "y")}}), "a.com/v1/C and a.com/v1/D are the same objects")
	require.NoError(t, checkStorage(&Catalog{Parent: kind("P", "x"), Children: []*Kind{kind("C", "y"), kind("D", "")}}))
	require.NoError(t, checkStorage(&Catalog{Parent: kind("P", ""), Children: []*Kind{kind("C", "")}}), "an old API server doesn't say")
}

// Package api holds the public API to what operators compile against: a name
// that goes, or a signature that changes, doesn't compile here.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/failable"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

type (
	custom     struct{ Name string }
	nameMap    = map[string]string
	syncFunc   = func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error)
	objects    = iter.Seq[*resource.Resource]
	customs    = iter.Seq2[custom, error]
	someStatus = any
)

// Package resource.
var (
	_ = resource.Type{APIVersion: "v1", Kind: "Pod"} == k8s.Pod
	_ = resource.Mapping{Type: k8s.Pod, Plural: "pods", ClusterScoped: false}

	_ func(resource.Type) schema.GroupVersionKind         = resource.Type.GroupVersionKind
	_ func(resource.Type) string                          = resource.Type.String
	_ func(schema.GroupVersionKind) resource.Type         = resource.TypeFor
	_ func() []resource.Mapping                           = k8s.Mappings
	_ func(any) (*resource.Resource, error)               = resource.New
	_ func(*resource.Resource) (custom, error)            = resource.As[custom]
	_ func(*resource.Resource) resource.Type              = (*resource.Resource).Type
	_ func(*resource.Resource) types.NamespacedName       = (*resource.Resource).Key
	_ func(*resource.Resource) string                     = (*resource.Resource).Name
	_ func(*resource.Resource) string                     = (*resource.Resource).Namespace
	_ func(*resource.Resource) types.UID                  = (*resource.Resource).UID
	_ func(*resource.Resource) string                     = (*resource.Resource).ResourceVersion
	_ func(*resource.Resource) int64                      = (*resource.Resource).Generation
	_ func(*resource.Resource, string) (string, bool)     = (*resource.Resource).Label
	_ func(*resource.Resource) nameMap                    = (*resource.Resource).Labels
	_ func(*resource.Resource) nameMap                    = (*resource.Resource).Annotations
	_ func(*resource.Resource) []string                   = (*resource.Resource).Finalizers
	_ func(*resource.Resource) []metav1.OwnerReference    = (*resource.Resource).OwnerReferences
	_ func(*resource.Resource) *metav1.Time               = (*resource.Resource).DeletionTimestamp
	_ func(*resource.Resource) bool                       = (*resource.Resource).IsDeleting
	_ func(*resource.Resource, ...string) (any, bool)     = (*resource.Resource).Field
	_ func(*resource.Resource, any) error                 = (*resource.Resource).Decode
	_ func(*resource.Resource) *unstructured.Unstructured = (*resource.Resource).Unstructured
	_ json.Marshaler                                      = (*resource.Resource)(nil)
	_ fmt.Stringer                                        = (*resource.Resource)(nil)
)

// Package handler.
var (
	_ handler.Handler = handler.SyncFunc(nil)
	_ handler.Handler = handler.Funcs{
		SyncFunc:     syncFunc(nil),
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) { return nil, nil },
		ErrorFunc: func(context.Context, *handler.SyncRequest, error) (any, time.Duration) {
			return nil, 0
		},
	}
	_ handler.Handler = handler.Typed(func(context.Context, custom, handler.Children) (*handler.SyncResponse, error) { return nil, nil })
	_                 = handler.SyncRequest{Parent: (*resource.Resource)(nil), Children: handler.NewChildren()}
	_                 = handler.SyncResponse{
		Status: someStatus(nil), Children: []any{}, KeepChildren: false, Resync: time.Second,
		Events: []handler.Event{{Type: "Normal", Reason: "R", Message: "m"}},
	}
	_ = handler.FinalizeResponse{Finalized: true, Status: someStatus(nil), Retry: time.Second, Events: []handler.Event{}}

	_ func(error) error                                             = handler.Permanent
	_ func(*resource.Resource) any                                  = handler.Keep
	_ func(any, ...string) any                                      = handler.Leave
	_ func(...*resource.Resource) handler.Children                  = handler.NewChildren
	_ func(handler.Children, resource.Type) handler.View            = handler.Children.OfType
	_ func(handler.Children) objects                                = handler.Children.All
	_ func(handler.Children) int                                    = handler.Children.Len
	_ func(handler.Children, any) (*resource.Resource, bool)        = handler.Children.Find
	_ func(handler.View, string, string) (*resource.Resource, bool) = handler.View.Get
	_ func(handler.View) (*resource.Resource, bool)                 = handler.View.First
	_ func(handler.View) objects                                    = handler.View.All
	_ func(handler.View) int                                        = handler.View.Len
	_ func(handler.View, string, string) bool                       = handler.View.Exists
	_ func(*handler.SyncRequest, resource.Type) customs             = handler.ChildrenAs[custom]
	_ func(*handler.SyncRequest) (custom, error)                    = handler.ParentAs[custom]
)

// Package handler/failable.
type operator struct{ failable.Handler[custom] }

var (
	_ = failable.Wrap[custom](operator{}, failable.Options{
		Backoff: failable.BackoffConfig{}, RegularResync: time.Minute, DeleteChildrenOnError: true,
	})
	_ handler.Handler                                                          = failable.Wrap[custom](operator{}, failable.Options{})
	_ func(*failable.Result[custom]) error                                     = (*failable.Result[custom]).Err
	_ func(*failable.Result[custom]) (custom, bool)                            = (*failable.Result[custom]).Validated
	_ func(*failable.Result[custom]) bool                                      = (*failable.Result[custom]).OK
	_ func(*failable.ErrorBackoff, *handler.SyncRequest) (time.Duration, bool) = (*failable.ErrorBackoff).Next
	_ func(*failable.ErrorBackoff, *handler.SyncRequest)                       = (*failable.ErrorBackoff).Reset
	_                                                                          = failable.FixedInterval(time.Second)
	_                                                                          = failable.NeverRetry()
)

// Package config.
var (
	_ = config.Operator{
		Name: "", Parent: resource.Type{}, Namespaces: []string{}, ParentSelector: "", Domain: config.DefaultDomain,
		TrackingLabel: "", OwnershipLabel: "", Finalizer: config.FinalizerAuto, FormerFinalizers: []string{},
		MaxErrorBackoff: time.Second, MaxConcurrentSyncs: 1, HandlerTimeout: time.Second, DryRun: true, Mappings: []resource.Mapping{},
		Children: []config.Child{{Type: k8s.Pod, Strategy: config.Replace, Adopt: true, DeleteFirst: true, IgnoreFields: []string{}}},
	}
	_ = []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete, config.Apply}
	_ = []config.FinalizerPolicy{config.FinalizerAuto, config.FinalizerAlways, config.FinalizerNever}

	_ func(*config.Operator) error = (*config.Operator).Validate
)

// Package runner.
var (
	_ = runner.Options{
		RESTConfig: (*rest.Config)(nil), Logger: (*slog.Logger)(nil), Metrics: prometheus.Registerer(nil),
		TracerProvider: trace.TracerProvider(nil), LeaderElection: &runner.LeaderElection{
			Namespace: "", Name: "", Identity: "", LeaseDuration: time.Second, RenewDeadline: time.Second, RetryPeriod: time.Second,
		},
		MetricsAddress: "", HealthAddress: "", ShutdownTimeout: time.Second,
	}
	_ = runner.Spec{Config: config.Operator{}, Handler: handler.Handler(nil)}
	_ = runner.Change{Parent: types.NamespacedName{}, Object: types.NamespacedName{}, Type: resource.Type{}, Verb: "", Fields: []runner.FieldChange{{Path: "", Live: nil, Desired: nil}}}

	_ func(config.Operator, handler.Handler)                                                           = runner.Main
	_ func(context.Context, config.Operator, handler.Handler, runner.Options) error                    = runner.Run
	_ func(config.Operator, handler.Handler, runner.Options) (*runner.Runner, error)                   = runner.New
	_ func(*runner.Runner, context.Context) error                                                      = (*runner.Runner).Start
	_ func(*runner.Runner) error                                                                       = (*runner.Runner).Ready
	_ func(context.Context, runner.Options, ...runner.Spec) error                                      = runner.RunAll
	_ func(context.Context, config.Operator, handler.Handler, runner.Options) ([]runner.Change, error) = runner.Plan
)

// Package testkit.
var (
	_       = testkit.ClusterOptions{CRDPaths: []string{}, ControllerManager: true}
	_       = testkit.Write{Verb: "", Type: resource.Type{}, Key: types.NamespacedName{}, Object: (*resource.Resource)(nil)}
	_ error = (*testkit.HotLoopError)(nil)

	_ func(testkit.ClusterOptions) (*testkit.Cluster, error)                            = testkit.Start
	_ func(*testkit.Cluster) error                                                      = (*testkit.Cluster).Stop
	_ func(*testkit.Cluster) *rest.Config                                               = (*testkit.Cluster).RESTConfig
	_ func(*testkit.Cluster) string                                                     = (*testkit.Cluster).Kubeconfig
	_ func(*testkit.Cluster) bool                                                       = (*testkit.Cluster).HasControllerManager
	_ func(testing.TB, *testkit.Cluster, config.Operator, handler.Handler) *testkit.Kit = testkit.New
	_ func(*testkit.Kit, any) *resource.Resource                                        = (*testkit.Kit).Get
	_ func(*testkit.Kit, any, time.Duration)                                            = (*testkit.Kit).Eventually
	_ func(*testkit.Kit, any, time.Duration)                                            = (*testkit.Kit).EventuallyGone
	_ func(*testkit.Kit, any, time.Duration)                                            = (*testkit.Kit).EventuallyExists
	_ func(*testkit.Kit, time.Duration) error                                           = (*testkit.Kit).Settle
	_ func(*testkit.Kit) []testkit.Write                                                = (*testkit.Kit).Writes
	_ func(io.Writer, handler.Handler) handler.Handler                                  = testkit.Record
	_ func(testing.TB, io.Reader, handler.Handler)                                      = testkit.Replay
	_ func(testing.TB, config.Operator, handler.Handler, any, ...any) *testkit.Plan     = testkit.Sync
	_ func(testing.TB, config.Operator, any, ...any) *handler.SyncRequest               = testkit.Request
	_ func(*testing.M, testkit.ClusterOptions, **testkit.Cluster)                       = testkit.Main
)

// The methods whose results a test ignores, or whose parameters convert.
func use(k *testkit.Kit, p *testkit.Plan, object any) {
	_ = k.Namespace
	k.Create(object)
	k.Update(object)
	k.Delete(object)
	_ = handler.SyncRequest{Parent: k.Snapshot(object).Parent}
	_ = errors.Join(k.HandlerErrors(object)...)
	_ = []int{k.Syncs(object), k.Finalizes(object)}
	_ = strings.Join(k.Events(object), "")
	p.WantCreate(object)
	p.WantUpdate(object)
	p.WantDelete(object)
	p.WantStatus(object)
	p.WantError("spec")
	p.WantNothing()
	p.Golden("testdata/plan.yaml")
}

// What a request is recorded as reads back as the same.
func TestRequestRoundTrip(t *testing.T) {
	_ = use
	parent, err := resource.New([]byte(`{"apiVersion":"example.com/v1","kind":"Parent","metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"1"},"spec":{"a":1}}`))
	require.NoError(t, err)
	first, err := json.Marshal(handler.SyncRequest{Parent: parent, Children: handler.NewChildren(parent)})
	require.NoError(t, err)
	var back handler.SyncRequest
	require.NoError(t, json.Unmarshal(first, &back))
	second, err := json.Marshal(back)
	require.NoError(t, err)
	require.JSONEq(t, string(first), string(second))
	require.Equal(t, 1, back.Children.Len())
}

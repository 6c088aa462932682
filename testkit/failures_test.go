package testkit

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

func TestKitFailures(t *testing.T) {
	t.Parallel()
	config := widgets("kit-failures")
	kit := New(t, cluster, config, handler.SyncFunc(children))
	kit.Create(widget("one", map[string]any{"value": "a"}))
	kit.Eventually(configMap("one", map[string]string{"value": "a"}), patience)
	require.NoError(t, kit.Settle(patience))
	id := func(kind, name string) string { return kind + " " + kit.Namespace + "/" + name }
	held := configMap("held", nil)
	held.Finalizers = []string{"example.com/held"}
	kit.Create(held)
	kit.Delete(held)
	cases := map[string]struct {
		reason string
		do     func(k *Kit)
		want   []string
	}{
		"another value": {
			reason: "the field, with both values",
			do: func(k *Kit) {
				k.Eventually(configMap("one", map[string]string{"value": "b", "more": "c"}), 100*time.Millisecond)
			},
			want: []string{id("ConfigMap", "one") + " isn't as wanted: after 100ms", `data.value: live "a", want "b"`,
				`data.more: live absent, want "c"`},
		},
		"another value in a Secret": {
			reason: "the field, without either value",
			do: func(k *Kit) {
				k.Eventually(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string][]byte{"password": []byte("x")}}, time.Millisecond)
			},
			want: []string{id("Secret", "one"), "data.password: live (not shown), want (not shown)"},
		},
		"absent": {
			reason: "not there is another thing than different",
			do:     func(k *Kit) { k.Eventually(configMap("two", nil), time.Millisecond) },
			want:   []string{id("ConfigMap", "two") + " isn't as wanted: after 1ms", "it doesn't exist"},
		},
		"exists": {
			reason: "who waits for it knows what to look for",
			do:     func(k *Kit) { k.EventuallyExists(configMap("two", nil), time.Millisecond) },
			want:   []string{id("ConfigMap", "two") + " doesn't exist: after 1ms"},
		},
		"gone": {
			reason: "whether anybody has deleted it",
			do:     func(k *Kit) { k.EventuallyGone(configMap("one", nil), time.Millisecond) },
			want:   []string{id("ConfigMap", "one") + " still exists: after 1ms", "nobody has deleted it"},
		},
		"held back": {
			reason: "by which finalizer",
			do:     func(k *Kit) { k.EventuallyGone(held, time.Millisecond) },
			want:   []string{"it is being deleted since", `finalizers: ["example.com/held"]`},
		},
		"delete of nothing": {
			reason: "a test that deletes what isn't there tests nothing",
			do:     func(k *Kit) { k.Delete(configMap("two", nil)) },
			want:   []string{"delete " + id("ConfigMap", "two"), "not found"},
		},
		"create what is there": {
			reason: "the object is named",
			do:     func(k *Kit) { k.Create(configMap("one", nil)) },
			want:   []string{"create " + id("ConfigMap", "one"), "already exists"},
		},
		"a typo": {
			reason: "unknown fields are refused",
			do: func(k *Kit) {
				k.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "dta": 1})
			},
			want: []string{"create " + id("ConfigMap", "x"), `unknown field "dta"`},
		},
		"a type that isn't served": {
			reason: "most often a CRD was forgotten",
			do: func(k *Kit) {
				k.Get(map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "x"}})
			},
			want: []string{"example.com/v1/Thing isn't served: add its CustomResourceDefinition to ClusterOptions.CRDPaths"},
		},
		"a version that isn't served": {
			reason: "the ones that are served are named",
			do: func(k *Kit) {
				k.Get(map[string]any{"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": map[string]any{"name": "x"}})
			},
			want: []string{"apps/v1beta1/Deployment isn't served, but apps/v1/Deployment is"},
		},
		"no name":       {reason: "what is missing is named", do: func(k *Kit) { k.Get(&corev1.Pod{}) }, want: []string{"Pod: metadata.name is missing"}},
		"no type":       {reason: "what is missing is named", do: func(k *Kit) { k.Get(map[string]any{}) }, want: []string{"apiVersion or kind is missing"}},
		"not an object": {reason: "the Go type is named", do: func(k *Kit) { k.Get(7) }, want: []string{"int: not an object"}},
		"nil":           {reason: "no panic", do: func(k *Kit) { k.Get(nil) }, want: []string{"object is nil"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			failed := fake(t, func(tb testing.TB) {
				k := *kit
				k.t = tb
				c.do(&k)
			})
			for _, want := range c.want {
				require.Contains(t, failed.failure(), want, c.reason)
			}
			require.NotContains(t, failed.failure(), "aHVudGVyMg", "the password")
		})
	}
	removeFinalizers := configMap("held", nil)
	live := kit.Get(held).Unstructured()
	live.SetFinalizers(nil)
	kit.Update(live)
	kit.EventuallyGone(removeFinalizers, patience)
}

func TestSettleNamesWhatNeverSettles(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	restless := func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{configMap(req.Parent.Name(), map[string]string{
			"same": "a", "count": fmt.Sprint(n.Add(1)),
		})}}, nil
	}
	kit := New(t, cluster, widgets("kit-restless"), handler.SyncFunc(restless))
	kit.Create(widget("one", nil))
	var loop *HotLoopError
	require.ErrorAs(t, kit.Settle(patience), &loop)
	require.Equal(t, k8s.ConfigMap, loop.Type)
	require.Equal(t, kit.Namespace+"/one", loop.Object.String())
	require.Equal(t, "data.count", loop.Path)
	require.GreaterOrEqual(t, len(loop.Values), 2)
	require.Contains(t, loop.Error(), "whose data.count keeps changing: ")
}

func TestSettleWithAHandlerThatDoesntReturn(t *testing.T) {
	t.Parallel()
	called, release := make(chan struct{}, 1), make(chan struct{})
	stuck := func(_ context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
		select {
		case called <- struct{}{}:
		default: // it was called before
		}
		<-release
		return &handler.SyncResponse{}, nil
	}
	kit := New(t, cluster, widgets("kit-stuck"), handler.SyncFunc(stuck))
	kit.Create(widget("one", nil))
	<-called
	var loop *HotLoopError
	require.ErrorAs(t, kit.Settle(time.Second), &loop)
	require.Empty(t, loop.Object.Name)
	close(release)
	require.NoError(t, kit.Settle(patience))
}

func TestKitSaysWhyTheOperatorDoesntStart(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*config.Operator)
		want   string
	}{
		"invalid configuration": {
			reason: "what Validate says", want: "operator kit-start: ",
			change: func(o *config.Operator) { o.Children[0].Strategy = "" },
		},
		"no CRD": {
			reason: "the parent's type is named", want: "testkit: parent: example.com/v1/Thing isn't served",
			change: func(o *config.Operator) { o.Parent = resource.Type{APIVersion: "example.com/v1", Kind: "Thing"} },
		},
		"no CRD of a child": {
			reason: "the operator's own message", want: "operator kit-start: stopped: ",
			change: func(o *config.Operator) {
				o.Children[0].Type = resource.Type{APIVersion: "example.com/v1", Kind: "Thing"}
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := fake(t, func(tb testing.TB) {
				cfg := widgets("kit-start")
				c.change(&cfg)
				New(tb, cluster, cfg, handler.SyncFunc(children))
			})
			require.Contains(t, failed.failure(), c.want, c.reason)
			require.Equal(t, 1, strings.Count(failed.failure(), "testkit: "), "it is said once")
		})
	}
}

func TestKitStartsAgainIfTheAPIServerIsBusy(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	busy.Store(true)
	rc := cluster.RESTConfig()
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper{next, func(req *http.Request) (*http.Response, error) {
			if busy.CompareAndSwap(true, false) {
				<-req.Context().Done() // no answer in time
			}
			return next.RoundTrip(req)
		}}
	})
	kit := NewWithOptions(t, cluster, widgets("kit-busy"), handler.SyncFunc(children), KitOptions{Runner: runner.Options{RESTConfig: rc}})
	require.False(t, busy.Load())
	kit.Create(widget("one", map[string]any{"value": "a"}))
	kit.Eventually(configMap("one", map[string]string{"value": "a"}), patience)
}

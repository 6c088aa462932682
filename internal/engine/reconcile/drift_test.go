package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// A lock rejects each write that gives data.locked of the ConfigMap one another value than theirs.
type lock struct {
	off     atomic.Bool
	rejects func() error
	tries   atomic.Int64 // that were rejected
}

func (l *lock) before(req fakeapi.Request) error {
	var object struct {
		Metadata struct{ Name string }
		Data     map[string]string
	}
	if req.Type != k8s.ConfigMap || req.Verb != "update" || req.Key.Name != "one" || l.off.Load() {
		return nil
	}
	switch err := json.Unmarshal(req.Body, &object); {
	case err != nil:
		return err
	case object.Data["locked"] == "theirs":
		return nil
	}
	l.tries.Add(1)
	return l.rejects()
}

func immutable() error {
	path := field.NewPath("data").Key("locked")
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "one", field.ErrorList{field.Forbidden(field.NewPath("data", "locked"), "may not be changed"), field.Forbidden(path, "may not be changed")})
}

func denied() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "one", fmt.Errorf(`admission webhook "lock.example.com" denied the request: locked`))
}

// locked desires a ConfigMap with two values, one behind it, and as many more as the parent says.
func locked(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	one := rig.Copied("one", "x")
	one["data"] = map[string]any{"locked": "ours", "free": "ours"}
	behind := rig.Copied("behind", value)
	resp := &handler.SyncResponse{Status: map[string]any{"value": value}, Children: []any{one, handler.After(behind, one)}}
	if value == "more" {
		resp.Children = append(resp.Children, rig.Copied("more", value))
	}
	return resp, nil
}

// TestDrift_Rejected: S177, S180, S189. The API server rejects the correction of one field.
func TestDrift_Rejected(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		child   config.Child
		rejects func() error
		free    string // what becomes of the other field that was changed, too
	}{
		"Replace":           {"the API server names the field, so the other one is corrected", config.Child{Strategy: config.Replace}, immutable, "ours"},
		"Recreate":          {"drift recreates nothing", config.Child{Strategy: config.Recreate}, immutable, "ours"},
		"RecreateImmutable": {"nor as an immutable field", config.Child{Strategy: config.Replace, RecreateImmutable: true}, immutable, "ours"},
		"Denied":            {"a webhook names no field, so nothing can be corrected", config.Child{Strategy: config.Replace}, denied, "theirs"},
		"DeniedRecreate":    {"under each strategy", config.Child{Strategy: config.Recreate}, denied, "theirs"},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restart=%t", name, restart), func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					cfg := rig.Config()
					tc.child.Type = k8s.ConfigMap
					cfg.Children = []config.Child{tc.child}
					server, l := rig.Server(), &lock{rejects: tc.rejects}
					l.off.Store(true)
					server.SetHooks(fakeapi.Hooks{Before: l.before})
					r := rig.Start(t, server, cfg, handler.SyncFunc(locked))
					r.Create("p", "more")
					rig.Elapse(time.Second)
					uid := r.Get(k8s.ConfigMap, "one").UID()
					if restart {
						r.Stop()
					}
					l.off.Store(false)
					r.Change(k8s.ConfigMap, "one", func(o map[string]any) {
						o["data"] = map[string]any{"locked": "theirs", "free": "theirs"}
						o["metadata"].(map[string]any)["managedFields"] = []any{entryOf("op", "f:more"), entryOf("kubectl-edit", "f:locked", "f:free")}
					})
					require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("behind")))
					if restart {
						r = rig.Start(t, server, cfg, handler.SyncFunc(locked))
					}
					rig.Elapse(time.Minute)
					data := func() any {
						value, _ := r.Get(k8s.ConfigMap, "one").Field("data")
						return value
					}
					require.Equal(t, map[string]any{"locked": "theirs", "free": tc.free}, data(), tc.reason)
					require.Equal(t, uid, r.Get(k8s.ConfigMap, "one").UID(), "S189: it is not recreated")
					require.NotNil(t, r.Get(k8s.ConfigMap, "behind"), "S189: what waits for it goes on")
					require.Empty(t, r.Errors("p"))
					require.LessOrEqual(t, l.tries.Load(), int64(12), "a minute of tries with backoff")
					var reports []string
					for _, e := range recorded(r) {
						if strings.HasPrefix(e, "Warning CorrectionRejected: ") {
							reports = append(reports, e)
						}
						require.NotContains(t, e, "SyncFailed")
					}
					require.Len(t, reports, 1, "S180: one report")
					for _, part := range []string{`data.locked keeps "theirs" instead of "ours"`, `IgnoreFields: []string{`, `"data.locked"`} {
						require.Contains(t, reports[0], part)
					}
					if tc.free == "theirs" { // the fake API server drops managedFields at a write
						require.Contains(t, reports[0], "field manager kubectl-edit")
					}
					tried := l.tries.Load()
					for range 100 { // events of the child
						r.Change(k8s.ConfigMap, "one", func(o map[string]any) {
							o["metadata"].(map[string]any)["annotations"].(map[string]any)["n"] = fmt.Sprint(time.Now().UnixNano())
						})
						rig.Elapse(100 * time.Millisecond)
					}
					require.LessOrEqual(t, l.tries.Load()-tried, int64(7), "an event is no reason to send it again")
					r.SetSpec("p", "less")
					rig.Elapse(time.Second)
					require.Nil(t, r.Get(k8s.ConfigMap, "more"), "S189: deletes go on")
					l.off.Store(true)
					rig.Elapse(time.Hour)
					r.SetSpec("p", "least") // a 422 is tried again by the parent's next reconciliation
					rig.Elapse(time.Second)
					require.Equal(t, map[string]any{"locked": "ours", "free": "ours"}, data(), "it is corrected once the API server accepts that")
					require.Empty(t, r.Errors("p"))
					r.Stop()
				})
			})
		}
	}
}

// entryOf returns an entry of managedFields that owns these fields of data.
func entryOf(manager string, fields ...string) any {
	data := map[string]any{}
	for _, f := range fields {
		data[f] = map[string]any{}
	}
	return map[string]any{"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:data": data}}
}

// TestDrift_Mark: an applied annotation that can't be put back is drift, too.
func TestDrift_Mark(t *testing.T) {
	for name, changes := range map[string]func(o map[string]any){
		"alone":       func(map[string]any) {},
		"and a field": func(o map[string]any) { o["data"] = map[string]any{"locked": "ours", "free": "theirs"} },
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				var frozen atomic.Bool
				var tries atomic.Int64
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if frozen.Load() && req.Type == k8s.ConfigMap && req.Key.Name == "one" && req.Writes() {
						tries.Add(1)
						return denied()
					}
					return nil
				}})
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(locked))
				r.Create("p", "more")
				rig.Elapse(time.Second)
				frozen.Store(true)
				r.Change(k8s.ConfigMap, "one", func(o map[string]any) {
					delete(o["metadata"].(map[string]any), "annotations")
					changes(o)
				})
				rig.Elapse(time.Minute)
				require.Empty(t, r.Errors("p"))
				require.LessOrEqual(t, tries.Load(), int64(2*12), "two requests a try, with backoff")
				r.SetSpec("p", "less")
				rig.Elapse(time.Second)
				require.Nil(t, r.Get(k8s.ConfigMap, "more"), "S189: it holds no delete")
				frozen.Store(false)
				rig.Elapse(time.Hour)
				require.NotEmpty(t, r.Get(k8s.ConfigMap, "one").Annotations(), "it is put back once that is accepted")
				free, _ := r.Get(k8s.ConfigMap, "one").Field("data", "free")
				require.Equal(t, "ours", free)
				require.Empty(t, r.Errors("p"))
				r.Stop()
			})
		})
	}
}

// TestDrift_Many: a policy freezes many children that another client has changed. Few corrections are sent at a time, and no other write
// of the type waits for them.
func TestDrift_Many(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const many = 200
		server := rig.Server()
		var frozen atomic.Bool
		var tries, reads atomic.Int64
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			switch {
			case req.Type != k8s.ConfigMap || !frozen.Load():
			case req.Verb == "get":
				reads.Add(1)
			case req.Verb == "update":
				tries.Add(1)
				return denied()
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(numbered))
		r.Create("p", fmt.Sprint(many))
		rig.Elapse(time.Second)
		frozen.Store(true)
		for i := range many {
			r.Change(k8s.ConfigMap, fmt.Sprintf("c%04d", i), func(o map[string]any) {
				o["data"] = map[string]any{"value": "theirs"}
				o["metadata"].(map[string]any)["managedFields"] = []any{entryOf("kubectl-edit", "f:value")}
			})
		}
		for range 60 {
			before := tries.Load()
			rig.Elapse(time.Second)
			require.LessOrEqual(t, tries.Load()-before, int64(2*apply.MaxWritesPerPass), "some tell for all")
		}
		require.Empty(t, r.Errors("p"))
		require.LessOrEqual(t, reads.Load(), int64(many), "the report of each child costs one read")
		frozen.Store(false)
		rig.Elapse(time.Hour)
		for i := range many {
			value, _ := r.Get(k8s.ConfigMap, fmt.Sprintf("c%04d", i)).Field("data", "value")
			require.Equal(t, fmt.Sprint(many), value, "c%04d", i)
		}
		r.Stop()
	})
}

// TestDrift_MissingRight: that the operator may not write a child is an error, as ever.
func TestDrift_MissingRight(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, l := rig.Server(), &lock{rejects: func() error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "one", errors.New(`User "u" cannot update resource "configmaps" in API group "" in the namespace "ns"`))
		}}
		l.off.Store(true)
		server.SetHooks(fakeapi.Hooks{Before: l.before})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(locked))
		r.Create("p", "v")
		rig.Elapse(time.Second)
		l.off.Store(false)
		r.Change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"locked": "other", "free": "ours"} })
		rig.Elapse(time.Minute)
		require.NotEmpty(t, r.Errors("p"))
		require.ErrorContains(t, r.Errors("p")[0], "configmaps")
		r.Stop()
	})
}

package manager_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A bench answers reviews: what is denied isn't allowed.
type bench struct {
	mu     sync.Mutex
	denied []string // "verb resource", with "/subresource" and " namespace" where there are any
	asked  []string // the same of all reviews
	err    error    // answers every review, unless nil
}

func (b *bench) review(asked authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := asked.Verb + " " + asked.Resource
	if asked.Subresource != "" {
		text += "/" + asked.Subresource
	}
	if asked.Namespace != "" {
		text += " " + asked.Namespace
	}
	b.asked = append(b.asked, text)
	return authorizationv1.SubjectAccessReviewStatus{Allowed: !slices.Contains(b.denied, text)}, b.err
}

func (b *bench) deny(rights ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.denied = rights
}

// reviews returns what was asked for, sorted.
func (b *bench) reviews() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.asked))
}

// forbidden is the API server's refusal of a list of ConfigMaps.
func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New(`User "u" cannot list resource "configmaps" in API group "" at the cluster scope`))
}

func refusingLists(b *bench) fakeapi.Hooks {
	return fakeapi.Hooks{Review: b.review, Before: func(r fakeapi.Request) error {
		if r.Verb == "list" && r.Type == k8s.ConfigMap {
			return forbidden()
		}
		return nil
	}}
}

// All missing rules are in one error, before anything is done, if one of them is required.
func TestRights_AllAreNamedAtOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		b := &bench{denied: []string{
			"delete configmaps", "watch parents", "update parents/status", "update parents/finalizers", "list configmaps", "create leases ns", "update leases ns", "create events", "patch events",
		}}
		server.SetHooks(fakeapi.Hooks{Review: b.review})
		begin := time.Now()
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		require.EqualError(t, <-one.ended, strings.Join([]string{
			`parents.example.com: watch is forbidden in all namespaces; add the rule {apiGroups: ["example.com"], resources: ["parents"], verbs: ["watch"]}`,
			`configmaps: list, delete are forbidden in all namespaces; add the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["list", "delete"]}`,
			`leases.coordination.k8s.io: create, update are forbidden in the namespace ns; add the rule {apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create", "update"]}`,
			`parents.example.com/status: update is forbidden in all namespaces; add the rule {apiGroups: ["example.com"], resources: ["parents/status"], verbs: ["update"]}`,
			`parents.example.com/finalizers: update is forbidden in all namespaces, which matters only where the admission plugin OwnerReferencesPermissionEnforcement is on; ` +
				`add the rule {apiGroups: ["example.com"], resources: ["parents/finalizers"], verbs: ["update"]}`,
			`events.events.k8s.io: create, patch are forbidden in all namespaces; add the rule {apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"]}`,
		}, "\n"))
		require.Zero(t, time.Since(begin), "at once")
		require.Empty(t, server.Requests(), "nothing else was tried")
		require.Nil(t, holder(server))
	})
}

// A replica that only waits for the lease doesn't look as if it could take over.
func TestRights_StandbyLooksToo(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := electionServer(), &bench{}
		server.SetHooks(fakeapi.Hooks{Review: b.review})
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Second)
		require.Equal(t, "one", holder(server))
		b.deny("update leases ns")
		two := startReplica(t, server, "two", handler.SyncFunc(rig.Copier))
		require.ErrorContains(t, <-two.ended, "leases.coordination.k8s.io: update is forbidden in the namespace ns; add the rule ")
		require.NotContains(t, one.logs.String(), "level=WARN")
		one.cancel()
		require.NoError(t, <-one.ended)
	})
}

// A handler may never need what is missing: that is said once, and the operator starts.
func TestRights_OthersOnlyWarn(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := electionServer(), &bench{denied: []string{"create leases ns", "delete configmaps", "get parents", "create events"}}
		server.SetHooks(fakeapi.Hooks{Review: b.review})
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		rig.CreateParent(t, server, "p", "v")
		rig.Elapse(10 * time.Minute)
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p")))
		const warning = `level=WARN msg="RBAC doesn't allow all that may be needed; what needs it will be refused"`
		require.Equal(t, 1, strings.Count(one.logs.String(), warning))
		line := one.logs.String()[strings.Index(one.logs.String(), warning):]
		line, _, _ = strings.Cut(line, "\n")
		for _, text := range []string{`parents.example.com: get is`, `configmaps: delete is`, `leases.coordination.k8s.io: create is`, `events.events.k8s.io: create is`} {
			require.Contains(t, line, text)
		}
		one.cancel()
		require.NoError(t, <-one.ended)
		require.Equal(t, slices.Sorted(slices.Values([]string{
			"get parents", "list parents", "watch parents", "patch parents", "update parents/status", "update parents/finalizers",
			"get configmaps", "list configmaps", "watch configmaps", "create configmaps", "update configmaps", "patch configmaps", "delete configmaps",
			"create events", "patch events", "get leases ns", "create leases ns", "update leases ns",
		})), b.reviews(), "each once, and never again")
	})
}

// An operator that can't ask for its rights starts as if it had them. One that then
// begins to lead, and may not list, doesn't hold the lease and do nothing.
func TestRights_ThatCannotBeAskedFor(t *testing.T) {
	for name, err := range map[string]error{
		"Forbidden":  apierrors.NewForbidden(schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}, "", errors.New("no")),
		"Not served": apierrors.NewNotFound(schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}, ""),
		"Broken":     errors.New("connection reset by peer"),
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, b := electionServer(), &bench{err: err}
				server.SetHooks(refusingLists(b))
				one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
				rig.Elapse(10 * time.Second)
				ended := <-one.ended
				require.EqualError(t, ended, "can't begin to lead: v1/ConfigMap: list: "+forbidden().Error()+`; add the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["list"]}`)
				require.True(t, apierrors.IsForbidden(ended))
				require.Contains(t, one.logs.String(), `level=INFO msg="can't look at all rights before the start; a missing one is named when a request is refused"`)
				require.Empty(t, holder(server), "the lease is free")

				server.SetHooks(fakeapi.Hooks{Review: b.review})
				one = startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
				rig.CreateParent(t, server, "p", "v")
				rig.Elapse(10 * time.Second)
				require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p")))
				one.cancel()
				require.NoError(t, <-one.ended)
			})
		})
	}
}

// A right may be withdrawn from a replica that waits.
func TestRights_LostBeforeItLeads(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := electionServer(), &bench{}
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		two := startReplica(t, server, "two", handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		server.SetHooks(refusingLists(b))
		one.cancel()
		require.NoError(t, <-one.ended)
		require.ErrorContains(t, <-two.ended, "can't begin to lead: v1/ConfigMap: list: ")
		require.Empty(t, holder(server))
	})
}

// Whoever can't begin to lead for another reason says so once, not each second.
func TestRefresh_SaysOnceWhyItFails(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "list" {
				return apierrors.NewInternalError(errors.New("etcd has no leader"))
			}
			return nil
		}})
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		rig.CreateParent(t, server, "p", "v")
		rig.Elapse(9 * time.Second)
		require.Equal(t, 2, strings.Count(one.logs.String(), "can't begin to lead yet, retrying"), "once for each type")
		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(time.Second)
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p")), "it is tried again each second")
		one.cancel()
		require.NoError(t, <-one.ended)
	})
}

// An operator of some namespaces needs its rights in each of them.
func TestRights_OfNamespaces(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := rig.Server(), &bench{denied: []string{"list parents a", "list parents c", "create events b", "patch configmaps c", "list parents", "list configmaps"}}
		server.SetHooks(fakeapi.Hooks{Review: b.review})
		cfg := rig.Config()
		cfg.Namespaces = []string{"a", "b", "c"}
		err := rig.RunOne(t.Context(), cfg, handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()})
		require.EqualError(t, err, strings.Join([]string{
			`parents.example.com: list is forbidden in the namespaces a, c; add the rule {apiGroups: ["example.com"], resources: ["parents"], verbs: ["list"]}`,
			`configmaps: patch is forbidden in the namespace c; add the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["patch"]}`,
			`events.events.k8s.io: create is forbidden in the namespace b; add the rule {apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create"]}`,
		}, "\n"))
		require.Len(t, b.reviews(), 3*15)
	})
}

// Several operators in a process look at what both need once, and name together what
// they lack.
func TestRights_OfSeveralOperators(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Custom(otherParent, "others"), fakeapi.ConfigMaps(), fakeapi.Secrets())
		b := &bench{denied: []string{"watch others", "list configmaps"}}
		server.SetHooks(fakeapi.Hooks{Review: b.review})
		h := handler.SyncFunc(rig.Copier)
		err := rig.RunAll(t.Context(), manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()}, twoOperators(h, h)...)
		require.ErrorContains(t, err, "configmaps: list is forbidden in all namespaces; ")
		require.ErrorContains(t, err, "others.example.com: watch is forbidden in all namespaces; ")
		require.Equal(t, slices.Compact(b.reviews()), b.reviews(), "both need Events")
	})
}

// A dry run takes no lease, and needs no right for it. What it reads it needs.
func TestRights_OfDryRuns(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := electionServer(), &bench{denied: []string{"update leases ns"}}
		server.SetHooks(fakeapi.Hooks{Review: b.review})
		cfg := rig.Config()
		cfg.DryRun = true
		opts := manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog(), LeaderElection: &lead.Config{Namespace: "ns"}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, rig.RunOne(ctx, cfg, handler.SyncFunc(rig.Copier), opts))
		b.deny("list parents")
		require.ErrorContains(t, rig.RunOne(t.Context(), cfg, handler.SyncFunc(rig.Copier), opts), "parents.example.com: list is forbidden")
	})
}

// A plan starts nothing. It names all lists that it isn't allowed to make.
func TestRights_OfPlans(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := rig.Server(), &bench{denied: []string{"watch parents"}}
		hooks := fakeapi.Hooks{Review: b.review, Before: func(fakeapi.Request) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no"))
		}}
		server.SetHooks(hooks)
		_, err := rig.Plan(server, rig.Config(), handler.SyncFunc(rig.Copier))
		require.ErrorContains(t, err, `resources: ["parents"], verbs: ["list"]`)
		require.ErrorContains(t, err, `resources: ["configmaps"], verbs: ["list"]`)
		hooks.Before = nil
		server.SetHooks(hooks)
		_, err = rig.Plan(server, rig.Config(), handler.SyncFunc(rig.Copier))
		require.NoError(t, err, "it watches nothing")
		require.Empty(t, b.reviews())
	})
}

// An operator that is told to stop while it looks at its rights has nothing to complain
// about.
func TestRights_ToldToStop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := rig.Server(), &bench{denied: []string{"list parents"}}
		ctx, cancel := context.WithCancel(t.Context())
		server.SetHooks(fakeapi.Hooks{Review: func(asked authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
			cancel()
			return b.review(asked)
		}})
		logs := &rig.Logs{}
		require.NoError(t, rig.RunOne(ctx, rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: server.RESTConfig(), Logger: slog.New(slog.NewTextHandler(logs, nil))}))
		require.Empty(t, logs.String())
		require.Empty(t, server.Requests())
	})
}

// A right that is withdrawn from a running operator is named once, with its rule, and not
// at each attempt. The operator isn't ready until it has the right back.
func TestRights_LostWhileRunning(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		fail := func(err error) {
			server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Type == k8s.ConfigMap && (r.Verb == "watch" || r.Verb == "list") {
					return err
				}
				return nil
			}})
		}
		fail(errors.New("connection refused"))
		server.BreakWatches()
		rig.Elapse(time.Minute)
		const rule = `; add the rule {apiGroups: [""], resources: ["configmaps"], verbs: [`
		named := func() int { return strings.Count(r.Logs.String(), strings.ReplaceAll(rule, `"`, `\"`)) }
		require.Zero(t, named())
		fail(forbidden())
		rig.Elapse(time.Hour)
		require.Equal(t, 1, named(), "also if the API server was away before")
		err := r.Manager.Ready()
		require.ErrorContains(t, err, "v1/ConfigMap: ")
		require.ErrorContains(t, err, rule)
		fail(errors.New("connection refused"))
		rig.Elapse(time.Hour)
		fail(forbidden())
		rig.Elapse(time.Hour)
		require.Equal(t, 1, named(), "it was never back")
		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(time.Minute)
		require.NoError(t, r.Manager.Ready())
		fail(forbidden())
		server.BreakWatches()
		rig.Elapse(time.Hour)
		require.Equal(t, 2, named(), "it is lost once more")
		r.Stop()
	})
}

// A slow API server delays the start by seconds at most, and doesn't have many reviews to
// answer at a time.
func TestRights_SlowAnswers(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, b := rig.Server(), &bench{denied: []string{"patch configmaps"}}
		running, most := 0, 0
		server.SetHooks(fakeapi.Hooks{Review: func(asked authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
			b.mu.Lock()
			running++
			most = max(most, running)
			b.mu.Unlock()
			<-time.After(6 * time.Second)
			b.mu.Lock()
			running--
			b.mu.Unlock()
			return b.review(asked)
		}})
		begin := time.Now()
		r := rig.StartWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: server.RESTConfig()})
		until(t, time.Minute, func() bool { return r.Manager.Ready() == nil })
		require.Less(t, time.Since(begin), 7*time.Second, "those under way end, others aren't begun")
		require.Equal(t, 8, most, "at a time")
		require.Len(t, b.reviews(), 8)
		require.Contains(t, r.Logs.String(), "can't look at all rights before the start")
		r.Stop()
	})
}

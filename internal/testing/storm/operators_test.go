package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/resource/k8s"
)

type (
	request  = handler.SyncRequest
	response = handler.SyncResponse
)

// mapsOf makes ConfigMaps with a text each.
func mapsOf(texts map[string]string) (out []any) {
	for name, text := range texts { // in whatever order
		out = append(out, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": text}})
	}
	return out
}

// jobs is an operator whose children are Jobs.
func jobs(recreate bool) config.Operator {
	return config.Operator{Name: "sites", Parent: site(), Children: []config.Child{{Type: k8s.Job, Strategy: config.Replace, RecreateImmutable: recreate}}}
}

// syncJob makes a Job of the parent's text.
func syncJob(_ context.Context, req *request) (*response, error) {
	text, _ := req.Parent.Field("spec", "text")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: fmt.Sprint(text)}}}
	return &response{Children: []any{job}}, nil
}

// TestWhatIsRight holds that operators which are right aren't found fault with.
func TestWhatIsRight(t *testing.T) {
	ignored := sites()
	ignored.Children[0].IgnoreFields = []string{"data.text"}
	secrets := sites()
	secrets.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}
	for name, tc := range map[string]struct {
		reason string
		cfg    Config
	}{
		"Sleeps": {"a handler takes its time", Config{Handler: handler.SyncFunc(func(ctx context.Context, req *request) (*response, error) {
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return syncSite(ctx, req)
		})}},
		"Goroutine": {"a goroutine ends some time later", Config{Handler: handler.SyncFunc(func(ctx context.Context, req *request) (*response, error) {
			go func() { <-time.After(time.Minute) }()
			return syncSite(ctx, req)
		})}},
		"Recreates": {"what can't be changed is recreated", Config{Operator: jobs(true), Handler: handler.SyncFunc(syncJob)}},
		"Order": {"the order of children doesn't count", Config{Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) {
			return &response{Children: mapsOf(map[string]string{"a": "1", "b": "2", "c": "3"})}, nil
		})}},
		"IgnoredField": {"nor do fields that the engine ignores", Config{Operator: ignored, Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) {
			return &response{Children: mapsOf(map[string]string{"a": fmt.Sprint(rand.Int())})}, nil
		}), Scenario: func(s *Scenario) { oneSite(s); s.Ignore("data", "text") }}},
		"Generated": {"nor do those that the scenario ignores, such as a password that is kept", Config{Handler: handler.SyncFunc(func(_ context.Context, req *request) (*response, error) {
			for live := range req.Children.OfType(k8s.ConfigMap).All() {
				return &response{Children: []any{handler.Keep(live)}}, nil
			}
			return &response{Children: mapsOf(map[string]string{"a": fmt.Sprint(rand.Int())})}, nil
		}), Kinds: Kinds{Kill: true, Lag: true, Errors: true}, Scenario: func(s *Scenario) { oneSite(s); s.Ignore("data", "text") }}},
		"Drawn": {"nor the other spelling of a Secret's data", Config{Operator: secrets, Handler: handler.SyncFunc(func(_ context.Context, req *request) (*response, error) {
			for live := range req.Children.OfType(k8s.Secret).All() {
				return &response{Children: []any{handler.Keep(live)}}, nil
			}
			return &response{Children: []any{map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "drawn"}, "stringData": map[string]any{"password": fmt.Sprint(rand.Int())},
			}}}, nil
		}), Kinds: Kinds{Kill: true, Lag: true, Errors: true}, Scenario: func(s *Scenario) { oneSite(s); s.Ignore("data", "password") }}},
		"Conditions": {"nor that of conditions", Config{Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) {
			var conditions []any
			for name := range map[string]bool{"A": true, "B": true, "C": true} {
				conditions = append(conditions, map[string]any{"type": name, "status": "True", "reason": "Fine"})
			}
			return &response{Status: map[string]any{"conditions": conditions}}, nil
		})}},
		"UID": {"the UID of an object is the same in each run", Config{Handler: handler.SyncFunc(func(_ context.Context, req *request) (*response, error) {
			return &response{Children: mapsOf(map[string]string{"of-" + string(req.Parent.UID()): "1"})}, nil
		})}},
		"Later": {"an error is told, and tried again after an hour", Config{Kinds: Kinds{External: true}, Scenario: laterScenario()}},
		"Again": {"a parent of the same name comes as soon as the first one has gone", Config{Handler: handler.Funcs{SyncFunc: syncSite, FinalizeFunc: func(context.Context, *request) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}}, Scenario: func(s *Scenario) {
			s.Create(siteWith("a", "one"))
			s.Delete(siteWith("a", ""))
			s.Create(siteWith("a", "two"))
		}}},
		"Edited": {"what a user sets in a child isn't lost with that", Config{Handler: handler.SyncFunc(syncSite), Scenario: func(s *Scenario) {
			s.Create(siteWith("a", "one"))
			s.Change(configMap("", "a"), func(o map[string]any) { o["data"].(map[string]any)["mine"] = "yes" })
		}}},
		"Fails": {"a parent that is meant to fail", Config{Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) {
			return nil, handler.Permanent(errors.New("no"))
		}), Scenario: func(s *Scenario) { oneSite(s); s.Fails(siteWith("a", "")) }}},
		"Retained": {"whether a child that outlives its parent was made, and how it was last, depends on the way", Config{
			Operator: retaining(), Handler: handler.SyncFunc(syncSite), Seeds: int(budget.Runs(300)), Scenario: func(s *Scenario) { oneSite(s); s.Delete(siteWith("a", "")) },
		}},
		"Others": {"a child that others delete again and again", Config{Handler: handler.SyncFunc(syncSite), Kinds: Kinds{Others: true}, Seeds: int(budget.Runs(100))}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, run(t, tc.cfg).failed.String(), tc.reason)
		})
	}
}

// retaining is the operator sites, whose children outlive their parents.
func retaining() config.Operator {
	cfg := sites()
	cfg.Children[0].Retain = true
	return cfg
}

// laterScenario returns that of an operator which notes that an outside system fails, and looks again in
// an hour.
func laterScenario() func(s *Scenario) {
	outside := &struct{ External }{}
	h := handler.SyncFunc(func(ctx context.Context, _ *request) (*response, error) {
		if err := outside.Call(ctx, "ask", func() error { return nil }); err != nil {
			return &response{Status: map[string]any{"ok": false}, Resync: time.Hour}, nil //nolint:nilerr // it is in the status
		}
		return &response{Status: map[string]any{"ok": true}}, nil
	})
	return func(s *Scenario) {
		oneSite(s)
		s.External(outside, &outside.External)
		s.Handler(func() handler.Handler { return h })
	}
}

func TestWhatIsWrong(t *testing.T) {
	bad := func(check func(World) error) func(s *Scenario) {
		return func(s *Scenario) { oneSite(s); s.Finally(check) }
	}
	fine := handler.SyncFunc(syncSite)
	for name, tc := range map[string]struct {
		reason string
		cfg    Config
		want   string
	}{
		"Panics": {"who never works is wrong", Config{Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) { panic("oh") })}, "Site default/a fails: "},
		"Fails":  {"who always fails is", Config{Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) { return nil, errors.New("no") })}, "say so by Scenario.Fails"},
		"Invalid": {"whose answers are refused is", Config{Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) {
			return &response{Children: []any{secret("", "a")}}, nil
		})}, "not a configured child type"},
		"Blocks": {"who doesn't return is", Config{Handler: handler.SyncFunc(func(ctx context.Context, _ *request) (*response, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})}, "the operator doesn't come to rest: Sync of Site default/a doesn't return"},
		"Immutable": {"who changes what can't be changed is", Config{Operator: jobs(false), Handler: handler.SyncFunc(syncJob)}, "the immutable field spec.template"},
		"WrongType": {"whose children aren't what their type says is", Config{Handler: handler.SyncFunc(func(context.Context, *request) (*response, error) {
			return &response{Children: []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"n": 1}}}}, nil
		})}, "cannot unmarshal number into Go struct field ConfigMap.data of type string"},
		"CheckPanics": {"a check that panics has failed", Config{Handler: fine, Scenario: bad(func(World) error { panic("oh") })}, "the check panics: oh"},
		"ChangePanics": {"a step that panics has", Config{Handler: fine, Scenario: func(s *Scenario) {
			oneSite(s)
			s.Change(siteWith("a", ""), func(map[string]any) { panic("oh") })
		}}, "change Site a: panic: oh"},
		"NoScenario": {"there is nothing to do", Config{Handler: fine, Operator: sites()}, "the scenario is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "NoScenario" {
				l := &listener{T: t}
				Run(l, tc.cfg)
				require.Contains(t, l.failed.String(), tc.want, tc.reason)
				return
			}
			require.Contains(t, run(t, tc.cfg).failed.String(), tc.want, tc.reason)
		})
	}
}

// A method has a receiver, which may have state.
type method struct{}

func (method) sync(ctx context.Context, req *request) (*response, error) { return syncSite(ctx, req) }

func TestMethodValuesAreToldOf(t *testing.T) {
	require.Contains(t, run(t, Config{Handler: handler.Funcs{SyncFunc: method{}.sync}}).logged.String(), "all processes share the receiver of storm.method.sync")
	require.NotContains(t, run(t, Config{Handler: handler.SyncFunc(syncSite)}).logged.String(), "share")
}

func TestPattern(t *testing.T) {
	require.Equal(t, `'^TestStorm$/^x\(y\)\[z\]\+$/^q'\''uo\$te$'`, pattern("TestStorm/x(y)[z]+/q'uo$te"))
}

func TestSystemsAreInOneStorm(t *testing.T) {
	outside := &struct{ External }{}
	outside.busy.Store(true)
	said := run(t, Config{Handler: handler.SyncFunc(syncSite), Scenario: func(s *Scenario) { oneSite(s); s.External(outside, &outside.External) }}).failed.String()
	require.Contains(t, said, "an outside system is part of another Storm at the same time")
}

func TestOrdered(t *testing.T) {
	service := func(ports ...any) map[string]any {
		return map[string]any{"spec": map[string]any{"ports": ports, "externalIPs": []any{"2", "1"}}, "status": map[string]any{"conditions": []any{"b", "a"}}}
	}
	one, two := map[string]any{"port": int64(1)}, map[string]any{"port": int64(2)}
	first, second := service(one, two), service(two, one)
	ordered(first, listkeys.For(k8s.Service))
	ordered(second, listkeys.For(k8s.Service))
	require.Equal(t, first, second, "the ports of a Service have no order")
	require.Equal(t, []any{"2", "1"}, first["spec"].(map[string]any)["externalIPs"], "other lists have one")
	require.Equal(t, []any{"a", "b"}, first["status"].(map[string]any)["conditions"])
}

// TestActsBeforeAnyProcess holds that what is done to a process may come before there is one.
func TestActsBeforeAnyProcess(t *testing.T) {
	w := &world{}
	for _, verb := range []string{"kill", "stop", "cut-lease"} {
		require.NotPanics(t, func() { w.perform(act{Verb: verb, For: time.Second}) }, verb)
	}
}

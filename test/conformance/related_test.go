package conformance

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// A mirror is a handler whose ConfigMap says which related objects it is shown, and what is
// in them. It counts its calls for each parent.
type mirror struct {
	refer func(parent *resource.Resource) []handler.Ref // beside the fields; nil: nothing

	mu            sync.Mutex
	calls         map[string][]string // parent -> what it was shown, for each call
	running, most int                 // calls at once
}

func (m *mirror) handler() handler.Handler {
	return handler.Funcs{
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			m.count(1)
			defer m.count(-1)
			var texts []string
			for res := range req.Related.All() {
				texts = append(texts, strings.ToLower(res.Type().Kind)+"/"+res.Name()+textOf(res))
			}
			text := strings.Join(texts, " ")
			m.note(req.Parent.Name(), text)
			return &handler.SyncResponse{Children: []any{configMap(req.Parent.Name(), "text", text)}}, nil
		},
		RelateFunc: func(parent *resource.Resource) ([]handler.Ref, error) {
			if m.refer == nil {
				return nil, nil
			}
			return m.refer(parent), nil
		},
	}
}

func (m *mirror) note(parent, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == nil {
		m.calls = map[string][]string{}
	}
	m.calls[parent] = append(m.calls[parent], text)
}

// count counts the calls that are under way.
func (m *mirror) count(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running += n
	m.most = max(m.most, m.running)
}

// total returns how often the handler has been called.
func (m *mirror) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, calls := range m.calls {
		n += len(calls)
	}
	return n
}

// textOf returns the text in a Secret, a ConfigMap or a parent.
func textOf(res *resource.Resource) string {
	if value, ok := res.Field("spec", "text"); ok {
		return fmt.Sprint("=", value)
	}
	value, ok := res.Field("data", "text")
	if !ok {
		return ""
	}
	if raw, err := base64.StdEncoding.DecodeString(fmt.Sprint(value)); err == nil && res.Type() == k8s.Secret {
		return "=" + string(raw)
	}
	return fmt.Sprint("=", value)
}

// shown returns what the handler has been shown of a parent so far, for each call.
func (m *mirror) shown(parent string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls[parent])
}

// relating is an operator whose parents name a Secret in spec.secret, and the like.
func relating(name string, related ...config.Related) config.Operator {
	cfg := operator(name, configMapChild())
	cfg.Related = related
	return cfg
}

func secretsByName() config.Related {
	return config.Related{Type: k8s.Secret, Fields: []string{"spec.secret", "spec.secrets"}}
}

// naming is a parent that names a Secret.
func naming(name, secret string) map[string]any {
	return parent(name, map[string]any{"secret": secret})
}

func secretWith(name, text string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "stringData": map[string]any{"text": text}}
}

// readsOfSecrets returns the requests of an operator since then that read Secrets, watches
// among them. A watch that goes on where one left off whose time was over isn't counted: how
// many there are says how long the test took.
func readsOfSecrets(t *testing.T, log *auditLog, from mark, operator string) []request {
	t.Helper()
	others := func(r request) bool {
		return r.Resource != "secrets" || !strings.HasPrefix(r.UserAgent, operator+"/")
	}
	return slices.DeleteFunc(log.all(t, from), func(r request) bool {
		return others(r) || r.continues() && slices.ContainsFunc(log.entries(t, 0), func(before request) bool {
			return !others(before) && r.follows(before)
		})
	})
}

func saying(kit *testkit.Kit, parent, text string) {
	kit.Eventually(configMap(parent, "text", text), patience)
}

func TestC80_RelatedSecret(t *testing.T) {
	scenario(t, "C80", "the Secret that a parent names comes after the parent, is edited, and is deleted: the handler is shown it as it is each time, and no list or watch of Secrets goes without its name")
	log := needsAudit(t)
	begin := log.mark(t)
	m := &mirror{}
	kit := testkit.New(t, cluster, relating("c80", secretsByName()), m.handler())
	kit.Create(naming("p", "token"))
	saying(kit, "p", "")
	kit.Create(secretWith("other", "o"))
	kit.Create(secretWith("token", "1"))
	saying(kit, "p", "secret/token=1")
	kit.Update(secretWith("token", "2"))
	saying(kit, "p", "secret/token=2")
	kit.Delete(secretWith("token", ""))
	saying(kit, "p", "")
	settle(t, kit)
	reads := readsOfSecrets(t, log, begin, "c80")
	require.NotEmpty(t, reads)
	for _, r := range reads {
		require.Contains(t, []string{"list", "watch"}, r.Verb, r.URI)
		require.Contains(t, r.URI, "fieldSelector=metadata.name%3Dtoken", "it is watched by its name")
	}
	require.Empty(t, kit.HandlerErrors(naming("p", "")))
}

func TestC81_ReferenceMoves(t *testing.T) {
	scenario(t, "C81", "a reference moves: what the parent referred to before wakes nobody any more, and its watch ends")
	log := needsAudit(t)
	begin := log.mark(t)
	m := &mirror{}
	kit := testkit.New(t, cluster, relating("c81", secretsByName()), m.handler())
	kit.Create(secretWith("old", "1"))
	kit.Create(secretWith("new", "2"))
	kit.Create(naming("p", "old"))
	saying(kit, "p", "secret/old=1")
	kit.Update(naming("p", "new"))
	saying(kit, "p", "secret/new=2")
	settle(t, kit)
	calls := len(m.shown("p"))
	kit.Update(secretWith("old", "11"))
	kit.Update(secretWith("new", "22"))
	saying(kit, "p", "secret/new=22")
	settle(t, kit)
	require.Equal(t, []string{"secret/new=22"}, slices.Compact(m.shown("p")[calls:]))
	eventually(t, "the watch of the old one ends", func() bool {
		return slices.ContainsFunc(log.entries(t, begin), func(r request) bool {
			return r.Ended && r.Namespace == kit.Namespace && strings.Contains(r.URI, "metadata.name%3Dold")
		})
	})
}

func TestC82_OneNameInTwoNamespaces(t *testing.T) {
	scenario(t, "C82", "one name in two namespaces is two objects; another namespace than the parent's is refused, unless the type says AnyNamespace")
	for _, anywhere := range []bool{false, true} {
		t.Run(fmt.Sprintf("AnyNamespace=%t", anywhere), func(t *testing.T) {
			t.Parallel()
			m := &mirror{refer: func(parent *resource.Resource) []handler.Ref {
				at, _ := parent.Field("spec", "at")
				namespace, _ := at.(string)
				return []handler.Ref{{Type: k8s.Secret, Name: "token", Namespace: namespace}}
			}}
			name := fmt.Sprintf("c82-%t", anywhere)
			kit := testkit.New(t, cluster, relating(name, config.Related{Type: k8s.Secret, AnyNamespace: anywhere}), m.handler())
			elsewhere := testkit.New(t, cluster, operator(name+"-elsewhere"), handler.SyncFunc(nil))
			kit.Create(secretWith("token", "here"))
			elsewhere.Create(secretWith("token", "there"))
			kit.Create(parent("own", nil))
			kit.Create(parent("other", map[string]any{"at": elsewhere.Namespace}))
			saying(kit, "own", "secret/token=here")
			if anywhere {
				saying(kit, "other", "secret/token=there")
				settle(t, kit)
				calls := len(m.shown("own"))
				elsewhere.Update(secretWith("token", "there now"))
				saying(kit, "other", "secret/token=there now")
				settle(t, kit)
				require.Len(t, m.shown("own"), calls, "the other one of that name doesn't concern it")
				return
			}
			eventually(t, "the reference is refused", func() bool {
				return slices.ContainsFunc(kit.Events(parent("other", nil)), func(text string) bool {
					return strings.Contains(text, "isn't the parent's; config.Related.AnyNamespace would allow that")
				})
			})
			require.Empty(t, m.shown("other"), "the handler isn't called")
		})
	}
}

func TestC83_Selector(t *testing.T) {
	scenario(t, "C83", "a selector in the parent changes, and an object enters and leaves it by a label")
	m := &mirror{refer: func(parent *resource.Resource) []handler.Ref {
		tier, _ := parent.Field("spec", "tier")
		return []handler.Ref{{Type: k8s.Secret, Selector: fmt.Sprint("tier=", tier)}}
	}}
	kit := testkit.New(t, cluster, relating("c83", config.Related{Type: k8s.Secret}), m.handler())
	tiered := func(name, tier string) map[string]any {
		it := secretWith(name, name)
		metadata(it)["labels"] = map[string]any{"tier": tier}
		return it
	}
	kit.Create(tiered("a", "gold"))
	kit.Create(tiered("b", "tin"))
	kit.Create(parent("p", map[string]any{"tier": "gold"}))
	saying(kit, "p", "secret/a=a")
	kit.Update(tiered("b", "gold"))
	saying(kit, "p", "secret/a=a secret/b=b")
	kit.Update(tiered("a", "tin"))
	saying(kit, "p", "secret/b=b")
	kit.Update(parent("p", map[string]any{"tier": "tin"}))
	saying(kit, "p", "secret/a=a")
	settle(t, kit)
}

func TestC84_ClusterScopedRelated(t *testing.T) {
	scenario(t, "C84", "cluster-scoped objects are related by a name and by a selector; all objects of a type in the parent's namespace are, too")
	m := &mirror{refer: func(parent *resource.Resource) []handler.Ref {
		name, _ := parent.Field("spec", "class")
		return []handler.Ref{
			{Type: k8s.PriorityClass, Name: fmt.Sprint(name)}, {Type: k8s.StorageClass, Selector: "of=" + parent.Namespace()}, {Type: k8s.LimitRange},
		}
	}}
	kit := testkit.New(t, cluster, relating("c84", config.Related{Type: k8s.PriorityClass}, config.Related{Type: k8s.StorageClass}, config.Related{Type: k8s.LimitRange}), m.handler())
	kit.Create(parent("p", map[string]any{"class": "system-node-critical"}))
	saying(kit, "p", "priorityclass/system-node-critical")
	class := map[string]any{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/none",
		"metadata": map[string]any{"name": kit.Namespace, "labels": map[string]any{"of": kit.Namespace}},
	}
	kit.Create(class)
	saying(kit, "p", "priorityclass/system-node-critical storageclass/"+kit.Namespace)
	kit.Delete(class)
	saying(kit, "p", "priorityclass/system-node-critical")
	kit.Create(map[string]any{"apiVersion": "v1", "kind": "LimitRange", "metadata": map[string]any{"name": "any"}, "spec": map[string]any{"limits": []any{}}})
	saying(kit, "p", "priorityclass/system-node-critical limitrange/any")
	settle(t, kit)
}

func TestC85_TheParentsOwnType(t *testing.T) {
	scenario(t, "C85", "parents refer to one another in a circle; a change of one reaches those that refer to it, and all of them fall silent")
	m := &mirror{}
	cfg := relating("c85", config.Related{Type: parentType, Fields: []string{"spec.next"}})
	kit := testkit.New(t, cluster, cfg, m.handler())
	circle := func(name, next, text string) map[string]any {
		return parent(name, map[string]any{"next": next, "text": text})
	}
	kit.Create(circle("a", "b", "1"))
	kit.Create(circle("b", "c", "2"))
	kit.Create(circle("c", "a", "3"))
	saying(kit, "a", "parent/b=2")
	saying(kit, "b", "parent/c=3")
	saying(kit, "c", "parent/a=1")
	kit.Update(circle("a", "b", "11"))
	saying(kit, "c", "parent/a=11")
	settle(t, kit)
}

func TestC86_AnotherParentsChild(t *testing.T) {
	scenario(t, "C86", "a related object is another parent's child; it isn't touched for being related")
	m := &mirror{}
	cfg := relating("c86", config.Related{Type: k8s.ConfigMap, Fields: []string{"spec.source"}}, secretsByName())
	kit := testkit.New(t, cluster, cfg, m.handler())
	kit.Create(secretWith("token", "1"))
	kit.Create(naming("owner", "token"))
	kit.Create(parent("reader", map[string]any{"source": "owner"}))
	saying(kit, "reader", "configmap/owner=secret/token=1")
	kit.Update(secretWith("token", "2"))
	saying(kit, "reader", "configmap/owner=secret/token=2")
	settle(t, kit)
	owner := kit.Get(configMap("owner", "", ""))
	require.Equal(t, kit.Get(naming("owner", "")).UID(), owner.OwnerReferences()[0].UID)
	require.Equal(t, []string{"create", "update"}, verbs(kit.Writes(), "ConfigMap", "owner"))
}

// Two parents refer to each other's statuses and children, and each has a new answer to each
// change of the other. Who edits one of them is served at once.
func TestC86b_ACircle(t *testing.T) {
	scenario(t, "C86b", "what follows from the operator's own writes of another parent, and of its child, without end is a conflict loop by its many writes within a minute")
	for _, by := range []string{"status", "child"} {
		t.Run(by, func(t *testing.T) {
			cfg := unbounded(relating("c86-"+by, config.Related{Type: parentType, Fields: []string{"spec.next"}}, config.Related{Type: k8s.ConfigMap, Fields: []string{"spec.next"}}))
			kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				largest := 0
				for res := range req.Related.All() {
					value, _ := res.Field("status", "n")
					if by == "child" {
						value, _ = res.Field("data", "n")
					}
					if n, err := strconv.Atoi(fmt.Sprint(value)); err == nil {
						largest = max(largest, n)
					}
				}
				text, _ := req.Parent.Field("spec", "text")
				if by == "child" {
					return &handler.SyncResponse{Status: map[string]any{"text": text}, Children: []any{configMap(req.Parent.Name(), "n", strconv.Itoa(largest+1))}}, nil
				}
				return &handler.SyncResponse{Status: map[string]any{"text": text, "n": largest + 1}}, nil
			}))
			a, b := parent("a", map[string]any{"next": "b", "text": "1"}), parent("b", map[string]any{"next": "a", "text": "1"})
			kit.Create(a)
			kit.Create(b)
			field := map[string]string{"status": "status.n", "child": "data.n"}[by]
			told := func(it any) func() bool {
				return func() bool { return anyContains(kit.Events(it), "Warning", "ConflictLoop", field) }
			}
			enough := map[string]int{"status": 40 * 30, "child": 10 * (30 + 3)}[by] // writes of one parent within a minute
			const minute = 65 * time.Second
			syncs := func() int { return kit.Syncs(a) + kit.Syncs(b) } // two for each write
			begin, before := time.Now(), syncs()
			eventually(t, "an Event that names the field, or a minute with too few writes", func() bool {
				if time.Since(begin) > minute {
					if syncs()-before < 5*enough { // a loaded machine is slower than the rate that is reported
						return true
					}
					begin, before = time.Now(), syncs()
				}
				return told(a)() || told(b)()
			})
			if told(a)() || told(b)() {
				during(t, 5*time.Second) // until both are slowed down
				slow(t, syncs)
			} else {
				t.Logf("the circle makes too few writes to be reported: %d calls in a minute", syncs()-before)
			}
			_, untyped := clients(t, "somebody") // the Kit would compare what comes of an edit with a plan for it
			_, err := untyped.Resource(parents).Namespace(kit.Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"text":"2"}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			eventually(t, "an edit is served", func() bool {
				text, _ := kit.Get(a).Field("status", "text")
				return text == "2"
			})
		})
	}
}

func TestC87_ManyParentsOfOneSecret(t *testing.T) {
	scenario(t, "C87", "200 parents of one Secret: one watch, one pass each when it changes, and no more at once than the operator's workers")
	log := needsAudit(t)
	const many = 200
	m := &mirror{}
	cfg := relating("c87", secretsByName())
	kit := testkit.New(t, cluster, cfg, m.handler())
	begin := log.mark(t)
	kit.Create(secretWith("token", "1"))
	for i := range many {
		kit.Create(naming(fmt.Sprint("p", i), "token"))
	}
	for i := range many {
		saying(kit, fmt.Sprint("p", i), "secret/token=1")
	}
	settle(t, kit)
	calls := map[string]int{}
	for i := range many {
		calls[fmt.Sprint("p", i)] = len(m.shown(fmt.Sprint("p", i)))
	}
	kit.Update(secretWith("token", "2"))
	for i := range many {
		saying(kit, fmt.Sprint("p", i), "secret/token=2")
	}
	settle(t, kit)
	for name, before := range calls {
		// The write of the child sets off a pass. So does its watch event, if that enters the store before the
		// write's answer, and the scheduler is told of it only after that pass.
		require.LessOrEqual(t, len(m.shown(name)), before+3, name)
		require.Equal(t, []string{"secret/token=2"}, slices.Compact(m.shown(name)[before:]), name)
	}
	require.Len(t, readsOfSecrets(t, log, begin, "c87"), 1, "a watch")
	require.LessOrEqual(t, m.most, 16, "config.Operator.MaxConcurrentSyncs")
}

func TestC90_RestartWithRelated(t *testing.T) {
	scenario(t, "C90", "after a restart each parent is synced once, with all that it refers to, and nothing is written")
	const many = 70 // more names than have a watch each
	m := &mirror{}
	cfg := relating("c90", secretsByName())
	kit := testkit.New(t, cluster, cfg, m.handler())
	for i := range many {
		kit.Create(secretWith(fmt.Sprint("s", i), fmt.Sprint(i)))
		kit.Create(naming(fmt.Sprint("p", i), fmt.Sprint("s", i)))
	}
	for i := range many {
		saying(kit, fmt.Sprint("p", i), fmt.Sprintf("secret/s%d=%d", i, i))
	}
	settle(t, kit)
	kit.Stop()
	writes := len(kit.Writes())
	again := &mirror{}
	kit.Restart(cfg, again.handler())
	settle(t, kit)
	for i := range many {
		require.Equal(t, []string{fmt.Sprintf("secret/s%d=%d", i, i)}, again.shown(fmt.Sprint("p", i)))
	}
	require.Len(t, kit.Writes(), writes)
}

func TestC95_HostileReferences(t *testing.T) {
	scenario(t, "C95", "names that can't be names are errors of their parent alone, and no request is made for them; 10,000 names are no more than one watch")
	log := needsAudit(t)
	begin := log.mark(t)
	m := &mirror{}
	kit := testkit.New(t, cluster, relating("c95", secretsByName()), m.handler())
	kit.Create(secretWith("token", "1"))
	for i, name := range []any{"../../kube-system/secrets/x", "a,metadata.namespace=kube-system", "..", strings.Repeat("x", 300), "a/b", "%2e%2e"} {
		kit.Create(parent(fmt.Sprint("bad", i), map[string]any{"secret": name}))
	}
	names := make([]any, 0, 10_000)
	for i := range 10_000 {
		names = append(names, fmt.Sprint("no-such-", i))
	}
	kit.Create(parent("many", map[string]any{"secrets": append(names, "token")}))
	saying(kit, "many", "secret/token=1")
	kit.Create(naming("good", "token"))
	saying(kit, "good", "secret/token=1")
	kit.Update(secretWith("token", "2"))
	saying(kit, "many", "secret/token=2")
	saying(kit, "good", "secret/token=2")
	reads := readsOfSecrets(t, log, begin, "c95")
	require.LessOrEqual(t, len(reads), 2, "one watch of all, and one before by a name that is odd and harmless")
	for _, r := range reads {
		require.Equal(t, "watch", r.Verb)
		require.Equal(t, kit.Namespace, r.Namespace)
	}
}

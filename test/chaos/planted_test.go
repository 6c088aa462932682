package chaos

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// good is a state in which nothing is wrong, with one foreign object.
func good() *state {
	meta := func(name string, uid string) map[string]any {
		return map[string]any{
			"name": name, "uid": uid, "resourceVersion": "7",
			"labels": map[string]any{"app": "p", "roperator.com/operator": operatorName, "roperator.com/parent-uid": "p-uid"},
			"ownerReferences": []any{map[string]any{
				"apiVersion": parentType().APIVersion, "kind": "Parent", "name": "p", "uid": "p-uid", "controller": true, "blockOwnerDeletion": true,
			}},
		}
	}
	return &state{
		parents: []unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": parentType().APIVersion, "kind": "Parent",
			"metadata": map[string]any{"name": "p", "uid": "p-uid", "generation": int64(4), "finalizers": []any{finalizer}},
			"spec":     map[string]any{"value": "v1", "port": int64(80)},
			"status":   map[string]any{"value": "v1", "children": int64(3), "observedGeneration": int64(4)},
		}}},
		children: []unstructured.Unstructured{
			{Object: map[string]any{"kind": "ConfigMap", "metadata": meta("p-config", "1"), "data": map[string]any{"value": "v1", "v1": "set"}}},
			{Object: map[string]any{"kind": "Secret", "metadata": meta("p-v1", "2"), "data": map[string]any{"key": base64.StdEncoding.EncodeToString([]byte("v1:80"))}}},
			{Object: map[string]any{"kind": "Service", "metadata": meta("p", "3"), "spec": map[string]any{
				"clusterIP": "10.0.0.9", "selector": map[string]any{"app": "p", "value": "v1"},
				"ports": []any{map[string]any{"name": "main", "port": int64(80), "protocol": "TCP"}},
			}}},
			{Object: map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "foreign", "uid": "f", "resourceVersion": "3"}}},
		},
	}
}

// child returns one of a good state, and set changes a field of it.
func (s *state) child(i int) map[string]any { return s.children[i].Object }

func set(t *testing.T, object map[string]any, value any, path ...string) {
	t.Helper()
	require.NoError(t, unstructured.SetNestedField(object, value, path...))
}

func TestCheckStateReports(t *testing.T) {
	cases := map[string]struct {
		reason string
		plant  func(t *testing.T, s *state)
		want   []string // beginnings
	}{
		"nothing": {
			reason: "a good state has no violation",
			plant:  func(*testing.T, *state) {},
		},
		"missing": {
			reason: "a child that isn't there",
			plant:  func(_ *testing.T, s *state) { s.children = append(s.children[:1], s.children[2:]...) },
			want:   []string{"missing: Secret p-v1 of Parent p"},
		},
		"different data": {
			reason: "a field that someone has changed",
			plant:  func(t *testing.T, s *state) { set(t, s.child(0), "other", "data", "value") },
			want:   []string{"different: ConfigMap p-config has data "},
		},
		"further data": {
			reason: "an entry of an earlier desired state",
			plant:  func(t *testing.T, s *state) { set(t, s.child(0), "set", "data", "v0") },
			want:   []string{"different: ConfigMap p-config has data "},
		},
		"different Secret": {
			reason: "a Secret of an older spec",
			plant:  func(t *testing.T, s *state) { set(t, s.child(1), "b2xk", "data", "key") },
			want:   []string{"different: Secret p-v1 has data "},
		},
		"different port": {
			reason: "a Service of an older spec",
			plant: func(t *testing.T, s *state) {
				set(t, s.child(2), []any{map[string]any{"name": "main", "port": int64(81)}}, "spec", "ports")
			},
			want: []string{"different: Service p has "},
		},
		"two ports": {
			reason: "a port left behind",
			plant: func(t *testing.T, s *state) {
				set(t, s.child(2), []any{map[string]any{"name": "main", "port": int64(80)}, map[string]any{"name": "old", "port": int64(81)}}, "spec", "ports")
			},
			want: []string{"different: Service p has "},
		},
		"label": {
			reason: "a label that was stripped",
			plant: func(_ *testing.T, s *state) {
				unstructured.RemoveNestedField(s.child(2), "metadata", "labels", "roperator.com/operator")
			},
			want: []string{`different: Service p has the label roperator.com/operator=""`},
		},
		"unwanted": {
			reason: "a duplicate under another name",
			plant: func(_ *testing.T, s *state) {
				extra := s.children[1].DeepCopy()
				extra.SetName("p-v0")
				extra.SetUID("9")
				s.children = append(s.children, *extra)
			},
			want: []string{"unwanted: Secret p-v0 of Parent p"},
		},
		"orphan": {
			reason: "children whose parent has gone",
			plant:  func(_ *testing.T, s *state) { s.parents = nil },
			want: []string{
				"orphan: ConfigMap p-config is a child of p, p-uid, which has gone", "orphan: Secret p-v1 ", "orphan: Service p ",
			},
		},
		"orphan without owner": {
			reason: "a child that nobody owns any more",
			plant: func(_ *testing.T, s *state) {
				unstructured.RemoveNestedField(s.child(0), "metadata", "ownerReferences")
			},
			want: []string{"orphan: ConfigMap p-config has no controller", "missing: ConfigMap p-config "},
		},
		"foreign changed": {
			reason: "someone else's object has another resourceVersion",
			plant:  func(_ *testing.T, s *state) { s.children[3].SetResourceVersion("4") },
			want:   []string{"foreign: ConfigMap foreign was changed"},
		},
		"foreign deleted": {
			reason: "someone else's object has gone",
			plant:  func(_ *testing.T, s *state) { s.children = s.children[:3] },
			want:   []string{"foreign: f was deleted"},
		},
		"stuck": {
			reason: "a parent that doesn't go",
			plant: func(t *testing.T, s *state) {
				set(t, s.parents[0].Object, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
			},
			want: []string{`stuck: Parent p is still being deleted, with finalizers ["roperator.com/chaos"]`},
		},
		"unguarded": {
			reason: "a parent without finalizer would go without being finalized",
			plant:  func(_ *testing.T, s *state) { s.parents[0].SetFinalizers(nil) },
			want:   []string{"stuck: Parent p has no finalizer of the operator"},
		},
		"status": {
			reason: "a status of an older spec",
			plant: func(t *testing.T, s *state) {
				set(t, s.parents[0].Object, int64(3), "status", "observedGeneration")
			},
			want: []string{"status: Parent p has "},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := good()
			c.plant(t, s)
			requireBeginnings(t, c.want, s.check(map[types.UID]string{"f": "3"}), c.reason)
		})
	}
}

func requireBeginnings(t *testing.T, want []string, got []violation, reason string) {
	t.Helper()
	require.Len(t, got, len(want), "%s: %v", reason, got)
	for i := range want {
		require.True(t, strings.HasPrefix(got[i].String(), want[i]), "%s: %s, not %s", reason, got[i], want[i])
	}
}

// A past is a history that a test tells, second by second.
type past struct {
	t     *testing.T
	begin time.Time
	audit strings.Builder
	files map[string]string
	rv    int
}

func (p *past) at(second float64) time.Time {
	return p.begin.Add(time.Duration(second * float64(time.Second)))
}

// wrote notes a write: sent by whom, answered with what.
func (p *past) wrote(second float64, identity, resource, object string) {
	agent := "kubectl"
	if identity != "" {
		agent = fmt.Sprintf("%s%s %d", agentPrefix, identity, p.at(second).UnixNano())
	}
	const layout = "2006-01-02T15:04:05.000000Z07:00"
	fmt.Fprintf(&p.audit, `{"stage":"ResponseComplete","verb":"update","userAgent":%q,"requestURI":"/apis/%s","objectRef":{"resource":%q},`+
		`"responseStatus":{"code":200},"requestReceivedTimestamp":%q,"stageTimestamp":%q,"responseObject":%s}`+"\n",
		agent, resource, resource, p.at(second+0.01).Format(layout), p.at(second+0.02).Format(layout), object)
}

func (p *past) lease(second float64, identity, holder string) {
	p.rv++
	p.wrote(second, identity, "leases", fmt.Sprintf(`{"kind":"Lease","metadata":{"resourceVersion":"%d"},"spec":{"holderIdentity":%q}}`, p.rv, holder))
}

func (p *past) parent(second float64, identity, uid string, finalizers string) {
	p.wrote(second, identity, "parents", fmt.Sprintf(`{"kind":"Parent","metadata":{"name":"p","uid":%q,"finalizers":[%s]}}`, uid, finalizers))
}

func (p *past) removed(second float64, uid string) {
	p.wrote(second, "", "parents", fmt.Sprintf(`{"kind":"Status","details":{"uid":%q}}`, uid))
}

func (p *past) work(second float64, identity string) {
	p.wrote(second, identity, "configmaps", `{"kind":"ConfigMap"}`)
}

func (p *past) finalized(second float64, identity, uid string) {
	p.files["finalized-"+identity] += fmt.Sprintf("%s %d\n", uid, p.at(second).UnixNano())
}

// restored puts etcd back to what it was.
func (p *past) restored(backup, done float64) {
	p.files[restoresFile] += string(restored{p.at(backup), p.at(done)}.line()) + "\n"
	p.rv = 0
}

func (p *past) read() *history {
	p.t.Helper()
	dir := p.t.TempDir()
	p.files["audit.log"] = p.audit.String() + `{"stage":"Resp` // one is half written
	for name, text := range p.files {
		require.NoError(p.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	h, err := readHistory(dir)
	require.NoError(p.t, err)
	return h
}

func TestCheckHistoryReports(t *testing.T) {
	const guarded, others = `"` + finalizer + `"`, `"` + held + `"`
	cases := map[string]struct {
		reason string
		tell   func(p *past)
		living []types.UID
		want   []string
	}{
		"all well": {
			reason: "finalized before the finalizer went, by one after the other",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(1, "0-0", "u", guarded)
				p.finalized(2, "0-0", "u")
				p.lease(2, "0-0", "0-0")
				p.parent(3, "0-0", "u", others)
				p.lease(3.5, "0-0", "")
				p.lease(4, "1-0", "1-0")
				p.work(5, "1-0")
			},
		},
		"never guarded": {
			reason: "a parent that no operator had seen may go",
			tell:   func(p *past) { p.parent(1, "", "u", ``) },
		},
		"unfinalized": {
			reason: "gone, but in nobody's record",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(1, "0-0", "u", guarded)
				p.parent(2, "0-0", "u", ``)
				p.finalized(2, "0-0", "v")
			},
			want: []string{"unfinalized: p, u, has gone"},
		},
		"unfinalized without trace": {
			reason: "who took the finalizer away isn't in the log, as the API server was killed",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(1, "0-0", "u", guarded)
			},
			want: []string{"unfinalized: p, u, has gone"},
		},
		"guarded while it went": {
			reason: "kube-apiserver had already found it without finalizers",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(1.005, "0-0", "u", guarded)
				p.removed(1, "u")
			},
		},
		"removed in spite of the finalizer": {
			reason: "a deletion that began later must wait",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(1, "0-0", "u", guarded)
				p.removed(2, "u")
			},
			want: []string{"unfinalized: p, u, has gone"},
		},
		"still there": {
			reason: "a living parent needn't be finalized",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(1, "0-0", "u", guarded)
			},
			living: []types.UID{"u"},
		},
		"finalized too late": {
			reason: "the finalizer went before",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(1, "0-0", "u", guarded)
				p.parent(2, "0-0", "u", ``)
				p.finalized(3, "0-0", "u")
			},
			want: []string{"unfinalized: p, u, was released "},
		},
		"never held": {
			reason: "a write of one that never had the lease",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.work(1, "1-0")
			},
			want: []string{"leaseless: replica 1-0: update /apis/configmaps: 200, sent at "},
		},
		"too early": {
			reason: "a write before the lease was asked for",
			tell: func(p *past) {
				p.work(1, "0-0")
				p.lease(2, "0-0", "0-0")
			},
			want: []string{"leaseless: replica 0-0: "},
		},
		"lost": {
			reason: "a write sent after another had taken the lease",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.lease(1, "1-0", "1-0")
				p.work(2, "0-0")
			},
			want: []string{"leaseless: replica 0-0: "},
		},
		"released": {
			reason: "a write sent after the lease was given away",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.lease(1, "0-0", "")
				p.work(2, "0-0")
			},
			want: []string{"leaseless: replica 0-0: "},
		},
		"not renewed": {
			reason: "nobody has taken the lease, but it wasn't renewed for longer than renewDeadline",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.work(5, "0-0")
				p.work(7, "0-0")
			},
			want: []string{"leaseless: replica 0-0: "},
		},
		"taken back": {
			reason: "a restore has forgotten the parent, or its finalizer",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(2, "0-0", "u", guarded)
				p.restored(1, 3)
			},
		},
		"restored": {
			reason: "a parent that is there again must be finalized before it goes",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.parent(0.5, "0-0", "u", guarded)
				p.parent(2, "0-0", "u", ``)
				p.restored(1, 3)
			},
			want: []string{"unfinalized: p, u, has gone"},
		},
		"lease taken back": {
			reason: "who had it last can't know yet that another has it",
			tell: func(p *past) {
				p.lease(0, "0-0", "0-0")
				p.lease(1, "0-0", "")
				p.lease(3, "1-0", "1-0")
				p.restored(2, 4)
				p.lease(5, "2-0", "2-0")
				p.work(6, "1-0")
				p.work(6, "2-0")
			},
		},
		"lease taken back long ago": {
			reason: "it has to notice by renewDeadline",
			tell: func(p *past) {
				p.lease(0, "1-0", "1-0")
				p.restored(1, 2)
				p.lease(3, "2-0", "2-0")
				p.work(8, "1-0")
				p.work(8, "2-0")
			},
			want: []string{"leaseless: replica 1-0: "},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &past{t: t, begin: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), files: map[string]string{}}
			c.tell(p)
			h := p.read()
			leaseless, err := h.checkLease()
			require.NoError(t, err)
			requireBeginnings(t, c.want, append(h.checkFinalized(c.living), leaseless...), c.reason)
		})
	}
}

func TestCheckSilenceReports(t *testing.T) {
	p := &past{t: t, begin: time.Now(), files: map[string]string{}}
	p.lease(0, "0-0", "0-0")
	p.work(1, "0-0")
	p.lease(11, "0-0", "0-0")
	p.work(12, "")
	h := p.read()
	require.Empty(t, h.checkSilence(p.at(10)), "leases and others' writes don't count")
	requireBeginnings(t, []string{"noise: replica 0-0: update /apis/configmaps: 200"}, h.checkSilence(p.at(0.5)), "a write afterwards")
}

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A relatedWorld is a control plane of its own, with parents that refer to Secrets.
type relatedWorld struct {
	*restoredWorld
	m   *mirror // of the operator that runs
	way *secretsWay
	o   *remoteOperator
}

// start starts an operator that runs until the test ends. No request of it has failed yet:
// watches that fail try less and less often.
func (w *relatedWorld) start(t *testing.T, name string) {
	t.Helper()
	w.t, w.plane.t = t, t
	w.way, w.o = newSecretsWay(), &remoteOperator{w: newWitness()}
	w.m = &mirror{refer: func(parent *resource.Resource) []handler.Ref {
		if tier, ok := parent.Field("spec", "tier"); ok {
			return []handler.Ref{{Type: k8s.Secret, Selector: fmt.Sprint("tier=", tier)}}
		}
		return nil
	}}
	way := w.o.config(w.plane.config())
	w.way.wrap(way)
	cfg := relating(name, secretsByName())
	cfg.Namespaces = []string{"default"}
	w.o.start(t, cfg, w.m.handler(), way)
}

// parent creates a parent.
func (w *relatedWorld) parent(name string, spec map[string]any) {
	w.t.Helper()
	_, err := w.parents.Create(w.t.Context(), &unstructured.Unstructured{Object: parent(name, spec)}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// secret creates a Secret, or replaces it. Its tier is a label; "" is none.
func (w *relatedWorld) secret(name, text, tier string) {
	w.t.Helper()
	secrets := w.typed.CoreV1().Secrets("default")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"text": text}}
	if tier != "" {
		secret.Labels = map[string]string{"tier": tier}
	}
	if _, err := secrets.Get(w.t.Context(), name, metav1.GetOptions{}); err == nil {
		_, err := secrets.Update(w.t.Context(), secret, metav1.UpdateOptions{})
		require.NoError(w.t, err)
		return
	}
	_, err := secrets.Create(w.t.Context(), secret, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *relatedWorld) removeSecret(name string) {
	w.t.Helper()
	require.NoError(w.t, w.typed.CoreV1().Secrets("default").Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// text returns what a parent's ConfigMap says.
func (w *relatedWorld) text(name string) string {
	cm, err := w.typed.CoreV1().ConfigMaps("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return cm.Data["text"]
}

// saying waits until each of these ConfigMaps says this.
func (w *relatedWorld) saying(want map[string]string) {
	w.t.Helper()
	for name, text := range want {
		eventually(w.t, fmt.Sprintf("%s says %q", name, text), func() bool { return w.text(name) == text })
	}
}

// rests waits until neither the handler was called nor anything changed for two seconds.
func (w *relatedWorld) rests() {
	w.t.Helper()
	eventually(w.t, "it comes to rest", func() bool {
		writes, calls := w.o.writes.Load(), w.m.total()
		during(w.t, 2*time.Second)
		return w.o.writes.Load() == writes && w.m.total() == calls
	})
}

// An outage is a time in which the watches of Secrets are cut.
type outage struct {
	reason string
	begin  func(w *relatedWorld)
	end    func(w *relatedWorld)
	gone   bool // a watch is answered with 410
}

// outages are those of which a related watch must make up.
func outages() map[string]outage {
	restart := func(w *relatedWorld) {
		w.plane.compact()
		w.plane.plane.Server.Kill()
		w.plane.startServer() // whose cache begins after the last change
	}
	hold := func(w *relatedWorld) {
		w.way.asks.shut(w.t) // before the operator goes on with its watches
		w.way.end()
	}
	return map[string]outage{
		"Expired": {"The API server doesn't remember where the watches ended.", hold, func(w *relatedWorld) {
			restart(w)
			w.way.asks.release()
		}, true},
		"ExpiredAndCut": {"The lists are cut that are asked for then.", hold, func(w *relatedWorld) {
			restart(w)
			w.way.cuts.Store(3)
			w.way.asks.release()
		}, true},
		"Unreachable": {"The API server couldn't be reached.", func(w *relatedWorld) {
			w.way.refused.Store(true)
			w.way.cut()
		}, func(w *relatedWorld) {
			w.plane.compact()
			w.way.refused.Store(false)
		}, false},
		"UnreachableAndCut": {"The lists are cut that are asked for then.", func(w *relatedWorld) {
			w.way.refused.Store(true)
			w.way.cut()
		}, func(w *relatedWorld) {
			restart(w)
			w.way.cuts.Store(3)
			w.way.refused.Store(false)
		}, true},
	}
}

func TestC89_Relist(t *testing.T) {
	scenario(t, "C89", "the watches of related objects are cut, the API server forgets what happened meanwhile, and the lists that follow are cut, too: all changes are seen, once, and nobody else is synced")
	w := &relatedWorld{restoredWorld: newRestoredWorld(t)}
	each := func(t *testing.T, mode string, names ...string) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				w.start(t, "c89")
				w.during(outages()[name], strings.ToLower(mode+"-"+name+"-"))
			})
		}
	}
	t.Run("ByName", func(t *testing.T) { each(t, "name", "Expired", "ExpiredAndCut", "Unreachable", "UnreachableAndCut") })
	w.t = t
	w.parent("many", map[string]any{"secrets": numbered("no-such-", 70)}) // more names than have a watch each
	t.Run("ByOneWatch", func(t *testing.T) { each(t, "all", "ExpiredAndCut", "UnreachableAndCut") })
}

// during changes Secrets during an outage. The names of all that is new begin with the prefix.
func (w *relatedWorld) during(of outage, prefix string) {
	w.t.Helper()
	names := []string{"same", "changed", "deleted", "created", "renewed", "gold"}
	want := map[string]string{}
	for _, name := range names {
		spec := map[string]any{"secret": prefix + name}
		if name == "gold" {
			spec = map[string]any{"tier": prefix + name}
		}
		if name != "created" && name != "gold" {
			w.secret(prefix+name, "1", "")
			want[prefix+name] = fmt.Sprintf("secret/%s%s=1", prefix, name)
		}
		w.parent(prefix+name, spec)
	}
	want[prefix+"created"] = ""
	w.secret(prefix+"enters", "1", "")
	w.secret(prefix+"leaves", "1", prefix+"gold")
	want[prefix+"gold"] = fmt.Sprintf("secret/%sleaves=1", prefix)
	w.saying(want)
	w.rests()
	calls := map[string]int{}
	for name := range want {
		calls[name] = len(w.m.shown(name))
	}
	others := w.m.total()
	gone := w.way.gone.Load()

	of.begin(w)
	w.secret(prefix+"changed", "2", "")
	w.secret(prefix+"changed", "3", "")
	w.removeSecret(prefix + "deleted")
	w.secret(prefix+"created", "new", "")
	w.removeSecret(prefix + "renewed")
	w.secret(prefix+"renewed", "renewed", "")
	w.secret(prefix+"enters", "1", prefix+"gold")
	w.secret(prefix+"leaves", "1", "")
	w.secret(prefix+"foreign", "1", "")
	of.end(w)

	want[prefix+"changed"] = fmt.Sprintf("secret/%schanged=3", prefix)
	want[prefix+"deleted"] = ""
	want[prefix+"created"] = fmt.Sprintf("secret/%screated=new", prefix)
	want[prefix+"renewed"] = fmt.Sprintf("secret/%srenewed=renewed", prefix)
	want[prefix+"gold"] = fmt.Sprintf("secret/%senters=1", prefix)
	w.saying(want)
	w.rests()
	require.Equal(w.t, of.gone, w.way.gone.Load() > gone, of.reason)
	require.LessOrEqual(w.t, w.way.cuts.Load(), int64(0), "the lists were cut")
	seen := 0
	for name, text := range want {
		now := w.m.shown(name)[calls[name]:]
		seen += len(now)
		if name == prefix+"same" {
			require.Empty(w.t, now, "nothing has changed for it")
			continue
		}
		distinct := slices.Compact(now)
		if !of.gone { // a watch that resumes delivers both changes of an object, and the handler may see the first one
			require.LessOrEqual(w.t, len(distinct), 2, name)
			distinct = distinct[max(0, len(distinct)-1):]
		}
		require.Equal(w.t, []string{text}, distinct, name)
	}
	require.Equal(w.t, others+seen, w.m.total(), "no other parent was synced")

	// The watches go on.
	w.secret(prefix+"same", "4", "")
	w.secret(prefix+"renewed", "4", "")
	w.saying(map[string]string{prefix + "same": fmt.Sprintf("secret/%ssame=4", prefix), prefix + "renewed": fmt.Sprintf("secret/%srenewed=4", prefix)})
}

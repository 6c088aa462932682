package window

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/testing/budget"
)

const overviewPath = "/window/overview?operator=sites"

// shop returns a parent.
func shop(name, reason string) view.Parent {
	return view.Parent{Namespace: "shop", Name: name, State: explain.Settled, Reason: reason, Children: 2}
}

// row returns the JSON of a parent that shop returned.
func row(name, reason string) string {
	return fmt.Sprintf(`["shop",%q,"settled",%q,"",2,""]`, name, reason)
}

// parentsOf returns the JSON of an event parents.
func parentsOf(all bool, set, gone []string) string {
	return fmt.Sprintf(`{"all":%t,"set":[%s],"gone":[%s]}`, all, strings.Join(set, ","), strings.Join(gone, ","))
}

func begins(running bool) string {
	return fmt.Sprintf(`begin {"operators":["sites","shops"],"operator":"sites","running":%t}`, running)
}

// A client is told of all once, and then of the differences.
func TestOverview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.run("sites", shop("a", ""), shop("b", ""), shop("c", ""))
		w, log := opened(t, source)
		v := visit(t, w, overviewPath)
		pass(100 * time.Millisecond)
		events := v.events()
		require.Equal(t, []string{"begin", "figures", "parents"}, names(events))
		require.Equal(t, begins(true), events[0])
		require.Equal(t, "parents "+parentsOf(true, []string{row("a", ""), row("b", ""), row("c", "")}, nil), events[2])
		var figures view.Figures
		require.NoError(t, json.Unmarshal([]byte(only(events, "figures")[0]), &figures))
		require.Equal(t, 3, figures.Parents)

		pass(time.Second)
		require.Empty(t, v.events(), "nothing has changed")
		source.run("sites", shop("0", ""), shop("b", "new"), shop("c", ""))
		pass(time.Second)
		events = v.events()
		require.Equal(t, []string{"figures", "parents"}, names(events))
		require.Equal(t, "parents "+parentsOf(false, []string{row("0", ""), row("b", "new")}, []string{`["shop","a"]`}), events[1])

		pass(10 * time.Second)
		require.Equal(t, []string{"figures", "figures", "figures", "figures", "figures"}, names(v.events()), "one in two seconds")
		source.run("sites")
		pass(time.Second)
		require.Equal(t, []string{parentsOf(false, nil, []string{`["shop","0"]`, `["shop","b"]`, `["shop","c"]`})}, v.named("parents"))
		require.Empty(t, log.String())
	})
}

// Times are in UTC, and absent ones are empty.
func TestOverview_Row(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	text, err := json.Marshal(rows([]view.Parent{{Namespace: "", Name: "n", State: explain.Failing, Reason: "r", Since: at, Children: 1}}))
	require.NoError(t, err)
	require.JSONEq(t, `[["","n","failing","r","2026-01-02T02:04:05Z",1,""]]`, string(text))
}

// The first operator is shown if none is named, and each has parents of its own.
func TestOverview_Operators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.run("sites", shop("a", ""))
		source.run("shops", shop("b", ""))
		w, _ := opened(t, source)
		first, second := visit(t, w, "/window/overview"), visit(t, w, "/window/overview?operator=shops")
		pass(100 * time.Millisecond)
		require.Equal(t, []string{parentsOf(true, []string{row("a", "")}, nil)}, first.named("parents"))
		events := second.events()
		require.Contains(t, events[0], `"operator":"shops"`)
		require.Equal(t, []string{parentsOf(true, []string{row("b", "")}, nil)}, only(events, "parents"))
	})
}

// Where there is no parent, the client is told so.
func TestOverview_Empty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := opened(t, newSource())
		v := visit(t, w, overviewPath)
		pass(100 * time.Millisecond)
		require.Equal(t, []string{parentsOf(true, nil, nil)}, v.named("parents"))
	})
}

// Many parents, and many that are gone, come in parts, of which the first alone is of all.
func TestOverview_Parts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.run("sites", many(2*rowsOfEvent+500)...)
		w, _ := opened(t, source)
		v := visit(t, w, overviewPath)
		pass(100 * time.Millisecond)
		shapes := func() (out []string) {
			for _, data := range v.named("parents") {
				var event parentsEvent
				require.NoError(t, json.Unmarshal([]byte(data), &event))
				out = append(out, fmt.Sprintf("%t %d %d", event.All, len(event.Set), len(event.Gone)))
			}
			return out
		}
		require.Equal(t, []string{"true 2000 0", "false 2000 0", "false 500 0"}, shapes())
		source.run("sites", shop("a", ""))
		pass(time.Second)
		require.Equal(t, []string{"false 1 2000", "false 0 2000", "false 0 500"}, shapes())
	})
}

// many returns parents by namespace and name.
func many(n int) []view.Parent {
	out := make([]view.Parent, n)
	for i := range out {
		out[i] = view.Parent{Namespace: fmt.Sprintf("ns-%03d", i/100), Name: fmt.Sprintf("parent-%05d", i), State: explain.Waiting, Reason: "waits for Deployment shop/db", Children: 3, LastPass: time.Unix(int64(i), 0)}
	}
	return out
}

// An operator that stops is told of, and so is one that runs again, all of whose parents are told anew. One that was
// restarted between two looks is one that runs again.
func TestOverview_StopsAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.stop("sites")
		w, _ := opened(t, source)
		v := visit(t, w, overviewPath)
		pass(100 * time.Millisecond)
		require.Equal(t, []string{begins(false)}, v.events())
		pass(4 * time.Second)
		require.Empty(t, v.events(), "it is said once")

		all := "parents " + parentsOf(true, []string{row("a", "")}, nil)
		anew := func() {
			t.Helper()
			events := v.events()
			require.Equal(t, []string{"begin", "figures", "parents"}, names(events))
			require.Equal(t, begins(true), events[0])
			require.Equal(t, all, events[2])
		}
		source.run("sites", shop("a", ""))
		pass(time.Second)
		anew()
		source.stop("sites")
		pass(time.Second)
		require.Equal(t, []string{begins(false)}, v.events())
		source.run("sites", shop("a", ""))
		pass(time.Second)
		anew()
		source.stop("sites")
		source.run("sites", shop("a", ""))
		pass(time.Second)
		anew()
	})
}

// A stream in which nothing happens has a comment every 15 seconds.
func TestOverview_KeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.stop("sites")
		w, _ := opened(t, source)
		v := visit(t, w, overviewPath)
		pass(14500 * time.Millisecond)
		require.Equal(t, []string{begins(false)}, v.events())
		pass(time.Second)
		require.Equal(t, []string{":"}, v.events())
		pass(time.Minute)
		require.Equal(t, []string{":", ":", ":", ":"}, v.events())
	})
}

// A source that isn't in order is put in order.
func TestOverview_Unsorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.run("sites", shop("b", ""), shop("a", ""))
		w, _ := opened(t, source)
		v := visit(t, w, overviewPath)
		pass(100 * time.Millisecond)
		require.Equal(t, []string{parentsOf(true, []string{row("a", ""), row("b", "")}, nil)}, v.named("parents"))
	})
}

// Whatever objects are called, an event is one line of JSON, in which nothing looks like HTML.
func TestOverview_Hostile(t *testing.T) {
	for _, name := range []string{"<script>alert(1)</script>", `"],"gone":[["shop","b`, "a\nevent: begin\ndata: {}\n\n", "a\r\nb", "\x00\x1b[31m", "\u2028\u2029", "\xff\xfe", "&amp;", "</p>"} {
		synctest.Test(t, func(t *testing.T) {
			source := newSource()
			source.run("sites", shop(name, name))
			w, _ := opened(t, source)
			v := visit(t, w, overviewPath)
			pass(100 * time.Millisecond)
			events := v.events() // which has parsed them
			require.Equal(t, []string{"begin", "figures", "parents"}, names(events))
			require.NotRegexp(t, "[<>&\u2028\u2029\x00\x1b]", events[2])
			var event parentsEvent
			require.NoError(t, json.Unmarshal([]byte(only(events, "parents")[0]), &event))
			want := strings.ToValidUTF8(name, "\ufffd")
			if name == "\xff\xfe" {
				want = "\ufffd\ufffd"
			}
			require.Equal(t, want, event.Set[0][1])
		})
	}
}

// Figures that are no JSON end the stream, and the log says so.
func TestOverview_NoJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		o := source.mu.overviews["sites"]
		o.Figures.Plots.P50 = []float64{nan()}
		source.mu.overviews["sites"] = o
		w, log := opened(t, source)
		v := visit(t, w, overviewPath)
		<-v.ended
		require.Equal(t, []string{begins(true)}, v.events())
		require.Contains(t, log.String(), "event=figures")
	})
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}

// Whoever applies the differences has what there is.
func TestDifferences(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() (out []view.Parent) {
		for i := range 30 {
			if random.IntN(2) == 0 {
				out = append(out, view.Parent{Namespace: fmt.Sprint("n", i/10), Name: fmt.Sprint("p", i%10), Children: random.IntN(3)})
			}
		}
		return out
	}
	for range budget.Runs(500) {
		before, after := some(), some()
		held := map[[2]string]view.Parent{}
		for _, p := range before {
			held[[2]string{p.Namespace, p.Name}] = p
		}
		changed, gone := differences(before, after)
		for _, p := range changed {
			require.NotEqual(t, held[[2]string{p.Namespace, p.Name}], p, "it has changed")
			held[[2]string{p.Namespace, p.Name}] = p
		}
		for _, name := range gone {
			require.Contains(t, held, name)
			delete(held, name)
		}
		require.Len(t, held, len(after))
		for _, p := range after {
			require.Equal(t, p, held[[2]string{p.Namespace, p.Name}])
		}
	}
}

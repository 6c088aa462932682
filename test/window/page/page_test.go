// Package page looks at the window's page in a browser, with operators that are scripted.
package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/window"
	"github.com/roperator/roperator/test/window/browser"
)

// tools is where make window-tools puts what the tests need besides Chromium, and assets where the page is.
const (
	tools  = "../../../.cache/window/node_modules"
	assets = "../../../internal/window/assets"
)

// serve serves the page until the test ends, and returns its address.
func serve(t *testing.T, s *script, protect func(http.Handler) http.Handler) string {
	t.Helper()
	w := window.New(s, window.Options{Loopback: true, Protect: protect})
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		w.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// rowsShown is the list of the names in the rows of the list, in their order.
const rowsShown = `[...document.querySelectorAll("#list .rows .row")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((e) => e.querySelector(".name").innerText)`

func TestPage(t *testing.T) {
	b := browser.Start(t)
	for name, test := range map[string]func(*testing.T, *browser.Browser){
		"Overview": overview, "Filters": filters, "Keyboard": keyboard, "Updates": updates, "Reconnects": reconnects, "Operators": operators, "Empty": empty,
		"Parent": parent, "ParentProblems": parentProblems, "Details": details, "Plan": planAll, "PlanStops": planStops, "Token": token, "Hostile": hostile,
		"Looks": looks, "ManyParents": manyParents,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

func overview(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, serve(t, newScript(), nil))
	tab.Until(rowsShown + ".length === 9")
	var names []string
	tab.Eval(rowsShown, &names)
	require.Equal(t, []string{
		"shop/is-throttled", "shop/is-failing", "shop/is-not-selected", "shop/is-waiting", "shop/is-not-ready", "shop/is-pending", "shop/is-finalizing", "shop/is-paused", "shop/is-settled",
	}, names, "what needs a person comes first")
	for _, text := range []string{"shops", "example.com/v1/Shop", "leading", "pod-1", "system/shops, held by this process", "because of is-failing", "1 with a problem", "list is forbidden", "create 4"} {
		tab.See("main", text)
	}
	require.Equal(t, 1, tab.Count("h1:not([hidden] *)"))
	require.Equal(t, 5, tab.Count("figure svg[role=img][aria-label]"))
	require.Equal(t, 1, tab.Count("main"))
	require.Equal(t, 1, tab.Count("nav[aria-label]"))
	tab.See("#announcer", "3 parents need a person")
}

func filters(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, serve(t, newScript(), nil))
	tab.Click("button[aria-pressed]", "failing")
	tab.Until(rowsShown + `.join() === "shop/is-failing"`)
	tab.Click("button[aria-pressed]", "paused")
	tab.Until(rowsShown + `.join() === "shop/is-failing,shop/is-paused"`)
	tab.See("#count", "2 of 9 parents")
	tab.Click("button[aria-pressed]", "all")
	tab.Until(rowsShown + ".length === 9")
	tab.Key("/")
	tab.Until(`document.activeElement.id === "search"`)
	tab.Press("#search", "because of is-wait")
	tab.Until(rowsShown + `.join() === "shop/is-waiting"`)
	tab.Press("#search", "nothing")
	tab.See("main", "No parent matches the filter")
}

func keyboard(t *testing.T, b *browser.Browser) {
	tab := b.Open(t, serve(t, newScript(), nil))
	tab.Until(rowsShown + ".length === 9")
	active := `document.querySelector("#list .row.active .name")?.innerText`
	for _, step := range []struct{ keys, want string }{
		{kb.ArrowDown, "shop/is-throttled"}, {kb.ArrowDown, "shop/is-failing"}, {kb.ArrowUp, "shop/is-throttled"}, {kb.End, "shop/is-settled"}, {kb.ArrowDown, "shop/is-settled"},
		{kb.Home, "shop/is-throttled"}, {kb.PageDown, "shop/is-settled"}, {kb.PageUp, "shop/is-throttled"}, {kb.ArrowDown, "shop/is-failing"},
	} {
		tab.Press("#list", step.keys)
		tab.Until(fmt.Sprintf("%s === %q", active, step.want))
		tab.Until(`document.getElementById(document.querySelector("#list").getAttribute("aria-activedescendant"))?.classList.contains("active")`)
	}
	tab.Press("#list", kb.Enter)
	tab.Until(`location.hash === "#/shops/parent/shop/is-failing"`)
	tab.Until(`document.activeElement.tagName === "H1"`)
	tab.Click("a", "all parents of")
	tab.Until(active + ` === "shop/is-failing"`)
}

// updates: rows come, change and go, and what has the focus keeps it.
func updates(t *testing.T, b *browser.Browser) {
	s := newScript()
	tab := b.Open(t, serve(t, s, nil))
	tab.Press("#list", kb.End)
	tab.Until(`document.querySelector("#list .row.active .name")?.innerText === "shop/is-settled"`)
	tab.Eval(`window.kept = document.querySelector("#list .row.active"); 1`, nil)
	s.change(func(s *script) {
		s.parents[0].State, s.parents[0].Reason = explain.Failing, "it broke"
		s.parents = append(s.parents[:1], s.parents[2:]...)
		s.parents = append(s.parents, view.Parent{Namespace: "shop", Name: "new", State: explain.Settled})
	})
	tab.Until(rowsShown + `.includes("shop/new") && !` + rowsShown + `.includes("shop/is-failing")`)
	tab.See("#list", "it broke")
	tab.Until(`document.activeElement.id === "list" && document.querySelector("#list .row.active") === window.kept`)
}

func reconnects(t *testing.T, b *browser.Browser) {
	s := newScript()
	gate := &gate{}
	tab := b.Open(t, serve(t, s, gate.around))
	tab.Expect("503")
	tab.Until(rowsShown + ".length === 9")
	gate.shut()
	tab.See("#status", "trying again")
	tab.See("#status", "closed for a while")
	s.change(func(s *script) { s.parents = s.parents[:2] })
	gate.open()
	tab.Until(rowsShown + ".length === 2")
	tab.SeeNot("#status", "trying again")
	s.change(func(s *script) { s.running = false })
	tab.See("main", "does not run in this process")
	s.change(func(s *script) { s.running = true })
	tab.Until(rowsShown + ".length === 2")
}

func operators(t *testing.T, b *browser.Browser) {
	s := newScript()
	s.operators = []string{"shops", "carts"}
	tab := b.Open(t, serve(t, s, nil))
	tab.Until(`document.querySelectorAll("#operator option").length === 2`)
	tab.Eval(`const e = document.querySelector("#operator"); e.value = "carts"; e.dispatchEvent(new Event("change")); 1`, nil)
	tab.Until(`location.hash === "#/carts"`)
	tab.See("h1", "carts")
}

func empty(t *testing.T, b *browser.Browser) {
	s := newScript()
	s.parents, s.figures.Leading, s.figures.Lease.Held, s.figures.Lease.Holder, s.figures.Synced = nil, false, false, "pod-2", false
	tab := b.Open(t, serve(t, s, nil))
	tab.See("main", "There are no parents")
	tab.See("main", "stands by: pod-2 leads")
	tab.See("main", "for the first time")
}

func parent(t *testing.T, b *browser.Browser) {
	s := newScript()
	tab := b.Open(t, serve(t, s, nil)+"/#/shops/parent/shop/one")
	for _, text := range []string{
		"failing", "no such plan", "seven", "spec.replicas", "hpa", "condition text", "WriteFailed", "Deployment", "missing", "exists already", "waits", "keys", "spec.secretName",
		"Deployment shop/web", "2 more", "could not write", "refused", "event text", "SyncFailed", "abcd1234", "5 more", "3 more",
	} {
		tab.See("main", text)
	}
	require.Equal(t, 1, tab.Count("h1:not([hidden] *)"))
	var link string
	tab.Eval(`document.querySelector("a[download]").href`, &link)
	u, err := url.Parse(link)
	require.NoError(t, err)
	require.Equal(t, "/window/recording", u.Path)
	require.Equal(t, url.Values{"operator": {"shops"}, "namespace": {"shop"}, "name": {"one"}}, u.Query())
	s.change(func(s *script) {
		s.family.Version, s.explained.Parent.State, s.explained.Parent.Error, s.explained.Parent.Reason = "2", explain.Settled, "", "all is as desired"
	})
	tab.See(".head", "settled")
	tab.See("#announcer", "shop/one is settled now")
}

func parentProblems(t *testing.T, b *browser.Browser) {
	s := newScript()
	tab := b.Open(t, serve(t, s, nil)+"/#/shops/parent/shop/one")
	tab.See("main", "hpa")
	s.change(func(s *script) { s.problem, s.family.Version = "the API server is away", "2" })
	tab.See(".notice", "the API server is away")
	tab.See("main", "hpa")
	s.change(func(s *script) { s.known = false })
	tab.See(".notice", "knows no such parent")
}

// details: what is open stays open while things change.
func details(t *testing.T, b *browser.Browser) {
	s := newScript()
	tab := b.Open(t, serve(t, s, nil)+"/#/shops/parent/shop/one")
	tab.Until(`document.querySelector(".tree details summary")`)
	tab.Eval(`for (const e of document.querySelectorAll(".tree details")) e.open = !e.open; window.was = [...document.querySelectorAll(".tree details")].map((e) => e.open).join(); window.kept = document.querySelector(".tree details"); 1`, nil)
	s.change(func(s *script) { s.family.Version, s.explained.Parent.Error = "2", "another error" })
	tab.See("main", "another error")
	tab.Until(`document.querySelector(".tree details") === window.kept && [...document.querySelectorAll(".tree details")].map((e) => e.open).join() === window.was`)
}

func planAll(t *testing.T, b *browser.Browser) {
	s := newScript()
	tab := b.Open(t, serve(t, s, nil)+"/#/shops/plan")
	tab.See("main", "Nothing is written")
	tab.Click("button", "Plan all parents")
	for _, text := range []string{"shop/one", "spec.replicas", "update", "delete", "shop/two", "no such plan", "Planned 3 parents: 2 changes, 1 error.", "3 of 3 parents"} {
		tab.See("main", text)
	}
	tab.SeeNot("main", "quiet")
	s.change(func(s *script) { s.problem = "list is forbidden" })
	tab.Click("button", "Plan all parents")
	tab.See(".notice", "no complete plan: list is forbidden")
}

func planStops(t *testing.T, b *browser.Browser) {
	s := newScript()
	s.hold = make(chan struct{})
	tab := b.Open(t, serve(t, s, nil)+"/#/shops/plan")
	tab.Click("button", "Plan all parents")
	tab.See("main", "1 of 3 parents")
	tab.Click("button", "Stop")
	tab.See("main", "Stopped after 1 of 3 parents")
	close(s.hold)
	tab.Click("button", "Plan all parents")
	tab.See("main", "Planned 3 parents")
}

// token: a protected window asks for a token, and keeps it for the tab.
func token(t *testing.T, b *browser.Browser) {
	guard := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			switch req.Header.Get("Authorization") {
			case "Bearer good":
				next.ServeHTTP(rw, req)
			case "Bearer weak":
				http.Error(rw, `user "weak" cannot get path`, http.StatusForbidden)
			default:
				http.Error(rw, "a bearer token is needed", http.StatusUnauthorized)
			}
		})
	}
	tab := b.Open(t, serve(t, newScript(), guard))
	tab.Expect("401")
	tab.Expect("403")
	tab.See("#access", "This window is protected")
	tab.Press("#token", "bad\r")
	tab.See("#access", "the last one was refused")
	tab.Press("#token", "weak\r")
	tab.See("#access", `user "weak" cannot get path`)
	tab.Press("#token", "good\r")
	tab.Until(rowsShown + ".length === 9")
	tab.Go("about:blank")
	tab.Eval(`1`, nil)
}

// hostile: texts of the cluster are never markup.
func hostile(t *testing.T, b *browser.Browser) {
	const evil = `<img src=x onerror="window.evil=1"></script><script>window.evil=1</script>'"&`
	s := newScript()
	for i := range s.parents {
		s.parents[i].Reason += evil
	}
	s.figures.Host, s.figures.Parent, s.figures.Watches[1].Problem = evil, evil, evil
	s.family, s.explained = familyOf(evil), explanationOf(evil)
	s.planned[0].Changes[0].Fields[0].Live, s.planned[2].Error = evil, evil
	address := serve(t, s, nil)
	for path, text := range map[string]string{"/": "because of is-failing" + evil[:20], "/#/shops/parent/shop/one": "event text" + evil[:20], "/#/shops/plan": "Nothing is written"} {
		tab := b.Open(t, address+path)
		tab.See("main", text)
		if strings.HasSuffix(path, "plan") {
			tab.Click("button", "Plan all parents")
			tab.See("main", "error: "+evil[:20])
		}
		require.Zero(t, tab.Count("main img, main script"))
		tab.Until("window.evil === undefined")
	}
}

// looks: in light and dark, on a desk and on a phone, nothing is too wide, and axe finds nothing.
func looks(t *testing.T, b *browser.Browser) {
	axe, err := os.ReadFile(filepath.Join(tools, "axe-core/axe.min.js"))
	if err != nil && os.Getenv("WINDOW_BROWSER") == "required" {
		require.NoError(t, err, "make window-tools gets it")
	}
	s := newScript()
	address := serve(t, s, nil)
	for view, ready := range map[string]string{"/": "because of", "/#/shops/parent/shop/one": "event text", "/#/shops/plan": "Nothing is written"} {
		tab := b.Open(t, address+view)
		tab.See("main", ready)
		if strings.HasSuffix(view, "plan") {
			tab.Click("button", "Plan all parents")
			tab.See("main", "Planned 3 parents")
		}
		for _, width := range []int64{1280, 360} {
			for _, dark := range []bool{false, true} {
				tab.Resize(width, 800, dark)
				tab.Until(fmt.Sprintf("innerWidth === %d", width))
				var wide int64
				tab.Eval("document.documentElement.scrollWidth", &wide)
				require.LessOrEqual(t, wide, width, "%s is too wide for %d", view, width)
				if len(axe) > 0 {
					require.Empty(t, violations(tab, string(axe)), "%s at %d, dark: %t", view, width, dark)
				}
			}
		}
	}
}

// violations returns what axe finds wrong with the page.
func violations(tab *browser.Tab, axe string) (found []string) {
	tab.Eval(axe+"; 1", nil)
	tab.Eval(`axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}).then((r) =>
		r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join(" | ")))`, &found)
	return found
}

// manyParents: 10,000 parents are shown fast, in little memory, and by few elements.
func manyParents(t *testing.T, b *browser.Browser) {
	s := newScript()
	s.parents = nil
	for i := range 10_000 {
		s.parents = append(s.parents, view.Parent{Namespace: "shop", Name: fmt.Sprintf("parent-%05d", i), State: explain.Settled, Children: 3, LastPass: at().Truncate(time.Second)})
	}
	s.parents[9_000].State = explain.Failing
	tab := b.Open(t, serve(t, s, nil))
	tab.See("#count", "10000 parents")
	tab.Until(rowsShown + `[0] === "shop/parent-09000"`)
	var paint, heap float64
	tab.Eval(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &paint)
	tab.Eval(`gc(); performance.memory.usedJSHeapSize / (1 << 20)`, &heap)
	var listed float64
	tab.Eval(`performance.now()`, &listed)
	t.Logf("10,000 parents: first paint after %.0f ms, all of them listed at the latest after %.0f ms, %.1f MiB of heap", paint, listed, heap)
	require.Less(t, heap, 50.0)
	require.Less(t, tab.Count("#list .rows .row"), 100)
	require.Equal(t, 1, tab.Count(`#list[aria-rowcount="10001"]`))
	tab.Press("#list", kb.End)
	tab.Until(rowsShown + `.at(-1) === "shop/parent-09999"`)
	s.change(func(s *script) {
		for i := range 10 {
			s.parents[i].State = explain.Throttled
		}
	})
	tab.Press("#list", kb.Home)
	tab.Until(rowsShown + `[9] === "shop/parent-00009"`)
}

// TestLines: the page stays one that a person can read in an hour.
func TestLines(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(assets, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	lines := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		lines += strings.Count(string(text), "\n")
		if filepath.Ext(file) == ".js" {
			require.True(t, strings.HasPrefix(string(text), "// @ts-check\n"), file)
		}
	}
	require.Less(t, lines, 1500)
}

// TestTypes: the scripts are free of mistakes that their types show.
func TestTypes(t *testing.T) {
	tsc, err := filepath.Abs(filepath.Join(tools, ".bin/tsc"))
	require.NoError(t, err)
	if _, err := os.Stat(tsc); err != nil && os.Getenv("WINDOW_BROWSER") != "required" {
		t.Skip("tsc isn't there: make window-tools gets it")
	}
	files, err := filepath.Glob(filepath.Join(assets, "*.js"))
	require.NoError(t, err)
	args := append([]string{"--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022", "--module", "es2022", "--lib", "es2023,dom,dom.iterable"}, files...)
	output, err := exec.CommandContext(t.Context(), tsc, args...).CombinedOutput()
	require.NoError(t, err, "%s", output)
}

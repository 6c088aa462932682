package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A Tab shows one page. Its methods fail the test.
type Tab struct {
	t   testing.TB
	run func(actions ...chromedp.Action) error

	mu       sync.Mutex
	wrong    []string // what the page did wrong
	expected []string // of what goes wrong, parts of its text
}

// Open opens a page in a tab of its own, which ends with the test.
func (b *Browser) Open(t testing.TB, url string) *Tab {
	t.Helper()
	ctx, end := b.begin(t)
	ctx, cancel := context.WithTimeout(ctx, 5*patience)
	tab := &Tab{t: t, run: func(actions ...chromedp.Action) error { return chromedp.Run(ctx, actions...) }}
	chromedp.ListenTarget(ctx, tab.hear)
	t.Cleanup(func() {
		cancel()
		end()
		tab.mu.Lock()
		defer tab.mu.Unlock()
		for _, text := range tab.wrong {
			if !tab.isExpected(text) {
				t.Errorf("browser: the page did wrong: %s", text)
			}
		}
	})
	tab.do(log.Enable(), runtime.Enable(), page.BringToFront(), emulation.SetFocusEmulationEnabled(true), chromedp.EmulateViewport(1280, 900))
	tab.Go(url)
	return tab
}

// Expect says that errors whose text has this in it are part of the test: a server that answers 401, say.
func (tab *Tab) Expect(text string) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.expected = append(tab.expected, text)
}

func (tab *Tab) isExpected(text string) bool {
	for _, part := range tab.expected {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// hear keeps what goes wrong in the page.
func (tab *Tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = "exception: " + e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			text = fmt.Sprint("console.error: ", argsOf(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError {
			text = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
	if text == "" {
		return
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	tab.wrong = append(tab.wrong, text)
}

func argsOf(args []*runtime.RemoteObject) (texts []string) {
	for _, arg := range args {
		texts = append(texts, string(arg.Value)+arg.Description)
	}
	return texts
}

func (tab *Tab) do(actions ...chromedp.Action) {
	tab.t.Helper()
	if err := tab.run(actions...); err != nil {
		tab.t.Fatalf("browser: %v\n%s", err, tab.told())
	}
}

// told returns what went wrong so far, for the text of a failure.
func (tab *Tab) told() string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return strings.Join(tab.wrong, "\n")
}

// Go goes to a page.
func (tab *Tab) Go(url string) {
	tab.t.Helper()
	tab.do(chromedp.Navigate(url))
}

// Eval evaluates an expression of JavaScript, whose value it decodes into out. A promise is awaited.
func (tab *Tab) Eval(expression string, out any) {
	tab.t.Helper()
	tab.do(chromedp.Evaluate(expression, out, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// Until waits until an expression of JavaScript is true.
func (tab *Tab) Until(expression string) {
	tab.t.Helper()
	err := tab.run(chromedp.Poll(expression, nil, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(patience)))
	if err != nil {
		tab.t.Fatalf("browser: %s isn't true: %v\nthe page says:\n%s\n%s", expression, err, tab.visible(), tab.told())
	}
}

// visible returns the text of the page, "" if it can't be read.
func (tab *Tab) visible() (text string) {
	_ = tab.run(chromedp.Evaluate("document.body.innerText", &text))
	return text
}

// See waits until an element that the selector finds has the text in it.
func (tab *Tab) See(selector, text string) {
	tab.t.Helper()
	tab.Until(fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))", quoted(selector), quoted(text)))
}

// SeeNot waits until no visible element that the selector finds has the text in it.
func (tab *Tab) SeeNot(selector, text string) {
	tab.t.Helper()
	tab.Until(fmt.Sprintf("![...document.querySelectorAll(%s)].some((e) => e.checkVisibility() && e.innerText.includes(%s))", quoted(selector), quoted(text)))
}

// Texts returns the texts of the elements that the selector finds.
func (tab *Tab) Texts(selector string) (texts []string) {
	tab.t.Helper()
	tab.Eval(fmt.Sprintf("[...document.querySelectorAll(%s)].map((e) => e.innerText)", quoted(selector)), &texts)
	return texts
}

// Count returns how many elements the selector finds.
func (tab *Tab) Count(selector string) (n int) {
	tab.t.Helper()
	tab.Eval(fmt.Sprintf("document.querySelectorAll(%s).length", quoted(selector)), &n)
	return n
}

// Click clicks the first element that the selector finds and whose text has this in it.
func (tab *Tab) Click(selector, text string) {
	tab.t.Helper()
	tab.See(selector, text)
	tab.Eval(fmt.Sprintf("[...document.querySelectorAll(%s)].find((e) => e.innerText.includes(%s)).click()", quoted(selector), quoted(text)), nil)
}

// Press presses keys in the element that the selector finds: texts, or one of kb's keys.
func (tab *Tab) Press(selector, keys string) {
	tab.t.Helper()
	tab.do(chromedp.SendKeys(selector, keys, chromedp.ByQuery))
}

// Key presses the key of a character where the focus is.
func (tab *Tab) Key(character string) {
	tab.t.Helper()
	tab.do(input.DispatchKeyEvent(input.KeyDown).WithKey(character).WithText(character), input.DispatchKeyEvent(input.KeyUp).WithKey(character))
}

// Resize makes the window so large, in dark or light colours. A device of such a width shows the page as it is.
func (tab *Tab) Resize(width, height int64, dark bool) {
	tab.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	tab.do(chromedp.EmulateViewport(width, height), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}))
}

// Picture writes what the tab shows to a PNG.
func (tab *Tab) Picture(path string) {
	tab.t.Helper()
	var png []byte
	tab.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
		return err
	}))
	if err := os.WriteFile(path, png, 0o600); err != nil {
		tab.t.Fatalf("browser: %v", err)
	}
}

// quoted returns a text as JavaScript.
func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		return `""` // a text can always be encoded
	}
	return string(raw)
}

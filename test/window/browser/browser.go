package browser

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience only bounds a hang.
const patience = 20 * time.Second

// A Browser is a Chromium without a display.
type Browser struct {
	begin func(t testing.TB) (context.Context, context.CancelFunc) // a tab
}

// Start starts a browser, which ends with the test. Where there is no Chromium, the test is skipped, or fails if
// the environment has WINDOW_BROWSER=required.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := find(t)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-gpu", true), chromedp.Flag("js-flags", "--expose-gc"),
		chromedp.Flag("enable-precise-memory-info", true))
	allocated, free := chromedp.NewExecAllocator(context.Background(), opts...)
	root, end := chromedp.NewContext(allocated)
	if err := chromedp.Run(root); err != nil {
		free()
		t.Fatalf("browser: %s: %v", path, err)
	}
	t.Cleanup(func() {
		end()
		free()
	})
	return &Browser{begin: func(t testing.TB) (context.Context, context.CancelFunc) {
		t.Helper()
		return chromedp.NewContext(root)
	}}
}

// find returns the path of a Chromium.
func find(t testing.TB) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if own := os.Getenv("WINDOW_CHROMIUM"); own != "" {
		names = []string{own}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	text := "browser: there is no Chromium: install it (make window-tools does, as root of a Debian), or name it by WINDOW_CHROMIUM"
	if os.Getenv("WINDOW_BROWSER") == "required" {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}

// Package browser drives a headless Chromium, in which tests look at pages that are served on this machine.
//
//	b := browser.Start(t)
//	tab := b.Open(t, "http://127.0.0.1:8090/")
//	tab.See("h1", "echoserver")
//
// A test fails on whatever a page logs as an error, on every exception that it doesn't catch, and on all that the
// Content-Security-Policy forbids. The browser ends with the test that has started it, each tab with its own.
package browser

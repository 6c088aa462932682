// Package window has the tests of the window's page in a real browser: package page with scripted
// operators, package live with operators on a real API server. It is a module of its own, since nobody who uses the
// library needs what drives a browser.
package window

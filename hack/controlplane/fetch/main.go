// Command fetch downloads the control plane that tests and the demo run on into a
// folder: etcd, kube-apiserver and kubectl from envtest's releases, the other programs of
// Kubernetes from dl.k8s.io, kwok from its releases on GitHub.
//
//	fetch -out DIR -kubernetes v1.36.3 -kwok v0.8.0 -kwok-sums kwok.sums [-mirror URL] NAME…
//
// A program takes its place in the folder only whole, checked against its published sum and
// executable; .NAME.recipe beside it then says what it is. What couldn't be had is
// left as it was, and told of on the standard error.
//
// With -mirror, everything comes from there, found by the path that its host uses:
//
//	kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml
//	kubernetes-sigs/controller-tools/releases/download/envtest-VERSION/envtest-VERSION-OS-ARCH.tar.gz
//	VERSION/bin/OS/ARCH/NAME, and NAME.sha256 beside it
//	kubernetes-sigs/kwok/releases/download/VERSION/kwok-OS-ARCH; if the mirror has kwok-OS-ARCH.sha256, that is its sum
//
// Exit codes: 0, all is there; 1, something couldn't be had; 2, wrong usage or a folder
// that can't be written, and nothing was asked for; 130, interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"
)

const (
	connectTimeout = 5 * time.Second  // of a connection, name lookup included, and of its TLS handshake
	silenceTimeout = 15 * time.Second // until an answer begins, and between two bytes of it
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// options are the command line.
type options struct {
	out        string // folder that the programs come into
	kubernetes string // version, with its v
	kwok       string // version, with its v
	kwokSums   string // file: a line for each platform, VERSION FILE SHA256
	mirror     *url.URL
	names      []string
	goos       string
	goarch     string
	silence    time.Duration
}

func run(args []string, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "controlplane:", err)
		return exitUsage
	}
	if err := prepare(opts.out); err != nil {
		fmt.Fprintln(stderr, "controlplane:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	progress := newProgress(stderr)
	transport := newTransport(opts.mirror, opts.silence, progress)
	// envtest's client knows no other way to be given a transport.
	http.DefaultTransport = transport
	failures := fetchAll(ctx, opts, &http.Client{Transport: transport, CheckRedirect: stayEncrypted}, progress)
	progress.end()
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "controlplane: interrupted; nothing half done is left")
		return exitInterrupted
	}
	for _, line := range summary(failures) {
		fmt.Fprintln(stderr, "controlplane:", line)
	}
	if len(failures) > 0 {
		return exitFailed
	}
	return 0
}

// maxRedirects bounds how often one download is redirected, as net/http does.
const maxRedirects = 10

// stayEncrypted follows the redirects of a host of releases, which carry no credentials,
// unless one leads from https to http: the sums come from the same host.
func stayEncrypted(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= maxRedirects:
		return fmt.Errorf("%d redirects", len(via))
	case via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("redirect from https to %s://%s", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

func parse(args []string, stderr io.Writer) (options, error) {
	opts := options{}
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.out, "out", "", "`folder` that the programs come into")
	flags.StringVar(&opts.kubernetes, "kubernetes", "", "`version` of Kubernetes, v1.36.3 say")
	flags.StringVar(&opts.kwok, "kwok", "", "`version` of kwok, v0.8.0 say; needed for kwok alone")
	flags.StringVar(&opts.kwokSums, "kwok-sums", "", "`file` with the sums of kwok's releases, which publish none: lines VERSION FILE SHA256")
	flags.StringVar(&opts.goos, "os", runtime.GOOS, "operating `system`, in Go's terms")
	flags.StringVar(&opts.goarch, "arch", runtime.GOARCH, "`architecture`, in Go's terms")
	flags.DurationVar(&opts.silence, "silence", silenceTimeout, "how long a host may say nothing")
	mirror := flags.String("mirror", "", "`URL` that everything comes from instead of its own host")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.names = flags.Args()
	required := []string{"out", "kubernetes"}
	if slices.Contains(opts.names, kwok) {
		required = append(required, "kwok")
	}
	for _, required := range required {
		if flags.Lookup(required).Value.String() == "" {
			return opts, fmt.Errorf("fetch: -%s is missing", required)
		}
	}
	if len(opts.names) == 0 {
		return opts, errors.New("fetch: no program is named")
	}
	for _, name := range opts.names {
		if !known(name) {
			return opts, fmt.Errorf("fetch: %s is none of the programs that can be downloaded", name)
		}
	}
	if *mirror == "" {
		return opts, nil
	}
	var err error
	if opts.mirror, err = url.Parse(*mirror); err != nil {
		return opts, errors.New("mirror: isn't a URL like https://mirror.example.com/controlplane") // it may have a password
	}
	if opts.mirror.Host == "" || opts.mirror.Scheme != "http" && opts.mirror.Scheme != "https" {
		return opts, fmt.Errorf("mirror: %q isn't a URL like https://mirror.example.com/controlplane", opts.mirror.Redacted())
	}
	return opts, nil
}

package reach

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/explain"
)

const (
	// timeout bounds how long all questions may take together.
	timeout = 10 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 1 << 20
)

// None as the URL of a Process says that none is asked.
const None = "none"

// A Process says where the process of an operator is.
type Process struct {
	URL string // of its metrics' address, "http://localhost:8080"; None: nobody is asked; empty: its Pods are looked for
	// TokenFile is a file with the bearer token that a protected URL wants; empty: none is sent.
	TokenFile string
	// Insecure says that the certificate of the URL needn't be one that is trusted.
	Insecure bool

	Program   string // the name of the program, by which its Pods are labelled
	Namespace string // that of its Pods; empty: they are looked for in all
}

// Check says what is wrong with a Process.
func (p Process) Check() error {
	if p.URL == "" || p.URL == None {
		if p.TokenFile != "" || p.Insecure {
			return errors.New("--process-token-file and --process-insecure are for a --process-url")
		}
		return nil
	}
	u, err := url.Parse(p.URL)
	switch {
	case err != nil:
		return fmt.Errorf("--process-url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("--process-url: %q is no URL like http://localhost:8080; %q asks nobody", p.URL, None)
	case u.Scheme == "http" && p.TokenFile != "" && !isLoopback(u.Hostname()):
		return fmt.Errorf("--process-token-file: a token isn't sent to %s without TLS; use https", u.Host)
	}
	return nil
}

// isLoopback says whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// A Question is what is asked.
type Question struct {
	Operator string
	Parent   types.NamespacedName
}

// query returns the question as the query of a URL.
func (q Question) query() url.Values {
	out := url.Values{"operator": {q.Operator}, "name": {q.Parent.Name}}
	if q.Parent.Namespace != "" {
		out.Set("namespace", q.Parent.Namespace)
	}
	return out
}

// Ask asks the process what it knows. Of several replicas the one counts that leads. rc is how to
// reach the API server, which isn't asked if the Process has a URL.
func Ask(ctx context.Context, rc *rest.Config, p Process, q Question) explain.Process {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var known explain.Process
	var err error
	switch p.URL {
	case None:
		err = errors.New("--process-url is " + None)
	case "":
		known, err = askPods(ctx, rc, p, q)
	default:
		known, err = askURL(ctx, p, q)
	}
	if err != nil {
		return explain.Process{Unknown: strings.TrimSpace(err.Error())}
	}
	return known
}

// askURL asks the process at a URL.
func askURL(ctx context.Context, p Process, q Question) (explain.Process, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if p.Insecure {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the user asks for it
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.URL, "/")+explain.Path+"?"+q.query().Encode(), nil)
	if err != nil {
		return explain.Process{}, err
	}
	if p.TokenFile != "" {
		token, err := os.ReadFile(p.TokenFile)
		if err != nil {
			return explain.Process{}, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return explain.Process{}, withAdvice(schemed(err))
	}
	known, err := read(answer, func(text string) error { return p.refused(answer, text) })
	return known, withAdvice(err)
}

// refused returns what it means that a URL answers that somebody may not ask it. text is what the answer says.
func (p Process) refused(answer *http.Response, text string) error {
	switch {
	case answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("it answers %s: %s; add the rule {nonResourceURLs: [%q], verbs: [\"get\"]} to a ClusterRole of theirs", answer.Status, text, explain.Path)
	case p.TokenFile != "":
		return fmt.Errorf("it answers %s to the token in %s: %s", answer.Status, p.TokenFile, text)
	}
	return fmt.Errorf("it is protected, and answers %s; use --process-token-file", answer.Status)
}

// read reads an answer, and closes it. refused makes the error of an answer that somebody may not ask,
// from the text of the answer.
func read(answer *http.Response, refused func(text string) error) (explain.Process, error) {
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return explain.Process{}, err
	}
	text, _, _ := strings.Cut(string(body), "\n")
	text = fmt.Sprintf("%.200s", strings.TrimPrefix(text, http.StatusText(answer.StatusCode)+": "))
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return explain.Process{}, refused(text)
	case http.StatusNotFound:
		return explain.Process{}, fmt.Errorf("it answers %s; its build may be older than this one", answer.Status)
	default:
		return explain.Process{}, schemed(fmt.Errorf("it answers %s: %s", answer.Status, text))
	}
	var known explain.Process
	if err := json.Unmarshal(body, &known); err != nil {
		return explain.Process{}, fmt.Errorf("its answer is no JSON of an explanation: %w", err)
	}
	known.Unknown = ""
	known.From = cmp.Or(known.From, "without a name")
	return known, nil
}

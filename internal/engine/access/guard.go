package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// A Guard lets a request through if its sender may make it. Its methods may be called
// concurrently.
type Guard struct {
	asker *asker
	what  string // is protected
	log   *slog.Logger

	mu struct {
		sync.Mutex
		failure string // why the API server couldn't be asked last; empty: it could
	}
}

// NewGuard returns a guard that asks the API server of rc. The requests of httpClient
// must need no lease: reviews are POST requests, and store nothing. what is the log's name
// of what the guard protects, such as "metrics". NewGuard makes no request.
func NewGuard(rc *rest.Config, httpClient *http.Client, security *Security, what string, log *slog.Logger) (*Guard, error) {
	a, err := newAsker(rc, httpClient, security.Audiences)
	if err != nil {
		return nil, fmt.Errorf("access: %w", err)
	}
	return &Guard{asker: a, what: what, log: log}, nil
}

// Protect returns a handler that passes to next the requests that are allowed. It
// answers all others: 401 if the request has no valid token, 403 if the token's user may
// not do this, and 503 or 500 if that can't be found out.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token, ok := bearer(req)
		if !ok {
			unauthorized(w, "a bearer token is needed")
			return
		}
		user, err := g.asker.authenticate(req.Context(), token)
		switch {
		case err != nil:
			g.fail(w, req, err)
			return
		case user == nil:
			unauthorized(w, "the bearer token isn't valid")
			return
		}
		verb, path := verbOf(req), req.URL.Path
		allowed, err := g.asker.authorize(req.Context(), user, verb, path)
		switch {
		case err != nil:
			g.fail(w, req, err)
		case !allowed:
			http.Error(w, fmt.Sprintf("Forbidden: user %q cannot %s path %q", user.Username, verb, path), http.StatusForbidden)
		default:
			g.worked()
			next.ServeHTTP(w, req)
		}
	})
}

// unauthorized answers a request whose sender isn't known.
func unauthorized(w http.ResponseWriter, why string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "Unauthorized: "+why, http.StatusUnauthorized)
}

// bearer returns the token of a request; false: it has none.
func bearer(req *http.Request) (token string, ok bool) {
	values := req.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(strings.TrimSpace(values[0]), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != "" && !strings.ContainsAny(token, " \t")
}

// verbOf returns the verb by which RBAC knows what a request does to a nonResourceURL.
// Who may get a page may ask for its headers too.
func verbOf(req *http.Request) string {
	if req.Method == http.MethodHead {
		return "get"
	}
	return strings.ToLower(req.Method)
}

// fail answers a request when it couldn't be found out whether it is allowed. Only the
// log says why.
func (g *Guard) fail(w http.ResponseWriter, req *http.Request, err error) {
	code := http.StatusServiceUnavailable
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !apierrors.IsServiceUnavailable(err) {
		code = http.StatusInternalServerError
	}
	http.Error(w, "the API server can't be asked whether this request is allowed; the log of the operator says why", code)
	if req.Context().Err() != nil {
		return // the client has gone, and nothing else need be wrong
	}
	text := err.Error()
	g.mu.Lock()
	said := text == g.mu.failure
	g.mu.failure = text
	g.mu.Unlock()
	if !said {
		g.log.Warn("requests are refused: the API server can't be asked whether they are allowed", "for", g.what, "error", text)
	}
}

// worked notes that the API server can be asked.
func (g *Guard) worked() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.failure = ""
}

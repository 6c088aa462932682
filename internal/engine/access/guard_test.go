package access

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// canary is in every token, and must be in no log.
const canary = "Kanarienvogel"

// reviewing is an API server that knows tokens and rights, and nothing else.
type reviewing struct {
	mu        sync.Mutex
	users     map[string]string   // the user of each valid token
	rights    map[string][]string // by user: "verb path"
	audiences []string            // of all tokens
	err       error               // of every request; *apierrors.StatusError: the answer
	evaluates string              // why an authorizer can't be asked
	requests  []string            // the last part of each path
	agents    []string
}

func newReviewing() *reviewing {
	return &reviewing{
		users:  map[string]string{canary + "-right": "prometheus", canary + "-wrong": "somebody"},
		rights: map[string][]string{"prometheus": {"get /metrics"}},
	}
}

func (r *reviewing) change(f func(r *reviewing)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// asked returns the requests since the last call.
func (r *reviewing) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.requests
	r.requests = nil
	return out
}

func (r *reviewing) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	r.requests, r.agents = append(r.requests, what), append(r.agents, req.Header.Get("User-Agent"))
	if status := apierrors.APIStatus(nil); errors.As(r.err, &status) {
		body := status.Status()
		body.APIVersion, body.Kind = "v1", "Status"
		return answer(int(body.Code), body), nil
	} else if r.err != nil {
		return nil, r.err
	}
	switch what {
	case "tokenreviews":
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			return nil, err
		}
		if user := r.users[review.Spec.Token]; user != "" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: user, Groups: []string{"g"}}}
			for _, audience := range r.audiences {
				if slices.Contains(review.Spec.Audiences, audience) {
					review.Status.Audiences = append(review.Status.Audiences, audience)
				}
			}
		} else {
			review.Status.Error = "invalid bearer token"
		}
		review.APIVersion, review.Kind = "authentication.k8s.io/v1", "TokenReview"
		return answer(http.StatusCreated, review), nil
	case "subjectaccessreviews":
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			return nil, err
		}
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = slices.Contains(r.rights[review.Spec.User], asked.Verb+" "+asked.Path)
		review.Status.EvaluationError = r.evaluates
		review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SubjectAccessReview"
		return answer(http.StatusCreated, review), nil
	}
	return nil, fmt.Errorf("%s isn't expected", req.URL)
}

func answer(code int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text))}
}

// A gate is a guard with a page behind it.
type gate struct {
	api   *reviewing
	guard *Guard
	page  http.Handler
	said  *bytes.Buffer
}

func newGate(t *testing.T, audiences ...string) *gate {
	t.Helper()
	g := &gate{api: newReviewing(), said: &bytes.Buffer{}}
	guard, err := NewGuard(&rest.Config{Host: "https://api"}, &http.Client{Transport: g.api}, &Security{Audiences: audiences}, "metrics", slog.New(slog.NewTextHandler(g.said, nil)))
	require.NoError(t, err)
	g.guard = guard
	g.page = guard.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	return g
}

// get asks for a path with a value of the header Authorization (empty: without it).
func (g *gate) get(t *testing.T, path, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	return g.do(t, http.MethodGet, path, authorization)
}

func (g *gate) do(t *testing.T, method, path, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	g.page.ServeHTTP(w, req)
	require.NotContains(t, w.Body.String(), canary)
	return w
}

const right, wrong = "Bearer " + canary + "-right", "Bearer " + canary + "-wrong"

func TestProtect(t *testing.T) {
	const tokens, rights = "tokenreviews", "subjectaccessreviews"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: tokens}, "", errors.New(`User "op" cannot create resource`))
	for name, tc := range map[string]struct {
		reason         string
		method, header string
		path           string
		change         func(r *reviewing)
		code           int
		asked          []string
		said           string // in the log; empty: nothing is
	}{
		"Right":          {"as it should be", "", right, "/metrics", nil, 200, []string{tokens, rights}, ""},
		"Head":           {"less than to get it", "HEAD", right, "/metrics", nil, 200, []string{tokens, rights}, ""},
		"Lower case":     {"schemes have no case", "", "bearer " + canary + "-right", "/metrics", nil, 200, []string{tokens, rights}, ""},
		"No token":       {"nobody", "", "", "/metrics", nil, 401, nil, ""},
		"Empty token":    {"nobody", "", "Bearer ", "/metrics", nil, 401, nil, ""},
		"Basic":          {"only tokens are known", "", "Basic " + canary, "/metrics", nil, 401, nil, ""},
		"Two words":      {"no token has blanks", "", "Bearer a b", "/metrics", nil, 401, nil, ""},
		"No scheme":      {"it isn't a bearer's", "", canary + "-right", "/metrics", nil, 401, nil, ""},
		"Unknown token":  {"made up", "", "Bearer " + canary, "/metrics", nil, 401, []string{tokens}, ""},
		"Wrong right":    {"somebody else", "", wrong, "/metrics", nil, 403, []string{tokens, rights}, ""},
		"Another path":   {"a right is for a path", "", right, "/debug", nil, 403, []string{tokens, rights}, ""},
		"Another method": {"a right is for a verb", "POST", right, "/metrics", nil, 403, []string{tokens, rights}, ""},
		"Anonymous user": {"a user has a name", "", "Bearer " + canary + "-none", "/metrics", func(r *reviewing) { r.users[canary+"-none"] = "" }, 401, []string{tokens}, ""},
		"Unreachable": {"closed, not open", "", right, "/metrics", func(r *reviewing) { r.err = errors.New("connection refused") }, 503,
			[]string{tokens}, "connection refused"},
		"Quoted":   {"an error may have the request in it", "", right, "/metrics", func(r *reviewing) { r.err = errors.New("bad: " + canary + "-right") }, 503, []string{tokens}, "(the token)"},
		"Overload": {"it passes", "", right, "/metrics", func(r *reviewing) { r.err = apierrors.NewServiceUnavailable("etcd") }, 503, []string{tokens}, "etcd"},
		"Forbidden": {"the operator may not ask", "", right, "/metrics", func(r *reviewing) { r.err = forbidden }, 500, []string{tokens},
			`add the rule {apiGroups: [\"authentication.k8s.io\"], resources: [\"tokenreviews\"], verbs: [\"create\"]}`},
		"Authorizer fails": {"a no that isn't one", "", wrong, "/metrics", func(r *reviewing) { r.evaluates = "webhook: timeout" }, 503, []string{tokens, rights}, "webhook: timeout"},
		"One of them fails": {"another one has allowed it", "", right, "/metrics", func(r *reviewing) { r.evaluates = "webhook: timeout" }, 200,
			[]string{tokens, rights}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			if tc.change != nil {
				g.api.change(tc.change)
			}
			method := tc.method
			if method == "" {
				method = http.MethodGet
			}
			w := g.do(t, method, tc.path, tc.header)
			require.Equal(t, tc.code, w.Code, tc.reason)
			require.Equal(t, tc.code == 200, w.Body.String() == "page", tc.reason)
			if tc.code == 401 {
				require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
			}
			require.Equal(t, tc.asked, g.api.asked(), tc.reason)
			require.NotContains(t, g.said.String(), canary)
			if tc.said == "" {
				require.Empty(t, g.said.String())
				return
			}
			require.Contains(t, g.said.String(), tc.said)
			before := g.said.Len()
			require.Equal(t, tc.code, g.do(t, method, tc.path, tc.header).Code, "no failure is remembered as an answer")
			require.Equal(t, before, g.said.Len(), "it was said")
		})
	}
}

// Two headers could be read as one or the other.
func TestProtect_TwoTokens(t *testing.T) {
	g := newGate(t)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	req.Header["Authorization"] = []string{right, wrong}
	w := httptest.NewRecorder()
	g.page.ServeHTTP(w, req)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Empty(t, g.api.asked())
}

func TestProtect_Audiences(t *testing.T) {
	for name, tc := range map[string]struct {
		reason       string
		wants, meant []string
		code         int
	}{
		"Meant":      {"one is enough", []string{"other", "metrics"}, []string{"metrics"}, 200},
		"Not meant":  {"a token for the API server, say", []string{"metrics"}, []string{"api"}, 401},
		"Knows none": {"the cluster's authenticator heeds no audiences, so that it can't be told", []string{"metrics"}, nil, 401},
		"Wants none": {"the API server's own is checked by itself", nil, nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, tc.wants...)
			g.api.change(func(r *reviewing) { r.audiences = tc.meant })
			require.Equal(t, tc.code, g.get(t, "/metrics", right).Code, tc.reason)
		})
	}
}

// Answers hold for their time: no longer, and no shorter.
func TestProtect_Remembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		require.Equal(t, 200, g.get(t, "/metrics", right).Code)
		require.Equal(t, 403, g.get(t, "/metrics", wrong).Code)
		require.Equal(t, 401, g.get(t, "/metrics", "Bearer unknown").Code)
		g.api.asked()
		g.api.change(func(r *reviewing) {
			r.users = map[string]string{"unknown": "prometheus", canary + "-wrong": "somebody"}
			r.rights["somebody"] = []string{"get /metrics"}
		})
		time.Sleep(rememberNo - time.Second) //nolint:forbidigo // of the bubble's clock
		require.Equal(t, 200, g.get(t, "/metrics", right).Code)
		require.Equal(t, 403, g.get(t, "/metrics", wrong).Code)
		require.Equal(t, 401, g.get(t, "/metrics", "Bearer unknown").Code)
		require.Empty(t, g.api.asked())
		time.Sleep(2 * time.Second) //nolint:forbidigo // of the bubble's clock
		require.Equal(t, 200, g.get(t, "/metrics", wrong).Code, "he got the right")
		require.Equal(t, 200, g.get(t, "/metrics", "Bearer unknown").Code)
		require.Equal(t, []string{"subjectaccessreviews", "tokenreviews"}, g.api.asked(), "each of what had run out")
		time.Sleep(rememberYes) //nolint:forbidigo // of the bubble's clock
		require.Equal(t, 401, g.get(t, "/metrics", right).Code, "the token isn't valid any more")
	})
}

// A token that says when it expires isn't remembered beyond.
func TestProtect_Expiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, time.Now().Add(20*time.Second).Unix()))
		token := "head." + claims + ".signature"
		g.api.change(func(r *reviewing) { r.users[token] = "prometheus" })
		require.Equal(t, 200, g.get(t, "/metrics", "Bearer "+token).Code)
		g.api.change(func(r *reviewing) { delete(r.users, token) })
		time.Sleep(19 * time.Second) //nolint:forbidigo // of the bubble's clock
		require.Equal(t, 200, g.get(t, "/metrics", "Bearer "+token).Code)
		time.Sleep(2 * time.Second) //nolint:forbidigo // of the bubble's clock
		require.Equal(t, 401, g.get(t, "/metrics", "Bearer "+token).Code)
	})
}

func TestEndOf(t *testing.T) {
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, tc := range map[string]struct {
		reason, token string
		want          time.Time
	}{
		"Says":      {"a ServiceAccount's", "a." + encode(`{"exp":1000}`) + ".b", time.Unix(1000, 0)},
		"Doesn't":   {"an old ServiceAccount's", "a." + encode(`{}`) + ".b", time.Time{}},
		"Negative":  {"nonsense", "a." + encode(`{"exp":-1}`) + ".b", time.Time{}},
		"Text":      {"nonsense", "a." + encode(`{"exp":"soon"}`) + ".b", time.Time{}},
		"No base64": {"not a JWT", "a.!.b", time.Time{}},
		"Opaque":    {"a static token", "abc", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, endOf(tc.token), tc.reason) })
	}
}

// Who asks with ever more wrong tokens neither takes memory nor pushes out a right one.
func TestProtect_Flood(t *testing.T) {
	g := newGate(t)
	require.Equal(t, 200, g.get(t, "/metrics", right).Code)
	for i := range 3 * remembered {
		require.Equal(t, 401, g.get(t, "/metrics", fmt.Sprint("Bearer ", canary, i)).Code)
	}
	g.api.asked()
	require.Equal(t, 200, g.get(t, "/metrics", right).Code)
	require.Empty(t, g.api.asked())
	require.Empty(t, g.said.String(), "a wrong token is no news")
}

// Who asks for one path with ever other queries, or for ever other paths, costs one question each at most, and
// takes no memory beyond the bound.
func TestProtect_Paths(t *testing.T) {
	g := newGate(t)
	require.Equal(t, 200, g.get(t, "/metrics", right).Code)
	g.api.asked()
	for i := range 20 {
		require.Equal(t, 200, g.get(t, fmt.Sprint("/metrics?name=", i), right).Code)
	}
	require.Empty(t, g.api.asked(), "a right is for a path, whatever the query")
	for i := range 3 * remembered {
		require.Equal(t, 403, g.get(t, fmt.Sprint("/window/", i), right).Code)
	}
	g.api.asked()
	require.LessOrEqual(t, len(g.guard.asker.allowed.bad.Keys()), remembered)
	require.Equal(t, 200, g.get(t, "/metrics", right).Code)
	require.Empty(t, g.api.asked(), "a yes stays, whatever else is refused")
}

// The log says what is protected.
func TestProtect_Named(t *testing.T) {
	said := &bytes.Buffer{}
	api := newReviewing()
	api.err = errors.New("connection refused")
	guard, err := NewGuard(&rest.Config{Host: "https://api"}, &http.Client{Transport: api}, &Security{}, "the window", slog.New(slog.NewTextHandler(said, nil)))
	require.NoError(t, err)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/window/overview", nil)
	req.Header.Set("Authorization", right)
	guard.Protect(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), req)
	require.Contains(t, said.String(), "requests are refused: the API server can't be asked whether they are allowed\" for=\"the window\"")
}

// An API server that hangs is asked by a few requests at a time, each of which is
// answered.
func TestProtect_Hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := &deaf{}
		said := &bytes.Buffer{}
		guard, err := NewGuard(&rest.Config{Host: "https://api"}, &http.Client{Transport: deaf}, &Security{}, "the window", slog.New(slog.NewTextHandler(said, nil)))
		require.NoError(t, err)
		page := guard.Protect(http.NotFoundHandler())
		var wg sync.WaitGroup
		begin, codes := time.Now(), make([]int, 3*reviewsAtOnce)
		for i := range codes {
			wg.Go(func() {
				req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
				req.Header.Set("Authorization", right)
				w := httptest.NewRecorder()
				page.ServeHTTP(w, req)
				codes[i] = w.Code
			})
		}
		wg.Wait()
		require.Equal(t, reviewTimeout, time.Since(begin))
		require.Equal(t, reviewsAtOnce, deaf.most)
		for _, code := range codes {
			require.Equal(t, http.StatusServiceUnavailable, code)
		}
	})
}

// deaf is an API server that never answers.
type deaf struct {
	mu        sync.Mutex
	now, most int
}

func (d *deaf) RoundTrip(req *http.Request) (*http.Response, error) {
	d.mu.Lock()
	d.now++
	d.most = max(d.most, d.now)
	d.mu.Unlock()
	<-req.Context().Done()
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
	return nil, req.Context().Err()
}

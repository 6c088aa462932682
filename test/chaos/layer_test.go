package chaos

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The faults of the layer. Those that say "after" let the request take effect.
var requestFaults = []string{"429", "500", "503", "409", "504 before", "cut before", "hang", "504 after", "cut after", "truncated"}

// A layer is an HTTP proxy before the API server that answers some requests
// otherwise than the API server would, or did.
type layer struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy
	mu     struct {
		sync.Mutex
		rng    *rand.Rand
		rate   float64 // of any fault
		storm  string  // the fault of which there are many now
		counts map[string]int
	}
}

func newLayer(target string, seed uint64) (*layer, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	l := &layer{}
	l.mu.rng = rand.New(rand.NewPCG(seed, 1))
	l.mu.counts = map[string]int{}
	l.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header["User-Agent"] = r.In.Header["User-Agent"]
		},
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 50},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // as if the API server had cut the connection
		},
	}
	l.server = httptest.NewUnstartedServer(l)
	l.server.Config.ErrorLog = l.proxy.ErrorLog
	l.server.EnableHTTP2 = true
	l.server.StartTLS()
	return l, nil
}

// set says how many requests shall fail: a small part in any way, and many by
// the storm's, if there is one.
func (l *layer) set(rate float64, storm string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.rate, l.mu.storm = rate, storm
}

func (l *layer) total() (sum int, byKind map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.mu.counts {
		sum += n
	}
	return sum, maps.Clone(l.mu.counts)
}

// next decides about a request: "" lets it pass.
func (l *layer) next(req *http.Request) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	fault := ""
	switch {
	case l.mu.storm != "" && l.mu.rng.Float64() < 0.4:
		fault = l.mu.storm
	case l.mu.rng.Float64() < l.mu.rate:
		fault = requestFaults[l.mu.rng.IntN(len(requestFaults))]
	}
	watch := req.URL.Query().Get("watch") != ""
	if fault == "409" && !writes(req.Method) || watch && slices.Contains([]string{"504 after", "cut after", "truncated"}, fault) {
		return ""
	}
	if fault != "" {
		l.mu.counts[fault]++
	}
	return fault
}

func writes(method string) bool { return method != http.MethodGet && method != http.MethodHead }

// ServeHTTP is http.Handler's.
func (l *layer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch fault := l.next(req); fault {
	case "429", "500", "503":
		code, _ := strconv.Atoi(fault) // one of the three
		refuse(w, code, "")
	case "409":
		reason := "Conflict"
		if req.Method == http.MethodPost {
			reason = "AlreadyExists"
		}
		refuse(w, http.StatusConflict, reason)
	case "504 before":
		refuse(w, http.StatusGatewayTimeout, "Timeout")
	case "cut before":
		panic(http.ErrAbortHandler)
	case "hang":
		timer := time.NewTimer(3 * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case "504 after":
		l.proxy.ServeHTTP(httptest.NewRecorder(), req)
		refuse(w, http.StatusGatewayTimeout, "Timeout")
	case "cut after":
		l.proxy.ServeHTTP(httptest.NewRecorder(), req)
		panic(http.ErrAbortHandler)
	case "truncated":
		answer := httptest.NewRecorder()
		l.proxy.ServeHTTP(answer, req)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush() // so that the half arrives
		panic(http.ErrAbortHandler)
	default:
		l.proxy.ServeHTTP(w, req)
	}
}

func refuse(w http.ResponseWriter, code int, reason string) {
	switch code {
	case http.StatusTooManyRequests:
		reason = "TooManyRequests"
		w.Header().Set("Retry-After", "1")
	case http.StatusInternalServerError:
		reason = "InternalError"
	case http.StatusServiceUnavailable:
		reason = "ServiceUnavailable"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{ // nobody is left to be told if it fails
		"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code, "message": "chaos",
	})
}

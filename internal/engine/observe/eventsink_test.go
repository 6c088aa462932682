package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// An eventServer accepts Events and remembers them: the note of a new Event, the
// count of one that is counted again.
type eventServer struct {
	mu struct {
		sync.Mutex
		told []string
		fail func() (*metav1.Status, error) // nil: Events are accepted
	}
}

func (s *eventServer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	code, answer := http.StatusCreated, body
	if s.mu.fail != nil {
		status, err := s.mu.fail()
		if err != nil {
			return nil, err
		}
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		code = int(status.Code)
		if answer, err = json.Marshal(status); err != nil {
			return nil, err
		}
	}
	if code == http.StatusCreated {
		var e eventsv1.Event
		if err := json.Unmarshal(body, &e); err != nil {
			return nil, err
		}
		line := e.Note
		if req.Method == http.MethodPatch {
			line = fmt.Sprintf("×%d", e.Series.Count)
			answer = []byte(`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e"}}`)
		}
		s.mu.told = append(s.mu.told, line)
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(bytes.NewReader(answer)),
	}, nil
}

func (s *eventServer) failing(fail func() (*metav1.Status, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fail = fail
}

func (s *eventServer) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.mu.told...)
}

// withEventSink runs a test on a sink in a synctest bubble, and returns the sink's
// log.
func withEventSink(t *testing.T, test func(s *EventSink, server *eventServer)) string {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		server := &eventServer{}
		s, err := NewEventSink(&rest.Config{Host: "http://api", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}, &http.Client{Transport: server}, "op", NewMetrics(), slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, err)
		defer s.Close()
		test(s, server)
	})
	return log.String()
}

func someEvent(note string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns"},
		Regarding:  corev1.ObjectReference{Kind: "Parent", Namespace: "ns", Name: "one", UID: "u"},
		Type:       Warning, Reason: "Reason", Action: "Sync", Note: note,
	}
}

func TestEventSinkCountsEqualOnes(t *testing.T) {
	log := withEventSink(t, func(s *EventSink, server *eventServer) {
		for range 9 {
			s.record(someEvent("a"))
		}
		s.record(someEvent("b"))
		s.record(someEvent("a"))
		synctest.Wait()
		require.Equal(t, []string{"a", "×2", "×4", "×8", "b"}, server.told(), "what differs in its note is another Event")
		<-time.After(eventSeriesGap + time.Second)
		s.record(someEvent("a"))
		synctest.Wait()
		require.Equal(t, "a", server.told()[5], "after a pause it is told anew")
	})
	require.Empty(t, log)
}

func TestEventSinkLimitsWhatTellsOfWrites(t *testing.T) {
	withEventSink(t, func(s *EventSink, server *eventServer) {
		for i := range 100 {
			s.recordWrite(someEvent(fmt.Sprint(i)))
		}
		synctest.Wait()
		require.Len(t, server.told(), writeEventBurst)
		require.Zero(t, s.waiting.Load())
		<-time.After(10 * time.Second)
		for i := range 100 {
			s.recordWrite(someEvent(fmt.Sprint("later", i)))
		}
		s.record(someEvent("an error"))
		synctest.Wait()
		require.Len(t, server.told(), writeEventBurst+10*writeEventRate+1, "what tells of something else isn't limited")
	})
}

func TestEventSinkTriesAgain(t *testing.T) {
	log := withEventSink(t, func(s *EventSink, server *eventServer) {
		server.failing(func() (*metav1.Status, error) { return nil, errors.New("connection refused") })
		s.record(someEvent("a"))
		synctest.Wait()
		server.failing(nil)
		<-time.After(eventRetryPause + time.Second)
		synctest.Wait()
		require.Equal(t, []string{"a"}, server.told())
	})
	require.Empty(t, log)
}

func TestEventSinkDropsWhatIsRefused(t *testing.T) {
	forbidden := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no"}
	terminating := forbidden.DeepCopy()
	terminating.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}
	for name, tc := range map[string]struct {
		reason string
		status *metav1.Status
		logged int
	}{
		"Forbidden":   {"somebody has to know, once", forbidden, 1},
		"Terminating": {"nothing to tell of", terminating, 0},
	} {
		t.Run(name, func(t *testing.T) {
			log := withEventSink(t, func(s *EventSink, server *eventServer) {
				server.failing(func() (*metav1.Status, error) { return tc.status, nil })
				s.record(someEvent("a"))
				s.record(someEvent("again"))
				synctest.Wait()
				server.failing(nil)
				s.record(someEvent("b"))
				synctest.Wait()
				require.Equal(t, []string{"b"}, server.told())
			})
			require.Equal(t, tc.logged, strings.Count(log, "Event not written"), tc.reason)
		})
	}
}

// RBAC's refusal is told with the rule that is missing, once for each namespace and not for each
// Event, also if Events in another namespace are written meanwhile.
func TestEventSinkNamesTheRule(t *testing.T) {
	forbid := func(verb, namespace string) func() (*metav1.Status, error) {
		text := fmt.Sprintf(`events.events.k8s.io is forbidden: User "nobody" cannot %s resource "events" in API group "events.k8s.io" in the namespace %q`, verb, namespace)
		return func() (*metav1.Status, error) {
			return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: text}, nil
		}
	}
	in := func(namespace, note string) *eventsv1.Event {
		e := someEvent(note)
		e.Namespace = namespace
		return e
	}
	log := withEventSink(t, func(s *EventSink, server *eventServer) {
		for i := range 10 {
			server.failing(forbid("create", "a"))
			s.record(in("a", fmt.Sprint(i)))
			synctest.Wait()
			server.failing(nil)
			s.record(in("b", fmt.Sprint(i)))
			synctest.Wait()
		}
		require.Len(t, server.told(), 10, "those in the other namespace")
		server.failing(forbid("patch", "b"))
		for range 4 {
			s.record(in("b", "0"))
		}
		synctest.Wait()
	})
	require.Equal(t, 2, strings.Count(log, "Event not written"), log)
	require.Contains(t, log, `add the rule {apiGroups: [\"events.k8s.io\"], resources: [\"events\"], verbs: [\"create\"]}`)
	require.Contains(t, log, `add the rule {apiGroups: [\"events.k8s.io\"], resources: [\"events\"], verbs: [\"patch\"]}`)

	log = withEventSink(t, func(s *EventSink, server *eventServer) {
		server.failing(forbid("create", "a"))
		s.record(in("a", "1"))
		synctest.Wait()
		server.failing(nil) // the rule was added
		s.record(in("a", "2"))
		synctest.Wait()
		server.failing(forbid("create", "a"))
		s.record(in("a", "3"))
		synctest.Wait()
		for i := range 1000 {
			server.failing(forbid("create", fmt.Sprint("n", i)))
			s.record(in(fmt.Sprint("n", i), "x"))
			synctest.Wait()
		}
	})
	require.Equal(t, 1+maxForbidden, strings.Count(log, "Event not written"), "one that was allowed meanwhile is told again; there is a bound")
}

func TestEventSinkClose(t *testing.T) {
	withEventSink(t, func(s *EventSink, server *eventServer) {
		s.record(someEvent("last words"))
		s.Close()
		require.Equal(t, []string{"last words"}, server.told(), "what was recorded is written")
		s.record(someEvent("too late"))
	})
	withEventSink(t, func(s *EventSink, server *eventServer) {
		server.failing(func() (*metav1.Status, error) { return nil, errors.New("connection refused") })
		for i := range maxEventQueue {
			s.record(someEvent(fmt.Sprint(i)))
		}
		start := time.Now()
		s.Close()
		require.LessOrEqual(t, time.Since(start), eventFlushTimeout, "but not for long")
	})
}

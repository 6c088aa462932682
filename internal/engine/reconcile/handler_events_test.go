package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
)

// No message of a handler's Event is lost, whatever else is wrong with the Event. The log says what, once.
func TestHandlerEvents(t *testing.T) {
	many := make([]handler.Event, 60)
	var all []string
	for i := range many {
		many[i] = handler.Event{Reason: "Created", Message: fmt.Sprintf("account %d", i)}
		all = append(all, fmt.Sprintf("Normal Created: account %d", i))
	}
	for name, tc := range map[string]struct {
		reason string
		events []handler.Event
		want   []string
		logged string // what a warning says; empty: there is none
	}{
		"Normal":    {"the default", []handler.Event{{Reason: "R", Message: "m"}, {Type: "Normal", Reason: "S"}}, []string{"Normal R: m", "Normal S: "}, ""},
		"Warning":   {"as the constant says", []handler.Event{{Type: handler.EventWarning, Reason: "R", Message: "m"}}, []string{"Warning R: m"}, ""},
		"LowerCase": {"what is meant is plain", []handler.Event{{Type: "warning", Reason: "R", Message: "m"}, {Type: "normal", Reason: "S", Message: "n"}}, []string{"Warning R: m", "Normal S: n"}, ""},
		"Unknown": {
			"better seen than not", []handler.Event{{Type: "Error", Reason: "R", Message: "m"}, {Type: "Fatal", Reason: "S", Message: "n"}}, []string{"Warning R: m", "Warning S: n"},
			`has an Event of a Type that there isn't, which is recorded as a Warning"`,
		},
		"NoReason": {
			"the API server takes none without", []handler.Event{{Reason: "R", Message: "m"}, {Message: "n"}, {Message: "o"}}, []string{"Normal R: m", "Normal Unspecified: n", "Normal Unspecified: o"},
			`has an Event without a Reason, which is recorded with another one"`,
		},
		"Long":     {"as much as there may be", []handler.Event{{Reason: strings.Repeat("R", 200), Message: strings.Repeat("m", 2000)}}, []string{"Normal " + strings.Repeat("R", 125) + "…: " + strings.Repeat("m", 1021) + "…"}, ""},
		"NoUTF8":   {"each byte becomes three", []handler.Event{{Reason: "R", Message: strings.Repeat("é", 500) + "\xff\xfe" + strings.Repeat("é\xff", 500)}}, nil, ""},
		"Engine's": {"the limit is for writes", many, all, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					resp, err := rig.Copier(ctx, req)
					resp.Events = tc.events
					return resp, err
				}))
				r.Create("a", "1")
				rig.Elapse(10 * time.Minute)
				got := slices.DeleteFunc(recorded(r), func(text string) bool { return text == "Normal Created: created ConfigMap a" })
				if tc.want == nil {
					require.Len(t, got, 1)
				} else {
					require.ElementsMatch(t, tc.want, got)
				}
				if tc.logged == "" {
					require.NotContains(t, r.Logs.String(), "level=WARN")
				} else {
					require.Equal(t, 1, strings.Count(r.Logs.String(), "level=WARN"), r.Logs.String())
					require.Contains(t, r.Logs.String(), tc.logged)
				}
				r.Stop()
			})
		})
	}
}

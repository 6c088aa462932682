package shards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/testing/audit"
)

// A line is one of a log made by hand. Its times are in milliseconds.
type line struct {
	from, to int
	as, verb string
	object   string // "leases/op", "gadgets/p"
	holder   string // of a Lease
	code     int    // 0: 200
	travel   int    // from when it was sent to when it was received
}

// renewals returns lines with which a replica renews a Lease each second, first at from and last at to.
func renewals(as, lease, holder string, from, to int) (out []line) {
	for at := from; at <= to; at += 1000 {
		out = append(out, line{at, at + 10, as, "update", "leases/" + lease, holder, 0, 0})
	}
	return out
}

// divided returns the lines of a replica that holds shard 0 from a moment to another. Its last
// renewal is a second before.
func divided(as string, from, to int) []line {
	return slices.Concat(
		renewals(as, "op-member-"+as, as, from-40, to-1000),
		renewals(as, "op", "shards/2", from-20, to-1000),
		renewals(as, "op-shard-0", as, from, to-1000),
	)
}

// writeLog writes lines as the API server does.
func writeLog(t *testing.T, lines []line) string {
	t.Helper()
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) string {
		return begin.Add(time.Duration(ms) * time.Millisecond).Format("2006-01-02T15:04:05.000000Z07:00")
	}
	// What a request changes is changed in the middle of it.
	version := func(l line) string { return fmt.Sprint(1_000_000 + l.from + l.to) }
	var text strings.Builder
	for _, l := range lines {
		resource, name, _ := strings.Cut(l.object, "/")
		entry := map[string]any{
			"stage": "ResponseComplete", "verb": l.verb, "requestURI": "/",
			"objectRef":        map[string]any{"resource": resource, "namespace": "ns", "name": name},
			"responseStatus":   map[string]any{"code": max(l.code, 200)},
			"user":             map[string]any{"username": "admin"},
			"userAgent":        fmt.Sprint("gadgets/roperator sent/", begin.Add(time.Duration(l.from-l.travel)*time.Millisecond).UnixNano()),
			"impersonatedUser": map[string]any{"username": l.as}, "requestReceivedTimestamp": at(l.from), "stageTimestamp": at(l.to),
		}
		if resource == "leases" && l.verb != "delete" {
			entry["responseObject"] = map[string]any{"metadata": map[string]any{"name": name, "resourceVersion": version(l)}, "spec": map[string]any{"holderIdentity": l.holder}}
		}
		out, err := json.Marshal(entry)
		require.NoError(t, err)
		text.Write(append(out, '\n'))
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	return file
}

// uidOf returns a UID of a bucket.
func uidOf(bucket int) types.UID {
	for i := 0; ; i++ {
		if uid := types.UID(fmt.Sprint("uid-", i)); shard.Bucket(uid) == bucket {
			return uid
		}
	}
}

// The oracle finds what is wrong in logs that were made by hand, and nothing in those that are right.
func TestOracle(t *testing.T) {
	// a holds shard 0 for ten seconds, and releases it.
	released := func(at int) line { return line{at, at + 10, "a", "update", "leases/op-shard-0", "", 0, 0} }
	write := func(as string, from, to int) line {
		return line{from, to, as, "update", "configmaps/p-config", "", 0, 0}
	}
	late := func(code, travel, from, to int) line {
		return line{from, to, "a", "update", "configmaps/p-config", "", code, travel}
	}
	with := slices.Concat[[]line]
	cases := map[string]struct {
		lines []line
		want  string // what the only violation begins with; empty: there is none
		late  int
	}{
		"handed over": {with(divided("a", 0, 10000), []line{write("a", 9000, 9100), released(9100)}, divided("b", 9110, 12000), []line{write("b", 9130, 9200)}), "", 0},
		"expired":     {with(divided("a", 0, 4000), []line{write("a", 4000, 4100)}, divided("b", 9001, 12000), []line{write("b", 9100, 9200)}), "", 0},
		"undivided first": {with(renewals("u", "op", "u", 0, 3000), []line{write("u", 3000, 3500), {3600, 3610, "u", "update", "leases/op", "", 0, 0}},
			divided("b", 4000, 8000), []line{write("b", 4100, 4200)}), "", 0},
		"a status, a finalizer, a deletion": {with(divided("a", 0, 10000), []line{{100, 110, "a", "update", "gadgets/p", "", 0, 0}, {200, 210, "a", "delete", "secrets/p-secret", "", 0, 0}}), "", 0},
		"under way for long":                {with(divided("a", 0, 4000), []line{late(200, 2000, 8000, 8010)}), "", 0},
		"late":                              {with(divided("a", 0, 4000), []line{late(200, 3000, 9200, 9210)}, divided("b", 9100, 12000), []line{write("b", 9300, 9310)}), "", 1},
		"late, and beside other objects": {with(divided("a", 0, 4000), []line{late(200, 3000, 9200, 9210)}, divided("b", 9100, 12000),
			[]line{{9150, 9160, "b", "update", "configmaps/p-config2", "", 0, 0}}), "", 1},
		"late, and refused":             {with(divided("a", 0, 4000), []line{late(409, 3000, 9200, 9210)}, divided("b", 9100, 12000), []line{write("b", 9150, 9160)}), "", 1},
		"reads, Events, what others do": {[]line{{0, 1, "a", "get", "configmaps/p-config", "", 0, 0}, {0, 1, "a", "create", "events/e", "", 0, 0}, {0, 1, "x", "update", "gadgets/p", "", 0, 0}}, "", 0},

		"late, and beside another's": {with(divided("a", 0, 4000), []line{late(200, 3000, 9200, 9210)}, divided("b", 9100, 12000), []line{write("b", 9150, 9160)}),
			"late: bucket 0: update configmaps/p-config by a", 1},
		"refused without the shard": {with(divided("a", 0, 4000), []line{{9000, 9010, "a", "update", "configmaps/p-config", "", 409, 0}}), "unheld: bucket 0:", 0},
		"sent after another had taken it": {with(divided("a", 0, 4000), []line{{7000, 7010, "b", "update", "leases/op-shard-0", "b", 0, 0}, {7100, 7110, "a", "update", "configmaps/p-config", "", 0, 0}}),
			"early: Lease op-shard-0: b\nunheld: bucket 0:", 0},
		"no Lease at all":        {[]line{write("a", 100, 110)}, "unheld: bucket 0: update configmaps/p-config by a", 0},
		"another shard's":        {with(divided("a", 0, 4000), []line{{100, 110, "a", "update", "configmaps/q-config", "", 0, 0}}), "unheld: bucket 32:", 0},
		"renewed too long ago":   {with(divided("a", 0, 4000), []line{write("a", 8000, 8010)}), "unheld: bucket 0:", 0},
		"the answer isn't there": {with(divided("a", 0, 4000), []line{write("a", 5, 20)}), "unheld: bucket 0:", 0},
		"after the release":      {with(divided("a", 0, 4000), []line{released(3100), write("a", 3200, 3210)}), "unheld: bucket 0:", 0},
		"ends after the release": {with(divided("a", 0, 4000), []line{write("a", 3050, 3150), released(3100)}), "unheld: bucket 0:", 0},
		"ends after another has taken it": {with(divided("a", 0, 4000), []line{write("a", 3100, 9300)}, divided("b", 9100, 12000), []line{write("b", 9200, 9210)}),
			"late: bucket 0: update configmaps/p-config by a", 1},
		"unclear whether refused": {with(divided("a", 0, 4000), []line{{9000, 9010, "a", "update", "configmaps/p-config", "", 504, 0}}), "unheld: bucket 0:", 0},
		"not a member any more": {with(divided("a", 0, 4000), []line{{3100, 3110, "a", "delete", "leases/op-member-a", "", 0, 0}, write("a", 3200, 3210)}),
			"unheld: bucket 0:", 0},
		"the fleet's Lease is another's": {with(divided("a", 0, 4000), []line{{9200, 9210, "u", "update", "leases/op", "u", 0, 0}},
			renewals("a", "op-shard-0", "a", 8000, 9000), renewals("a", "op-member-a", "a", 8000, 9000), []line{write("a", 9300, 9310)}), "unheld: bucket 0:", 0},
		"undivided without its Lease": {[]line{write("u", 0, 10)}, "unheld: bucket 0:", 0},
		"beside each other": {with(divided("a", 0, 4000), []line{write("a", 3000, 3200), released(3150)}, divided("b", 3170, 6000), []line{write("b", 3190, 3195)}),
			"unheld: bucket 0: update configmaps/p-config by a\nbeside: bucket 0: update configmaps/p-config by b", 0},
		"taken too early": {with(divided("a", 0, 4000), []line{{7000, 7010, "b", "update", "leases/op-shard-0", "b", 0, 0}}), "early: Lease op-shard-0: b", 0},
		"given away":      {[]line{{0, 10, "a", "update", "leases/op-shard-0", "b", 0, 0}}, "given: Lease op-shard-0: a", 0},
		"not a member's":  {[]line{{0, 10, "a", "update", "leases/op", "a", 0, 0}}, "given: Lease op: a", 0},
		"what isn't its":  {with(divided("a", 0, 4000), []line{{100, 110, "a", "update", "configmaps/other", "", 0, 0}}), "unknown: update configmaps/other", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := &oracle{
				operator: "op", leaseDuration: leaseDuration, renewDeadline: renewDeadline, slack: 500 * time.Millisecond,
				divides: map[string]int{"a": 2, "b": 2, "u": 0}, parents: map[string]types.UID{"p": uidOf(0), "q": uidOf(shard.Buckets / 2)},
			}
			entries, _ := audit.Entries(t, writeLog(t, tc.lines), 0)
			require.Len(t, entries, len(tc.lines))
			got, late := o.judge(o.read(t, entries))
			var want []string
			if tc.want != "" {
				want = strings.Split(tc.want, "\n")
			}
			require.Len(t, got, len(want), "%q", got)
			for i := range want {
				require.True(t, strings.HasPrefix(got[i], want[i]), got[i])
			}
			require.Equal(t, tc.late, late)
		})
	}
}

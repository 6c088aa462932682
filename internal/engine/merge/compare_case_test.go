package merge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// A compareCase is one comparison. Its objects are YAML.
type compareCase struct {
	reason  string
	of      resource.Type // the zero value: without schema
	live    string
	desired string
	earlier string   // the earlier desired object; "": none is known
	limit   int      // of the text of its FieldSet; 0: as much as it takes
	ignore  []string // Comparison.Ignore
	want    []string // the differences, as describeDifferences prints them
	merged  string   // the result of Merge; "" if it is live
}

// schemaOf returns the schema of a built-in kind, nil for the zero value.
func schemaOf(tb testing.TB, of resource.Type) *listkeys.Node {
	tb.Helper()
	if of == (resource.Type{}) {
		return nil
	}
	schema := listkeys.For(of)
	require.NotNil(tb, schema, of)
	return schema
}

func runCompareCases(t *testing.T, cases map[string]compareCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.run(t) })
	}
}

// comparison returns the Comparison of the case.
func (tc compareCase) comparison(t *testing.T) Comparison {
	t.Helper()
	c := Comparison{Schema: schemaOf(t, tc.of)}
	for _, path := range tc.ignore {
		p, err := fieldpath.Parse(path)
		require.NoError(t, err)
		c.Ignore = append(c.Ignore, p)
	}
	return c
}

// run compares and merges once, and checks what holds for any comparison.
func (tc compareCase) run(t *testing.T) {
	t.Helper()
	c := tc.comparison(t)
	live, desired := sample.YAML(t, tc.live), sample.YAML(t, tc.desired)
	var former *FieldSet
	if tc.earlier != "" {
		limit := tc.limit
		if limit == 0 {
			limit = 1 << 20
		}
		text := newFieldSet(sample.YAML(t, tc.earlier), c.Schema).Encode(limit)
		var err error
		former, err = ParseFieldSet(text)
		require.NoError(t, err)
		t.Log("former:", text)
	}
	liveBefore, desiredBefore := runtime.DeepCopyJSON(live), runtime.DeepCopyJSON(desired)

	require.Equal(t, tc.want, describeDifferences(t, c.Compare(live, desired, former)), tc.reason)
	merged := c.Merge(live, desired, former)
	if tc.merged == "" {
		require.Equal(t, live, merged, tc.reason)
	} else {
		require.Equal(t, sample.YAML(t, tc.merged), merged, tc.reason)
	}
	require.Nil(t, c.Compare(merged, desired, former), "the merged object satisfies the desired one")
	require.Equal(t, merged, c.Merge(merged, desired, former), "merging again changes nothing")
	require.Equal(t, liveBefore, live, "the live object isn't modified")
	require.Equal(t, desiredBefore, desired, "the desired object isn't modified")
}

// describeDifferences prints each difference on a line: path: live -> desired, or
// path: live removed.
func describeDifferences(t *testing.T, all []Difference) []string {
	t.Helper()
	var out []string
	for _, d := range all {
		line := d.Path + ": " + jsonText(t, d.Live)
		if d.Removed {
			require.Nil(t, d.Desired)
			line += " removed"
		} else {
			line += " -> " + jsonText(t, d.Desired)
		}
		out = append(out, line)
	}
	return out
}

// jsonText returns a value as JSON, nil as none.
func jsonText(t *testing.T, v any) string {
	t.Helper()
	if v == nil {
		return "none"
	}
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

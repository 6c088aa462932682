package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	lines := func(l ...string) string { return strings.Join(l, "\n") }
	for name, tc := range map[string]struct {
		reason string
		in     string
		want   string
		passed int
		failed []string
	}{
		"passes": {
			reason: "a scenario is printed with its title",
			in: lines(`{"Action":"attr","Test":"TestC1_X","Key":"scenario","Value":"C1 a title"}`,
				`{"Action":"pass","Test":"TestC1_X/sub"}`, `{"Action":"pass","Test":"TestC1_X"}`),
			want: "C1 a title: ok\n", passed: 1,
		},
		"fails": {
			reason: "a failure shows the output, its subtests' included",
			in: lines(`{"Action":"attr","Test":"TestC1_X","Key":"scenario","Value":"C1 a title"}`,
				`{"Action":"output","Test":"TestC1_X/sub","Output":"why\n"}`, `{"Action":"fail","Test":"TestC1_X"}`),
			want: "C1 a title: FAILED\nwhy\n", failed: []string{"TestC1_X"},
		},
		"not a scenario": {
			reason: "a test of the suite's own helpers counts only if it fails",
			in:     lines(`{"Action":"pass","Test":"TestHelper"}`, `{"Action":"fail","Test":"TestOther"}`),
			want:   "TestOther: FAILED\n", failed: []string{"TestOther"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r := &report{out: &out, titles: map[string]string{}, output: map[string][]string{}}
			require.NoError(t, r.read(strings.NewReader(tc.in)), tc.reason)
			require.Equal(t, tc.want, out.String(), tc.reason)
			require.Equal(t, tc.passed, r.passed, tc.reason)
			require.Equal(t, tc.failed, r.failed, tc.reason)
		})
	}
}

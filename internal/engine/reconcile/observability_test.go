package reconcile_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// documented returns the labels of each metric in docs/reference/metrics.md,
// which another test holds to what a run gathers; of a histogram, those of what
// Prometheus makes of it.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference/metrics.md")
	require.NoError(t, err)
	out := map[string][]string{}
	word := regexp.MustCompile(`\w+`)
	for _, row := range regexp.MustCompile("(?m)^\\| `(roperator_\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		labels := append(word.FindAllString(row[3], -1), "instance") // the latter is Prometheus' own
		if row[2] != "histogram" {
			out[row[1]] = labels
			continue
		}
		out[row[1]+"_sum"], out[row[1]+"_count"], out[row[1]+"_bucket"] = labels, labels, append(slices.Clone(labels), "le")
	}
	require.Greater(t, len(out), 20)
	return out
}

// checkQuery returns what is wrong with the metrics and labels of a query.
func checkQuery(query string, known map[string][]string) []string {
	var wrong, allowed []string
	metrics := regexp.MustCompile(`\b(roperator_\w+)(\{([^}]*)\})?`).FindAllStringSubmatch(query, -1)
	if len(metrics) == 0 {
		return []string{"no metric in it"}
	}
	for _, m := range metrics {
		labels, ok := known[m[1]]
		if !ok {
			wrong = append(wrong, "metric "+m[1])
		}
		allowed = append(allowed, labels...)
		for _, matcher := range regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"[^"]*"`).FindAllStringSubmatch(m[3], -1) {
			if !slices.Contains(labels, matcher[1]) {
				wrong = append(wrong, m[1]+" label "+matcher[1])
			}
		}
	}
	for _, group := range regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			if !slices.Contains(allowed, strings.TrimSpace(label)) {
				wrong = append(wrong, "label "+strings.TrimSpace(label))
			}
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			wrong = append(wrong, pair+" don't match")
		}
	}
	return wrong
}

func TestCheckQuery(t *testing.T) {
	known := map[string][]string{"roperator_a_total": {"controller", "type"}}
	for name, tc := range map[string]struct {
		reason, query string
		want          []string
	}{
		"right":   {"all are known", `sum by (type) (rate(roperator_a_total{controller=~"x"}[5m]))`, nil},
		"metric":  {"no such metric", `roperator_b_total`, []string{"metric roperator_b_total"}},
		"matcher": {"no such label", `roperator_a_total{code="x"}`, []string{"roperator_a_total label code"}},
		"by":      {"no such label", `sum by (type, code) (roperator_a_total)`, []string{"label code"}},
		"bracket": {"one is missing", `sum(roperator_a_total`, []string{"() don't match"}},
		"none":    {"nothing of ours", `up`, []string{"no metric in it"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, checkQuery(tc.query, known), tc.reason) })
	}
}

func TestDashboard(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/observability/dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		UID        string `json:"uid"`
		Templating struct {
			List []struct {
				Name string `json:"name"`
			} `json:"list"`
		} `json:"templating"`
		Panels []struct {
			ID         int    `json:"id"`
			Title      string `json:"title"`
			Datasource struct {
				UID string `json:"uid"`
			} `json:"datasource"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal(raw, &dashboard))
	require.Equal(t, "roperator", dashboard.UID)
	var variables []string
	for _, v := range dashboard.Templating.List {
		variables = append(variables, v.Name)
	}
	require.Equal(t, []string{"datasource", "controller"}, variables)
	known := documented(t)
	shown := map[string]bool{}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		require.False(t, ids[p.ID], "%s: its id is taken", p.Title)
		ids[p.ID] = true
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Empty(t, checkQuery(target.Expr, known), "%s: %s", p.Title, target.Expr)
			require.Contains(t, target.Expr, `controller=~"$controller"`, p.Title)
			for _, name := range regexp.MustCompile(`roperator_\w+`).FindAllString(target.Expr, -1) {
				shown[strings.TrimSuffix(name, "_bucket")] = true
			}
		}
	}
	for name := range known {
		if base, histogram := strings.CutSuffix(name, "_bucket"); histogram || !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			require.True(t, shown[base], "no panel shows %s", base)
		}
	}
}

func TestAlerts(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/observability/alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.UnmarshalStrict(raw, &file))
	require.Len(t, file.Groups, 1)
	known := documented(t)
	names := map[string]bool{}
	for _, rule := range file.Groups[0].Rules {
		require.False(t, names[rule.Alert], "%s: twice", rule.Alert)
		names[rule.Alert] = true
		require.Empty(t, checkQuery(rule.Expr, known), "%s: %s", rule.Alert, rule.Expr)
		require.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
	}
	require.Len(t, names, 13)
}

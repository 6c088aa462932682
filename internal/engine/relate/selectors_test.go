package relate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestSelectors: the index finds exactly the queries that a look at each would find, whatever was added and removed.
func TestSelectors(t *testing.T) {
	requirements := []string{"a=1", "a=2", "a!=1", "a", "!a", "b in (1,2)", "b notin (1)", "b", "c>3", "c<2", "a==1", "c in (5)"}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		x, all := newSelectors(), map[Query]*query{}
		for range 60 {
			q := Query{Type: k8s.Secret}
			for range rnd.IntN(3) {
				q.Selector = strings.TrimPrefix(q.Selector+","+requirements[rnd.IntN(len(requirements))], ",")
			}
			if of := all[q]; of != nil {
				x.remove(of)
				delete(all, q)
			} else {
				all[q] = &query{matcher: newMatcher(q)}
				x.add(all[q])
			}
			held := map[string]any{}
			for _, key := range []string{"a", "b", "c", "d"} {
				if rnd.IntN(2) == 0 {
					held[key] = fmt.Sprint(rnd.IntN(6))
				}
			}
			res := labelledSecret(t, held)
			var found, want []Query
			x.candidates(res.Labels(), func(of *query) {
				if of.matches(res, res.Labels()) {
					found = append(found, of.Query)
				}
			})
			for _, of := range all {
				if of.matches(res, res.Labels()) {
					want = append(want, of.Query)
				}
			}
			require.ElementsMatch(t, want, found, "seed %d: labels %v", seed, held)
		}
		for _, of := range all {
			x.remove(of)
		}
		require.True(t, x.empty(), "seed %d", seed)
	}
}

func labelledSecret(t testing.TB, labels map[string]any) *resource.Resource {
	o := sample.Object(t, k8s.Secret, "s", "u", 1, "").Unstructured().Object
	o["metadata"].(map[string]any)["labels"] = labels
	res, err := resource.New(o)
	require.NoError(t, err)
	return res
}

// BenchmarkSelectors is an event of an object that none of many selectors is for.
func BenchmarkSelectors(b *testing.B) {
	for _, n := range []int{10, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := &Relations{}
			r.mu.queries, r.mu.broad = map[Query]*query{}, map[resource.Type]*selectors{}
			for i := range n {
				r.addLocked(Query{Type: k8s.Secret, Selector: fmt.Sprintf("app=p%05d", i)})
			}
			res := labelledSecret(b, map[string]any{"app": "nobody"})
			b.ReportAllocs()
			for b.Loop() {
				if len(r.matchingLocked(res)) > 0 {
					b.Fatal("it matches")
				}
			}
		})
	}
}

package shard_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/roperator/roperator/internal/engine/shard"
)

// counts are the numbers of shards that there can be.
func counts() []int { return []int{1, 2, 4, 8, 16, 32, 64} }

func TestValidate(t *testing.T) {
	for n := -2; n < 200; n++ {
		want := false
		for _, c := range counts() {
			want = want || c == n
		}
		err := shard.Validate(n)
		require.Equal(t, want, err == nil, "%d: %v", n, err)
	}
}

// Each parent is of one shard alone, the one in which Kubernetes' own selector sees it, and
// whose label selector matches its children.
func TestShards(t *testing.T) {
	for range 300 {
		uid := uuid.NewUUID()
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		bucket := strconv.Itoa(shard.Bucket(uid))
		for _, n := range counts() {
			var owners []int
			for i := range n {
				s := shard.Shard{Index: i, Of: n}
				if s.Owns(uid) {
					owners = append(owners, i)
				}
				byServer := true
				if text := s.Selector(); text != "" {
					bounds := regexp.MustCompile(`'(0x[0-9a-f]+)'`).FindAllStringSubmatch(text, -1)
					selector := sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: bounds[0][1], End: bounds[1][1]})
					require.Equal(t, selector.String(), text)
					var err error
					byServer, err = selector.Matches(object)
					require.NoError(t, err)
				}
				require.Equal(t, s.Owns(uid), byServer, "%s, shard %d of %d", uid, i, n)
				byLabel, err := labels.Parse(s.BucketSelector("example.com/bucket"))
				require.NoError(t, err)
				require.Equal(t, s.Owns(uid), byLabel.Matches(labels.Set{"example.com/bucket": bucket}), "%s, shard %d of %d", uid, i, n)
			}
			require.Len(t, owners, 1, "%s among %d", uid, n)
		}
		require.True(t, shard.Shard{}.Owns(uid), "the whole has all")
	}
}

// A label that somebody has changed is no bucket.
func TestNoBucket(t *testing.T) {
	selector, err := labels.Parse(shard.NoBucketSelector("b"))
	require.NoError(t, err)
	for _, text := range []string{"", "-1", "64", "007", "x"} {
		require.True(t, selector.Matches(labels.Set{"b": text}), text)
	}
	require.True(t, selector.Matches(labels.Set{}))
	for i := range shard.Buckets {
		require.False(t, selector.Matches(labels.Set{"b": strconv.Itoa(i)}))
	}
}

// An API server's UIDs spread evenly.
func TestSpread(t *testing.T) {
	const parents = 64_000
	var in [shard.Buckets]int
	for range parents {
		in[shard.Bucket(uuid.NewUUID())]++
	}
	most := 0
	for _, n := range in {
		most = max(most, n)
	}
	t.Logf("most of %d parents in one of %d buckets: %.3f of the mean", parents, shard.Buckets, float64(most)*shard.Buckets/parents)
	require.Less(t, float64(most)*shard.Buckets/parents, 1.15)
}

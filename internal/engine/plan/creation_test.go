package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

func TestAnew(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Recreate})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	for name, tc := range map[string]struct {
		reason                string
		given, desired, fresh map[string]any // the data of the live child, the desired one, and a new one
		want                  Creation
	}{
		"other":     {"a new child is as desired, which the live one isn't", map[string]any{"k": "a"}, map[string]any{"k": "b"}, map[string]any{"k": "b"}, CreationDiffers},
		"same":      {"a new child would have the live value, too", map[string]any{"k": "a"}, map[string]any{"k": "b"}, map[string]any{"k": "a"}, CreationSame},
		"chosen":    {"the value is neither, so nobody knows", map[string]any{"k": "a"}, map[string]any{"k": "b"}, map[string]any{"k": "c"}, CreationUnclear},
		"mixed":     {"one field that differs is enough", map[string]any{"k": "a", "l": "a"}, map[string]any{"k": "b", "l": "b"}, map[string]any{"k": "a", "l": "b"}, CreationDiffers},
		"gone":      {"a new child lacks what isn't desired any more", map[string]any{"k": "a", "l": "a"}, map[string]any{"l": "a"}, map[string]any{"l": "a"}, CreationDiffers},
		"default":   {"a new child has it again, as a default", map[string]any{"k": "a", "l": "a"}, map[string]any{"l": "a"}, map[string]any{"k": "a", "l": "a"}, CreationSame},
		"left over": {"a new child has some other value", map[string]any{"k": "a", "l": "a"}, map[string]any{"l": "a"}, map[string]any{"k": "c", "l": "a"}, CreationDiffers},
		"allocated": {"so it would, but that is no better", map[string]any{"nodePort": "a", "l": "a"}, map[string]any{"l": "a"}, map[string]any{"nodePort": "c", "l": "a"}, CreationUnclear},
		"headless":  {"no address was allocated", map[string]any{"clusterIP": "None", "l": "a"}, map[string]any{"l": "a"}, map[string]any{"clusterIP": "c", "l": "a"}, CreationDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			saying := func(data map[string]any) map[string]any {
				return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}, "data": data}
			}
			live := lived(t, s, parent, saying(tc.given), nil)
			desired, err := Desire(s, parent, []any{saying(tc.desired)}, &ParentMemory{})
			require.NoError(t, err)
			a, ok := decide(s, desired[0], live, nil, ownership{}, nil, &Action{})
			require.True(t, ok)
			require.NotEmpty(t, a.Diffs)
			require.Equal(t, tc.want, Anew(&a, map[string]any{"metadata": map[string]any{"name": "trial"}, "data": tc.fresh}), tc.reason)
		})
	}
}

func TestWithoutAllocated(t *testing.T) {
	service := func(spec map[string]any) map[string]any {
		return map[string]any{"kind": "Service", "metadata": map[string]any{"name": "one"}, "spec": spec}
	}
	port := func(port, node any) map[string]any { return map[string]any{"port": port, "nodePort": node} }
	live := service(map[string]any{"clusterIP": "10.0.0.1", "clusterIPs": []any{"10.0.0.1"}, "ports": []any{port(int64(80), int64(30000))}})
	for name, tc := range map[string]struct {
		reason     string
		body, want map[string]any // specs; a nil want: there is nothing to leave out
	}{
		"own port":        {"the old object has it", map[string]any{"ports": []any{port(int64(81), int64(30000))}}, map[string]any{"ports": []any{map[string]any{"port": int64(81)}}}},
		"foreign port":    {"another object has it", map[string]any{"ports": []any{port(int64(80), int64(30001))}}, nil},
		"port of another": {"the field counts, and not the number alone", map[string]any{"ports": []any{map[string]any{"port": int64(30000)}}}, nil},
		"addresses":       {"in both spellings", map[string]any{"clusterIP": "10.0.0.1", "clusterIPs": []any{"10.0.0.1"}, "type": "ClusterIP"}, map[string]any{"type": "ClusterIP"}},
		"headless":        {"no address is no allocated one", map[string]any{"clusterIP": "None"}, nil},
		"no spec":         {"nothing is asked for", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := WithoutAllocated(service(tc.body), live)
			require.Equal(t, tc.want != nil, ok, tc.reason)
			if ok {
				require.Equal(t, service(tc.want), got, tc.reason)
			}
		})
	}
}

func TestHasRoomWithout(t *testing.T) {
	amounts := func(name, text string) map[string]resource.Quantity {
		return map[string]resource.Quantity{name: resource.MustParse(text)}
	}
	quota := func(of, requested, used, limited string) apierror.QuotaExceeded {
		return apierror.QuotaExceeded{Quota: "q", Requested: amounts(of, requested), Used: amounts(of, used), Limited: amounts(of, limited)}
	}
	pod := map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "200m"}, "limits": map[string]any{"cpu": "1"}}}, map[string]any{"name": "bare"},
		map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "100m"}}},
	}}}
	ended := map[string]any{"spec": pod["spec"], "status": map[string]any{"phase": "Succeeded"}}
	claim := map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}}
	for name, tc := range map[string]struct {
		reason  string
		live    map[string]any
		quota   apierror.QuotaExceeded
		again   *apierror.QuotaExceeded
		refused bool
		want    bool
	}{
		"told": {
			reason: "the quota itself says how it counts the child", live: pod, want: true,
			quota: quota("requests.cpu", "500m", "1", "1"), again: new(quota("requests.cpu", "500m", "1", "1")),
		},
		"told to be less": {
			reason: "the child's share isn't enough", live: pod, want: false,
			quota: quota("requests.cpu", "600m", "1", "1"), again: new(quota("requests.cpu", "500m", "1", "1")),
		},
		"room for two": {reason: "the share is what the containers request", live: pod, want: true, quota: quota("requests.cpu", "900m", "600m", "1200m")},
		"not enough":   {reason: "even without the child", live: pod, want: false, quota: quota("requests.cpu", "901m", "600m", "1200m")},
		"plain name":   {reason: "cpu is requests.cpu", live: pod, want: true, quota: quota("cpu", "900m", "600m", "1200m")},
		"limits":       {reason: "these are counted apart", live: pod, want: true, quota: quota("limits.cpu", "2", "1", "2")},
		"uncounted":    {reason: "a quota that is used up, and takes the child once more, doesn't count it", live: pod, want: false, quota: quota("pods", "1", "1", "1")},
		"ended":        {reason: "a Pod that has ended isn't counted", live: ended, want: false, quota: quota("pods", "1", "1", "1"), again: new(quota("pods", "1", "1", "1"))},
		"refused":      {reason: "the child can't be tried once more, so it counts as one", live: pod, refused: true, want: true, quota: quota("pods", "1", "1", "1")},
		"claim":        {reason: "a claim says what it needs in its spec", live: claim, want: true, quota: quota("gold.storageclass.storage.k8s.io/requests.storage", "2Gi", "1Gi", "2Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, HasRoomWithout(tc.live, tc.quota, tc.again, tc.refused), tc.reason)
		})
	}
}

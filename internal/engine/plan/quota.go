package plan

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/roperator/roperator/internal/apierror"
)

// A ResourceQuota counts a child that is to be created anew twice: the live child
// still has its share when a dry run asks for the new one.

// HasRoomWithout says whether a quota that has refused the new state of a child
// would have room for it if the live child were gone. again is the quota's refusal
// of the live child under another name, with the live child's own share, nil if
// that wasn't refused by a quota. refused says that it was refused otherwise.
func HasRoomWithout(live map[string]any, q apierror.QuotaExceeded, again *apierror.QuotaExceeded, refused bool) bool {
	for name, requested := range q.Requested {
		used, limited := q.Used[name].DeepCopy(), q.Limited[name]
		used.Add(requested)
		used.Sub(shareOf(live, name, q, again, refused))
		if used.Cmp(limited) > 0 {
			return false
		}
	}
	return true
}

// shareOf returns how much of a resource the quota has counted for the live child,
// and zero rather than too much.
func shareOf(live map[string]any, name string, q apierror.QuotaExceeded, again *apierror.QuotaExceeded, refused bool) resource.Quantity {
	if phase, _ := valueAt(live, "status", "phase").(string); phase == "Succeeded" || phase == "Failed" {
		return resource.Quantity{} // a Pod that has ended isn't counted any more
	}
	same := again != nil && again.Quota == q.Quota
	if same {
		if share, ok := again.Requested[name]; ok {
			return share
		}
	}
	share := declared(live, name)
	if again != nil && !same || refused {
		return share
	}
	// There was room for the live child a second time. If that can't be, the quota
	// doesn't count such children.
	twice := q.Used[name].DeepCopy()
	twice.Add(share)
	if twice.Cmp(q.Limited[name]) > 0 {
		return resource.Quantity{}
	}
	return share
}

// declared returns how much of a resource an object says that it needs. name is that
// of a ResourceQuota, such as requests.cpu or pods. Of a resource that is counted by
// objects, that is one.
func declared(object map[string]any, name string) resource.Quantity {
	section, of := "requests", name
	if _, storage, ok := strings.Cut(name, "/"); ok && strings.HasSuffix(storage, "requests.storage") {
		of = "storage" // <storage class>.storageclass.storage.k8s.io/requests.storage
	} else if before, after, ok := strings.Cut(name, "."); ok && (before == "requests" || before == "limits") {
		section, of = before, after
	} else if !slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) && !strings.HasPrefix(name, "hugepages-") {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	if whole, ok := quantityAt(valueAt(object, "spec"), section, of); ok {
		return whole
	}
	var sum resource.Quantity
	containers, _ := valueAt(object, "spec", "containers").([]any)
	for _, c := range containers {
		if q, ok := quantityAt(c, section, of); ok {
			sum.Add(q)
		}
	}
	return sum
}

// quantityAt returns what the field resources of a Pod's spec, a container or a
// claim says of a resource. section is requests or limits.
func quantityAt(of any, section, name string) (resource.Quantity, bool) {
	return quantityOf(valueAt(of, "resources", section, name))
}

// quantityOf returns the quantity that a value spells, false if it is none.
func quantityOf(v any) (resource.Quantity, bool) {
	text, _ := v.(string)
	if text == "" {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// valueAt returns the value at the end of a path of keys, nil if there is none.
func valueAt(of any, path ...string) any {
	for _, key := range path {
		fields, _ := of.(map[string]any)
		of = fields[key]
	}
	return of
}

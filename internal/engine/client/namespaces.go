package client

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource/k8s"
)

// namespacesAtOnce bounds how many namespaces are asked for at once.
const namespacesAtOnce = 8

// MissingNamespaces asks the API server for namespaces, and returns those that don't
// exist, in the given order. One that can't be asked for, for want of the right to get it
// say, counts as one that exists: the error says why, and comes beside the others. After
// the first such error no more are asked for. MissingNamespaces returns within a few
// seconds, after its goroutines have ended.
func (c *Client) MissingNamespaces(ctx context.Context, names []string) (missing []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, reviewTimeout)
	defer stop()
	kind := &catalog.Kind{Type: k8s.Namespace, GVR: corev1.SchemeGroupVersion.WithResource("namespaces")}
	errs := make([]error, len(names))
	slots := make(chan struct{}, namespacesAtOnce)
	var wg sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if errs[i] = ctx.Err(); errs[i] != nil {
				return
			}
			if _, errs[i] = c.Get(ctx, kind, types.NamespacedName{Name: name}); errs[i] != nil && !apierror.IsMissing(errs[i], name) {
				stop()
			}
		})
	}
	wg.Wait()
	for i, name := range names {
		if apierror.IsMissing(errs[i], name) {
			missing = append(missing, name)
			errs[i] = nil
		}
	}
	if err := firstError(errs); err != nil {
		return missing, fmt.Errorf("namespaces: %w", err)
	}
	return missing, nil
}

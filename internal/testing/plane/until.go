package plane

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Until calls f until it succeeds, and returns why it didn't if limit is over.
func Until(ctx context.Context, limit time.Duration, f func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		last = f()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("after %v: %w", limit, cmp.Or(last, err))
	}
	return nil
}

package client

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

// With --log-level=debug-4 and below, client-go logged the bodies of requests, with
// the values of Secrets.
func TestBodiesWereLoggedAtHighVerbosity(t *testing.T) {
	var out strings.Builder
	logger := logr.FromSlogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))
	ctx := WithoutBodies(klog.NewContext(context.Background(), logger))
	for _, at := range []klog.Logger{klog.FromContext(ctx), klog.FromContext(ctx).WithName("n").WithValues("k", "v"), klog.FromContext(ctx).V(3)} {
		require.False(t, at.V(bodyVerbosity).Enabled())
		at.V(bodyVerbosity).Info("secret")
		at.V(bodyVerbosity + 5).Info("secret")
	}
	klog.FromContext(ctx).V(bodyVerbosity - 1).Info("less")
	require.NotContains(t, out.String(), "secret")
	require.Contains(t, out.String(), "less")

	calm := klog.NewContext(context.Background(), logr.FromSlogHandler(slog.NewTextHandler(&out, nil)))
	require.Equal(t, calm, WithoutBodies(calm), "a logger of low verbosity stays as it is")
}

package buggy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// TestStormFindsNothingInWhatIsRight holds that it is the bugs that Storm finds, and not the
// scenarios.
func TestStormFindsNothingInWhatIsRight(t *testing.T) {
	directory, store, bank, dns := newRegistry(), newRegistry(), newRegistry(), newRegistry()
	cases := map[string]struct {
		operator config.Operator
		handler  handler.Handler
		scenario func(*testkit.Scenario)
	}{
		"StaleStatus":       {clusterOperator, rightClusters, clusterGrows},
		"EarlyFinalizer":    {mailboxOperator, rightMailboxes(directory), comeAndGo(mailboxOperator.Parent, directory)},
		"NameCollision":     {releaseOperator, rightReleases, releasesOfTwoTeams},
		"MemoryCounter":     {tunnelOperator, rightTunnels, twoTunnels},
		"TimeInSpec":        {siteOperator, rightSites, siteMoves},
		"MapOrder":          {appOperator, rightApps, appWithSettings},
		"Unrepeatable":      {bucketOperator, rightBuckets(store), comeAndGo(bucketOperator.Parent, store)},
		"CreatedTwice":      {accountOperator, rightAccounts(bank), twoAccounts(bank)},
		"StatusGuard":       {workspaceOperator, rightWorkspaces, workspaceBegins},
		"MissedReference":   {gatewayOperator, rightGateways, networkMoves},
		"UnboundedChildren": {policyOperator, rightPolicies, policyStays},
		"SwallowedError":    {hostOperator, rightHosts(dns), twoHosts(dns)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			testkit.Storm(t, tc.operator, tc.handler, testkit.Faults{Seeds: int(budget.Runs(200))}, tc.scenario)
		})
	}
}

// rightClusters lists the Pods that are there.
var rightClusters = handler.Typed(func(_ context.Context, c *cluster, children handler.Children) (*handler.SyncResponse, error) {
	var status clusterStatus
	for pod := range children.OfType(k8s.Pod).All() {
		status.Members = append(status.Members, member{Name: pod.Name(), ID: pod.UID()})
	}
	return &handler.SyncResponse{Status: status, Children: c.pods()}, nil
})

// rightMailboxes returns the error of the directory.
func rightMailboxes(d directory) handler.Handler {
	finalize := func(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		if err := d.Remove(ctx, req.Parent.Key().String()); err != nil {
			return nil, fmt.Errorf("directory: %w", err)
		}
		return &handler.FinalizeResponse{Finalized: true}, nil
	}
	return handler.Funcs{SyncFunc: mailboxes{directory: d}.sync, FinalizeFunc: finalize}
}

// rightReleases names the ConfigMap after the Release.
var rightReleases = handler.Typed(func(_ context.Context, r *release, _ handler.Children) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{Children: []any{r.settings(r.Name)}}, nil
})

// rightTunnels makes the port from the name. The API server refuses one that is taken.
var rightTunnels = handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(req.Parent.Key().String()))
	return &handler.SyncResponse{Children: []any{tunnelService(req.Parent.Name(), firstPort+int32(hash.Sum32()%2768))}}, nil
})

// rightSites makes a file without a time.
var rightSites = handler.Typed(func(_ context.Context, s *site, _ handler.Children) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{Children: []any{s.file("")}}, nil
})

// rightApps sorts the settings.
var rightApps = handler.Typed(func(_ context.Context, a *app, _ handler.Children) (*handler.SyncResponse, error) {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(a.Spec.Settings)) {
		args = append(args, "--"+name+"="+a.Spec.Settings[name])
	}
	return &handler.SyncResponse{Children: []any{a.deployment(args)}}, nil
})

// rightBuckets takes a bucket that is gone for one that it has deleted.
func rightBuckets(s store) handler.Handler {
	finalize := func(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		resp, err := buckets{s}.finalize(ctx, req)
		if errors.Is(err, errNotFound) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}
		return resp, err
	}
	return handler.Funcs{SyncFunc: buckets{s}.sync, FinalizeFunc: finalize}
}

// rightAccounts chooses the number itself.
func rightAccounts(b bank) handler.Handler {
	return handler.Typed(func(ctx context.Context, a *account, _ handler.Children) (*handler.SyncResponse, error) {
		number := string(a.UID)
		if !handler.IsPlan(ctx) {
			if err := b.Put(ctx, number, a.Namespace+"/"+a.Name); err != nil {
				return nil, fmt.Errorf("bank: %w", err)
			}
		}
		return &handler.SyncResponse{Status: accountStatus{Number: number}}, nil
	})
}

// rightWorkspaces always wants the ConfigMap, and leaves its data to the users.
var rightWorkspaces = handler.Typed(func(_ context.Context, w *workspace, _ handler.Children) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{Status: workspaceStatus{Phase: "Ready"}, Children: []any{handler.Leave(w.settings(), "data")}}, nil
})

// rightGateways looks at the ConfigMap each time.
var rightGateways = handler.Typed(nil, handler.TypedFuncs[*gateway]{
	SyncFunc: func(_ context.Context, g *gateway, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		domain, err := g.domain(req.Related)
		if err != nil {
			return nil, err
		}
		return &handler.SyncResponse{Status: gatewayStatus{Domain: domain}, Children: []any{g.service(domain)}}, nil
	},
})

// rightPolicies has one ConfigMap, for what the Policy says now.
var rightPolicies = handler.Typed(func(_ context.Context, p *policy, _ handler.Children) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{Children: []any{p.version("now", p.Spec.Text)}}, nil
})

// rightHosts returns the error of the DNS.
func rightHosts(d dns) handler.Handler {
	return handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		name := req.Parent.Key().String()
		if !handler.IsPlan(ctx) {
			if err := d.Put(ctx, name, name); err != nil {
				return nil, fmt.Errorf("dns: %w", err)
			}
		}
		return &handler.SyncResponse{Children: []any{hostService(req.Parent.Name())}}, nil
	})
}

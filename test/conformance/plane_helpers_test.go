package conformance

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/roperator/roperator/internal/testing/plane"
)

// An ownPlane is a control plane of a scenario's own, whose processes it may
// end and start again.
type ownPlane struct {
	t     *testing.T
	plane *plane.Plane
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := plane.FreePort()
	require.NoError(t, err)
	return port
}

// newPlane starts etcd and kube-apiserver and installs the parents' CRDs.
func newPlane(t *testing.T) *ownPlane {
	t.Helper()
	own, err := plane.New(plane.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	p := &ownPlane{t: t, plane: own}
	t.Cleanup(func() {
		if t.Failed() && own.Server != nil {
			t.Logf("kube-apiserver said last:\n%s", own.Server.Said())
		}
		own.Stop()
	})
	if err := own.StartEtcd(t.Context()); errors.Is(err, os.ErrNotExist) {
		t.Skipf("needs etcd and kube-apiserver to start of its own: %v", err)
	} else {
		require.NoError(t, err)
	}
	p.startServer()
	crds, err := envtest.InstallCRDs(p.config(), envtest.CRDInstallOptions{Paths: []string{"testdata/crds.yaml"}, ErrorIfPathMissing: true})
	require.NoError(t, err)
	require.IsType(t, []*apiextensionsv1.CustomResourceDefinition{}, crds)
	return p
}

// startServer starts kube-apiserver, and returns when it is ready.
func (p *ownPlane) startServer() {
	p.t.Helper()
	require.NoError(p.t, p.plane.StartServer(p.t.Context()))
}

func (p *ownPlane) startEtcd() {
	p.t.Helper()
	require.NoError(p.t, p.plane.StartEtcd(p.t.Context()))
}

func (p *ownPlane) config() *rest.Config { return p.plane.Config() }

// compact makes etcd forget what was before now.
func (p *ownPlane) compact() {
	p.t.Helper()
	require.NoError(p.t, p.plane.Compact(p.t.Context()))
}

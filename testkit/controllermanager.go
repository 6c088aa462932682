package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const pollInterval = 50 * time.Millisecond

// startControllerManager returns when kube-controller-manager has been seen
// at work.
func (p *controlPlane) startControllerManager(config *rest.Config, path string) error {
	const name = "kube-controller-manager"
	script, err := p.watchdog.program(path)
	if err != nil {
		return err
	}
	kubeconfig, err := p.addUser("system:" + name)
	if err != nil {
		return err
	}
	certs := p.plane.APIServer.CertDir
	file, ca := filepath.Join(p.dir, name+".kubeconfig"), filepath.Join(certs, "ca.crt")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.WriteFile(ca, config.CAData, 0o600); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	log, err := p.log(name + ".log")
	if err != nil {
		return err
	}
	p.manager, err = startProcess(name, log, script,
		"--kubeconfig="+file,
		"--controllers=*,-nodeipam,-node-route-controller,-cloud-node-lifecycle-controller",
		"--service-account-private-key-file="+filepath.Join(certs, "sa-signer.key"),
		"--root-ca-file="+ca,
		"--use-service-account-credentials=true", // a client for each controller, so that none throttles another
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--leader-elect=false",
		"--secure-port=0", // nobody asks for its metrics
	)
	if err != nil {
		return err
	}
	if err := p.managerWorks(config); err != nil {
		return fmt.Errorf("%s: %s: %w\n%s", name, path, err, tails(log.Name()))
	}
	return nil
}

// managerWorks waits until garbage is collected, or the process has ended.
func (p *controlPlane) managerWorks(config *rest.Config) error {
	works := make(chan error, 1)
	go func() { works <- garbageIsCollected(config) }() // ends within its own timeout
	select {
	case err := <-works:
		return err
	case <-p.manager.done:
		return fmt.Errorf("ended: %w", p.manager.err)
	}
}

// garbageIsCollected returns nil when the garbage collector has deleted an
// object whose owner doesn't exist.
func garbageIsCollected(config *rest.Config) error {
	timeout, err := startTimeout()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	garbage, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "roperator-testkit-",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "roperator-testkit-absent", UID: uuid.NewUUID(),
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := maps.Get(ctx, garbage.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("no garbage was collected within %v: %w", timeout, err)
	}
	return nil
}

// installCRDs returns when the types are served.
func installCRDs(config *rest.Config, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: paths, ErrorIfPathMissing: true, MaxTime: defaultStartTimeout, PollInterval: pollInterval,
	})
	if err != nil {
		return fmt.Errorf("cluster: CRDs %v: %w", paths, err)
	}
	return nil
}

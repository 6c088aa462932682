package plane

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roperator/roperator/internal/testing/authority"
)

// Users that each Plane has. Admin is an administrator. The others have the rights that RBAC gives them
// by their names.
const (
	Admin         = "admin"
	SchedulerUser = "system:kube-scheduler"
	managerUser   = "system:kube-controller-manager"
)

// writeKeys writes what the API server is known by, and a token for each user.
func (p *Plane) writeKeys() (err error) {
	if p.ca, err = authority.Make("roperator-control-plane"); err != nil {
		return err
	}
	cert, key, err := p.ca.MakeServer()
	if err != nil {
		return err
	}
	_, accounts, err := p.ca.MakeServer() // only its key is used
	if err != nil {
		return err
	}
	p.tokens = map[string]string{managerUser: rand.Text(), SchedulerUser: rand.Text()}
	var tokens bytes.Buffer
	for user, token := range p.tokens {
		fmt.Fprintf(&tokens, "%s,%s,%[2]s\n", token, user)
	}
	for _, user := range append([]string{Admin}, p.opts.Users...) {
		p.tokens[user] = rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%[2]s,\"system:masters\"\n", p.tokens[user], user)
	}
	for name, content := range map[string][]byte{
		"ca.crt": p.ca.PEM, "serving.crt": cert, "serving.key": key, "sa.key": accounts, "tokens.csv": tokens.Bytes(),
	} {
		if err := os.WriteFile(p.path(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Config is Admin's, with connections of its own.
func (p *Plane) Config() *rest.Config { return p.ConfigFor(Admin) }

// ConfigFor is that of a user. If ServerFlags name another certificate, it isn't verified.
func (p *Plane) ConfigFor(user string) *rest.Config {
	cfg := &rest.Config{
		Host: "https://127.0.0.1:" + p.ServerPort, BearerToken: p.tokens[user], QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: p.ca.PEM},
		Dial:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	if p.opts.ServerFlags["tls-cert-file"] != "" {
		cfg.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	}
	return cfg
}

// Kubeconfig writes a kubeconfig for a user, and returns its path in Dir. The namespace is that of
// kubectl; "": default. The file needs no other file.
func (p *Plane) Kubeconfig(user, namespace string) (string, error) {
	const name = "plane"
	cfg := p.ConfigFor(user)
	path := p.path(strings.ReplaceAll(user, ":", "-") + ".kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: cfg.Host, CertificateAuthorityData: cfg.CAData, InsecureSkipTLSVerify: cfg.Insecure,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user, Namespace: namespace}},
		CurrentContext: name,
	}, path)
	if err != nil {
		return "", fmt.Errorf("kubeconfig of %s: %w", user, err)
	}
	return path, nil
}

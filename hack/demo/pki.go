package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// An authority signs the certificates of one cluster.
type authority struct {
	dir  string // holds ca.crt and what issue writes
	cert *x509.Certificate
	key  crypto.Signer
}

// newAuthority makes an authority and writes its certificate to dir/ca.crt.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	template := certificate("roperator-demo-ca", nil)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	a := &authority{dir: dir, cert: cert, key: key}
	return a, a.write("ca.crt", "CERTIFICATE", der)
}

// certificate is what all certificates here have in common: they are for
// 127.0.0.1, servers and clients, and a year.
func certificate(name string, groups []string) *x509.Certificate {
	serial := big.NewInt(time.Now().UnixNano())
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
}

// issue writes file.crt and file.key for a user (and its groups) or a server.
func (a *authority) issue(file, name string, groups ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate(name, groups), a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if err := a.write(file+".crt", "CERTIFICATE", der); err != nil {
		return err
	}
	return a.write(file+".key", "PRIVATE KEY", private)
}

func (a *authority) write(file, kind string, der []byte) error {
	err := os.WriteFile(a.path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

// kubeconfig writes a kubeconfig for a user and returns its path. The file
// needs no other: the certificates are in it.
func (a *authority) kubeconfig(server, file, user string, groups ...string) (string, error) {
	if err := a.issue(file, user, groups...); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["demo"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: a.path("ca.crt")}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificate: a.path(file + ".crt"), ClientKey: a.path(file + ".key"),
	}
	config.Contexts["demo"] = &clientcmdapi.Context{Cluster: "demo", AuthInfo: user, Namespace: demoNamespace}
	config.CurrentContext = "demo"
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	path := a.path(file + ".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("kubeconfig: %w", err)
	}
	return path, nil
}

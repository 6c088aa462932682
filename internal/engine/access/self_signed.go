package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/roperator/roperator/internal/process"
)

const (
	selfSignedFor = 90 * 24 * time.Hour // how long a self-signed certificate is valid
	renewBefore   = 30 * 24 * time.Hour // how long before its end another takes its place
	// clockSkew is how far the clock of a client may be behind.
	clockSkew = time.Hour
)

// selfSigned makes certificates that no file holds, each with a key of its own.
type selfSigned struct{}

func (selfSigned) name() string { return "self-signed" }

// next returns another certificate when the end of the current one is near.
func (selfSigned) next(current *tls.Certificate) (*tls.Certificate, error) {
	if current != nil && time.Until(current.Leaf.NotAfter) > renewBefore {
		return current, nil
	}
	made, err := signOwn(process.Hostname())
	if err != nil {
		return current, fmt.Errorf("self-signed certificate: %w", err)
	}
	return made, nil
}

// signOwn returns a new certificate for a host (empty: its name isn't known) and for
// loopback.
func signOwn(host string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	names := []string{"localhost"}
	if host != "" {
		names = append(names, host)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[len(names)-1]}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(selfSignedFor),
		DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

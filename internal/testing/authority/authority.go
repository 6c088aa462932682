// Package authority makes certificate authorities for tests, and certificates that
// they sign. It keeps no state and starts no goroutine:
//
//	ca := authority.New(t, "serving")
//	cert, key := ca.Server(t)
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

const (
	lifetime     = 365 * 24 * time.Hour // of an authority, and of what MakeServer returns
	testLifetime = time.Hour            // of what Server and Client return
)

// An Authority is a certificate authority. It is immutable.
type Authority struct {
	PEM  []byte // its certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Make returns an authority with a certificate that it has signed itself.
func Make(name string) (*Authority, error) {
	a := &Authority{}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, key, err := sign(template, lifetime, nil)
	if err != nil {
		return nil, err
	}
	a.PEM, a.key = encode("CERTIFICATE", der), key
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("certificate %s: %w", name, err)
	}
	return a, nil
}

// New returns what Make does.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a, err := Make(name)
	check(t, err)
	return a
}

// MakeServer returns a certificate with which an API server may serve on loopback for a year, and
// its key.
func (a *Authority) MakeServer() (cert, key []byte, err error) { return a.issue(server(), lifetime) }

// Server returns a certificate with which an API server may serve on loopback for an hour, and
// its key.
func (a *Authority) Server(t testing.TB) (cert, key []byte) {
	t.Helper()
	cert, key, err := a.issue(server(), testLifetime)
	check(t, err)
	return cert, key
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func server() *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// Client returns the certificate of a client in the group system:masters, and its key.
func (a *Authority) Client(t testing.TB) (cert, key []byte) {
	t.Helper()
	cert, key, err := a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "somebody", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, testLifetime)
	check(t, err)
	return cert, key
}

func (a *Authority) issue(template *x509.Certificate, lifetime time.Duration) (cert, key []byte, err error) {
	der, private, err := sign(template, lifetime, a)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s: its key: %w", template.Subject.CommonName, err)
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", keyDER), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// sign returns a certificate by an authority (nil: by itself), and its key.
func sign(template *x509.Certificate, lifetime time.Duration, by *Authority) (der []byte, key *ecdsa.PrivateKey, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("certificate %s: %w", template.Subject.CommonName, err)
		}
	}()
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(lifetime)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	return der, key, err
}

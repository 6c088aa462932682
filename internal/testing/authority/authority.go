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
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An Authority is a certificate authority. It is immutable.
type Authority struct {
	PEM  []byte // its certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns an authority with a certificate that it has signed itself.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.PEM, a.key = sign(t, template, nil)
	block, _ := pem.Decode(a.PEM)
	var err error
	a.cert, err = x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return a
}

// Server returns a certificate with which an API server may serve on loopback, and
// its key.
func (a *Authority) Server(t testing.TB) (cert, key []byte) {
	t.Helper()
	return a.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// Client returns the certificate of a client in the group system:masters, and its key.
func (a *Authority) Client(t testing.TB) (cert, key []byte) {
	t.Helper()
	return a.issue(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "somebody", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *Authority) issue(t testing.TB, template *x509.Certificate) (cert, key []byte) {
	t.Helper()
	cert, private := sign(t, template, a)
	der, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// sign returns a certificate by an authority (nil: by itself), and its key.
func sign(t testing.TB, template *x509.Certificate, by *Authority) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

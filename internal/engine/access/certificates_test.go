package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/authority"
)

// A folder has the certificate and the key that a test puts there.
type folder struct {
	t   *testing.T
	dir string
	ca  *authority.Authority
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	return &folder{t, t.TempDir(), authority.New(t, "metrics")}
}

func (f *folder) write(name string, content []byte) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, name), content, 0o600))
}

// issue writes a new pair, which is valid for an hour.
func (f *folder) issue() (cert, key []byte) {
	f.t.Helper()
	cert, key = f.ca.Server(f.t)
	f.write(DefaultCertName, cert)
	f.write(DefaultKeyName, key)
	return cert, key
}

func (f *folder) security() *Security { return &Security{CertDir: f.dir} }

// A logged is a log that is written while a test reads it. A test sleeps as long as Keep waits, so both go on at the same
// instant of a bubble's clock, and the race detector has once found no order between them.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// opened returns certificates whose log is in said.
func opened(t *testing.T, security *Security) (c *Certificates, said *logged) {
	t.Helper()
	said = &logged{}
	c, err := Open(security, slog.New(slog.NewTextHandler(said, nil)))
	require.NoError(t, err)
	return c, said
}

// shown returns the certificate that a client sees.
func shown(t *testing.T, c *Certificates) *x509.Certificate {
	t.Helper()
	got, err := c.Config().GetCertificate(nil)
	require.NoError(t, err)
	return got.Leaf
}

// kept has Keep run until the function that it returns is called.
func kept(t *testing.T, c *Certificates) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Keep(ctx) }() // until stop
	return func() { cancel(); <-done }
}

// tick lets Keep look at the files.
func tick() {
	time.Sleep(rereadAfter) //nolint:forbidigo // of the bubble's clock
	synctest.Wait()
}

func TestOpen_BadFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		spoil  func(f *folder, cert, key []byte)
		want   []string // in the error
	}{
		"No certificate": {"nothing was put there yet", func(f *folder, _, _ []byte) { require.NoError(f.t, os.Remove(filepath.Join(f.dir, "tls.crt"))) }, []string{"tls.crt: no such file"}},
		"No key":         {"the Secret has no key", func(f *folder, _, _ []byte) { require.NoError(f.t, os.Remove(filepath.Join(f.dir, "tls.key"))) }, []string{"tls.key: no such file"}},
		"Empty":          {"being written", func(f *folder, _, _ []byte) { f.write("tls.crt", nil) }, []string{"tls.crt"}},
		"Half a certificate": {"being written", func(f *folder, cert, _ []byte) { f.write("tls.crt", cert[:len(cert)/2]) },
			[]string{"tls.crt: there is only a part"}},
		"Half a chain": {"the certificate is whole, what signed it isn't", func(f *folder, cert, _ []byte) {
			f.write("tls.crt", append(bytes.Clone(cert), f.ca.PEM[:len(f.ca.PEM)/2]...))
		}, []string{"tls.crt: there is only a part"}},
		"Half a key": {"being written", func(f *folder, _, key []byte) { f.write("tls.key", key[:len(key)/2]) }, []string{"tls.crt", "tls.key"}},
		"Another key": {"only one of both was replaced", func(f *folder, _, _ []byte) {
			_, other := f.ca.Server(f.t)
			f.write("tls.key", other)
		}, []string{"tls.crt", "tls.key", "does not match"}},
		"No PEM": {"it is something else", func(f *folder, _, _ []byte) { f.write("tls.crt", []byte("hello")) }, []string{"tls.crt", "PEM"}},
		"A folder": {"a mount that went wrong", func(f *folder, _, _ []byte) {
			require.NoError(f.t, os.Remove(filepath.Join(f.dir, "tls.crt")))
			require.NoError(f.t, os.Mkdir(filepath.Join(f.dir, "tls.crt"), 0o700))
		}, []string{"tls.crt: is a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			cert, key := f.issue()
			tc.spoil(f, cert, key)
			_, err := Open(f.security(), slog.New(slog.DiscardHandler))
			require.Error(t, err, tc.reason)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want, tc.reason)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		security Security
		want     string // in the error; empty: there is none
	}{
		"Zero":            {"it is self-signed", Security{}, ""},
		"Names":           {"as cert-manager's Secret may be mounted", Security{CertDir: "/certs", CertName: "a/cert.pem", KeyName: "key.pem"}, ""},
		"Name, no folder": {"nobody would read it", Security{CertName: "cert.pem"}, "CertDir, which is empty"},
		"Key, no folder":  {"nobody would read it", Security{KeyName: "key.pem"}, "CertDir, which is empty"},
		"Path as name":    {"it is joined to the folder", Security{CertDir: "/certs", KeyName: "/keys/key.pem"}, `KeyName: "/keys/key.pem" isn't the name`},
		"Up":              {"it leaves the folder", Security{CertDir: "/certs", CertName: "../cert.pem"}, `CertName: "../cert.pem" isn't the name`},
		"Both up":         {"the first is named", Security{CertDir: "/certs", CertName: "../cert.pem", KeyName: "../key.pem"}, `CertName: "../cert.pem" isn't the name`},
		"No audience":     {"no token is for it", Security{Audiences: []string{"a", ""}}, "Audiences: one of them is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.security.Validate()
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

// A certificate that is replaced is shown from the next look on, and whatever state its
// files are in meanwhile, the one before is.
func TestKeep_Replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFolder(t)
		f.issue()
		c, said := opened(t, f.security())
		stop := kept(t, c)
		before := shown(t, c)
		tick()
		require.Same(t, before, shown(t, c), "nothing has changed")
		require.Empty(t, said.String())

		cert, key := f.ca.Server(t)
		for _, spoilt := range []struct {
			name    string
			content []byte
			want    string
		}{
			{"tls.crt", cert[:len(cert)/2], "there is only a part of one"},
			{"tls.crt", cert, "does not match"}, // the key is still the old one
			{"tls.key", key[:len(key)/2], "PEM"},
		} {
			said.Reset()
			f.write(spoilt.name, spoilt.content)
			tick()
			require.Same(t, before, shown(t, c), spoilt.want)
			require.Contains(t, said.String(), "the one before stays in use")
			require.Contains(t, said.String(), filepath.Join(f.dir, spoilt.name))
			require.Contains(t, said.String(), spoilt.want)
			said.Reset()
			tick()
			require.Empty(t, said.String(), "it was said")
		}
		f.write("tls.key", key)
		tick()
		require.NotEqual(t, before.SerialNumber, shown(t, c).SerialNumber)
		require.Contains(t, said.String(), "the certificate was replaced")
		require.NotContains(t, said.String(), "stays in use")

		said.Reset()
		require.NoError(t, os.RemoveAll(f.dir))
		now := shown(t, c)
		tick()
		require.Same(t, now, shown(t, c))
		require.Contains(t, said.String(), "no such file")
		stop()
	})
}

// An expired certificate stays, since no other is better, and the log tells once. It is
// replaced by one that is in force, which no expired one replaces.
func TestKeep_Expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFolder(t)
		stale, staleKey := f.issue()
		c, said := opened(t, f.security())
		stop := kept(t, c)
		first := shown(t, c)
		time.Sleep(time.Hour) //nolint:forbidigo // of the bubble's clock
		tick()
		require.Same(t, first, shown(t, c))
		require.Contains(t, said.String(), "refuse it; replace it")
		require.Contains(t, said.String(), filepath.Join(f.dir, "tls.crt"))
		require.Contains(t, said.String(), "has expired at "+first.NotAfter.Format(time.RFC3339))
		said.Reset()
		tick()
		require.Empty(t, said.String(), "it was said")

		f.issue()
		tick()
		good := shown(t, c)
		require.NotEqual(t, first.SerialNumber, good.SerialNumber)
		said.Reset()
		f.write("tls.crt", stale)
		f.write("tls.key", staleKey)
		tick()
		require.Equal(t, good, shown(t, c))
		require.Contains(t, said.String(), "has expired")
		require.Contains(t, said.String(), "stays in use")
		stop()

		_, again := opened(t, f.security())
		require.Contains(t, again.String(), "has expired", "it is told of at the start, which it doesn't prevent")
	})
}

// Who verifies it by name on the same machine may, and it never reaches its end.
func TestKeep_SelfSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, said := opened(t, &Security{})
		stop := kept(t, c)
		begin, seen := time.Now(), map[string]bool{}
		for time.Since(begin) < 2*selfSignedFor {
			leaf := shown(t, c)
			seen[leaf.SerialNumber.String()] = true
			roots := x509.NewCertPool()
			roots.AddCert(leaf)
			_, err := leaf.Verify(x509.VerifyOptions{DNSName: "localhost", Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			require.NoError(t, err)
			require.NoError(t, leaf.VerifyHostname("127.0.0.1"))
			time.Sleep(24 * time.Hour) //nolint:forbidigo // of the bubble's clock
		}
		stop()
		require.Len(t, seen, 3, "in 180 days, 60 days each")
		require.NotContains(t, said.String(), "level=WARN")
	})
}

func TestConfig(t *testing.T) {
	plain, _ := opened(t, &Security{})
	require.Equal(t, []string{"http/1.1"}, plain.Config().NextProtos)
	require.EqualValues(t, tls.VersionTLS12, plain.Config().MinVersion)
	two, _ := opened(t, &Security{HTTP2: true})
	require.Equal(t, []string{"h2", "http/1.1"}, two.Config().NextProtos)
}

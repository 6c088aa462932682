package access

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/roperator/roperator/internal/process"
)

// pairFiles are the files of a certificate and its key.
type pairFiles struct {
	cert, key string // paths

	certText, keyText []byte           // what the files held when they were read last
	pair              *tls.Certificate // what was made of that; nil: nothing usable
	err               error            // why not
}

func (f *pairFiles) name() string { return f.cert }

// next reads the files. A certificate that isn't in force takes the place of none that
// is: it may have been put there before its time.
func (f *pairFiles) next(current *tls.Certificate) (*tls.Certificate, error) {
	if err := f.read(); err != nil {
		return current, err
	}
	if current != nil && f.pair != current && inForce(current) == nil {
		if err := inForce(f.pair); err != nil {
			return current, fmt.Errorf("certificate %s: %w", f.cert, err)
		}
	}
	return f.pair, nil
}

// read reads both files, and makes a pair of them if they have changed. The error names
// the files.
func (f *pairFiles) read() error {
	certText, err := process.ReadFile(f.cert)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	keyText, err := process.ReadFile(f.key)
	if err != nil {
		return fmt.Errorf("certificate's key: %w", err)
	}
	if (f.pair != nil || f.err != nil) && bytes.Equal(certText, f.certText) && bytes.Equal(keyText, f.keyText) {
		return f.err
	}
	f.certText, f.keyText = certText, keyText
	f.pair, f.err = f.parse(certText, keyText)
	return f.err
}

// parse makes a pair of what the files hold. Files that don't belong together, and half
// a chain, are an error: one of them is still being written.
func (f *pairFiles) parse(certText, keyText []byte) (*tls.Certificate, error) {
	if bytes.Count(certText, []byte("-----BEGIN CERTIFICATE-----")) != bytes.Count(certText, []byte("-----END CERTIFICATE-----")) {
		return nil, fmt.Errorf("certificate %s: there is only a part of one", f.cert)
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with the key %s: %w", f.cert, f.key, err)
	}
	return &pair, nil
}

// inForce returns an error if clients must refuse a certificate now for its dates.
func inForce(pair *tls.Certificate) error {
	switch now := time.Now(); {
	case now.After(pair.Leaf.NotAfter):
		return fmt.Errorf("it has expired at %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	case now.Before(pair.Leaf.NotBefore):
		return fmt.Errorf("it isn't valid before %s", pair.Leaf.NotBefore.Format(time.RFC3339))
	}
	return nil
}

package access

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Security says how what is served is protected: see runner.MetricsSecurity. The zero
// value is usable.
type Security struct {
	CertDir, CertName, KeyName string   // the files of the certificate; without CertDir it is self-signed
	Audiences                  []string // one of which a token must be for; none: the API server's own
	HTTP2                      bool     // whether HTTP/2 is offered
}

// Names of the files in CertDir, as in a Secret of the type kubernetes.io/tls.
const (
	DefaultCertName = "tls.crt"
	DefaultKeyName  = "tls.key"
)

// Validate returns what is wrong with the fields.
func (s *Security) Validate() error {
	if s.CertDir == "" && (s.CertName != "" || s.KeyName != "") {
		return errors.New("CertName and KeyName are names of files in CertDir, which is empty")
	}
	for _, file := range []struct{ field, name string }{{"CertName", s.CertName}, {"KeyName", s.KeyName}} {
		if file.name != "" && !filepath.IsLocal(file.name) {
			return fmt.Errorf("%s: %q isn't the name of a file in CertDir", file.field, file.name)
		}
	}
	if slices.Contains(s.Audiences, "") {
		return errors.New("Audiences: one of them is empty")
	}
	return nil
}

// files returns the paths of the certificate and its key, empty ones if there are none.
func (s *Security) files() (cert, key string) {
	if s.CertDir == "" {
		return "", ""
	}
	return filepath.Join(s.CertDir, cmp.Or(s.CertName, DefaultCertName)), filepath.Join(s.CertDir, cmp.Or(s.KeyName, DefaultKeyName))
}

package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/roperator/roperator/internal/engine/access"
)

// secureFlags hold the values of the flags that protect the metrics, and say how: a window
// that isn't on a loopback address is protected anyway, and likewise. They have the names that
// kubebuilder's programs have. The zero value is that of a subcommand which has no such flags.
type secureFlags struct {
	on        bool
	certDir   string
	certName  string
	certKey   string
	audiences string
	http2     bool

	set *flag.FlagSet // which has them; nil: none does
}

// register registers the flags. What they don't say is as in defaults; nil: nothing is
// protected.
func (s *secureFlags) register(fs *flag.FlagSet, defaults *access.Security) {
	d := access.Security{}
	if defaults != nil {
		d = *defaults
	}
	*s = secureFlags{set: fs}
	fs.BoolVar(&s.on, "metrics-secure", defaults != nil, "serve /metrics by TLS, to those only whom RBAC allows to get it")
	fs.StringVar(&s.certDir, "metrics-cert-path", d.CertDir, "folder of the certificate for --metrics-secure, which is followed; the window's too (default: it is self-signed)")
	fs.StringVar(&s.certName, "metrics-cert-name", cmp.Or(d.CertName, access.DefaultCertName), "file of the certificate in --metrics-cert-path")
	fs.StringVar(&s.certKey, "metrics-cert-key", cmp.Or(d.KeyName, access.DefaultKeyName), "file of the certificate's key in --metrics-cert-path")
	fs.StringVar(&s.audiences, "metrics-audiences", strings.Join(d.Audiences, ","), "audiences, with commas between them, of which a token for --metrics-secure must have one; for the window too (default: the API server's)")
	fs.BoolVar(&s.http2, "enable-http2", d.HTTP2, "offer HTTP/2 with --metrics-secure")
}

// check returns what is wrong with the values.
func (s *secureFlags) check(f *flags) error {
	given := s.given()
	if !s.on {
		for _, name := range []string{"metrics-cert-path", "metrics-cert-name", "metrics-cert-key", "metrics-audiences"} {
			if given[name] {
				return fmt.Errorf("--%s has no use without --metrics-secure%s", name, f.windowToo())
			}
		}
		return nil
	}
	if s.certDir == "" && (given["metrics-cert-name"] || given["metrics-cert-key"]) {
		return errors.New("--metrics-cert-name and --metrics-cert-key are files in --metrics-cert-path, which isn't given")
	}
	if f.metricsAddress != "0" && f.metricsAddress == f.healthAddress {
		return errors.New("--metrics-secure: --metrics-bind-address and --health-probe-bind-address are the same, and the kubelet's probes carry no token; give them different ones")
	}
	if err := s.security().Validate(); err != nil {
		return fmt.Errorf("--metrics-secure: %w", err)
	}
	return nil
}

// given returns the names of the flags on the command line.
func (s *secureFlags) given() map[string]bool {
	given := map[string]bool{}
	if s.set != nil {
		s.set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	}
	return given
}

// security returns what the flags ask for; nil: nothing is protected.
func (s *secureFlags) security() *access.Security {
	if !s.on {
		return nil
	}
	out := &access.Security{CertDir: s.certDir, HTTP2: s.http2}
	if s.certDir != "" {
		out.CertName, out.KeyName = s.certName, s.certKey
	}
	if s.audiences != "" {
		for audience := range strings.SplitSeq(s.audiences, ",") {
			out.Audiences = append(out.Audiences, strings.TrimSpace(audience))
		}
	}
	return out
}

package audit

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// Variable is the environment variable with the path of the audit log of the existing cluster.
// The server of that cluster has the flags of ServerFlags.
const Variable = "ROPERATOR_AUDIT_LOG"

//go:embed policy.yaml
var policy []byte

// ServerFlags writes the audit policy into dir. It returns the flags, without leading dashes, with
// which kube-apiserver follows the policy, and the file in dir into which it then logs. The server
// logs a request before it answers the request. The log is never rotated before it has 10 GB.
func ServerFlags(dir string) (flags map[string]string, logPath string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, "", fmt.Errorf("audit: %w", err)
	}
	file := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(file, policy, 0o600); err != nil {
		return nil, "", fmt.Errorf("audit: policy: %w", err)
	}
	logPath = filepath.Join(dir, "audit.log")
	return map[string]string{
		"audit-policy-file": file, "audit-log-path": logPath, "audit-log-mode": "blocking",
		"audit-log-maxsize": "10000", "audit-log-maxbackup": "1",
	}, logPath, nil
}

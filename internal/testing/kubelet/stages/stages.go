// Package stages is what kwok plays. It is apart from package kubelet for the demo's sake, which
// would be compiled with all of testkit otherwise.
package stages

import _ "embed"

//go:embed stages.yaml
var stages []byte

// YAML returns what kwok plays, as its configuration file.
func YAML() []byte { return append([]byte(nil), stages...) }

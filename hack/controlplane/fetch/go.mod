// What downloads the control plane is a module of its own: it compiles in seconds, and brings
// neither Kubernetes' modules into its build nor envtest's downloader into the library's.
module github.com/roperator/roperator/hack/controlplane/fetch

go 1.26.0

require (
	github.com/go-logr/logr v1.4.4
	github.com/stretchr/testify v1.12.1
	sigs.k8s.io/controller-runtime/tools/setup-envtest v0.25.1
)

require (
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)

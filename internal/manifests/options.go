package manifests

import (
	"errors"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Options are what an installation is made of besides the operators' configurations.
type Options struct {
	Name           string // the program's
	Namespace      string // to install the operators in
	WatchNamespace string // to which the operators are restricted; empty: as configured
	Image          string
	Replicas       int
	// Args are arguments of the container besides --leader-elect, --namespace,
	// --metrics-secure and --install-crds. Those of FixedArgs come first, and no value of a Helm chart
	// changes them.
	FixedArgs, Args []string
	Env             []corev1.EnvVar
	// Resources are those of the container: see DefaultResources.
	Resources corev1.ResourceRequirements
	// Rules are rights that the operators need besides those of their configurations,
	// wherever they work. Roles are such rights where each of them says.
	Rules []rbacv1.PolicyRule
	Roles []Role
	// MetricsPort and HealthPort are where the program serves /metrics, and /healthz and
	// /readyz; 0: nowhere.
	MetricsPort, HealthPort int32
	// WindowPort is where the program serves a window for which it asks the API server who may look; 0: nowhere. A
	// window on a loopback address needs nothing here.
	WindowPort int32
	// MetricsSecure says that the program asks the API server who may get the metrics.
	// SecuresMetrics says that it does so unless an argument says otherwise.
	SecuresMetrics, MetricsSecure bool
	// Lease is the one of the election. Without a name it has the first operator's,
	// without a namespace it is where the operators are installed.
	Lease types.NamespacedName

	// Shards is into how many shards the replicas divide the parents; 0: they take turns.
	Shards int

	// InstallsCRDs says that the program does what InstallCRDs asks for unless an argument
	// says otherwise.
	InstallsCRDs   bool
	InstallCRDs    bool // whether the operators apply their CustomResourceDefinitions at their start
	ParentRoles    bool // whether to add ClusterRoles for the users of the parents
	ServiceMonitor bool // whether to add a ServiceMonitor and its Service
	NetworkPolicy  bool // whether to add a NetworkPolicy

	// ChartVersion is the version of a Helm chart: see SemVer.
	ChartVersion string
}

// DefaultResources returns what a container gets of which nothing else is said. It is a
// start: the memory that an operator needs depends on how many objects it watches.
func DefaultResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(10, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(64<<20, resource.BinarySI),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(512<<20, resource.BinarySI)},
	}
}

// SemVer matches a version that a Helm chart may have.
func SemVer() *regexp.Regexp {
	const number, word = `(0|[1-9]\d*)`, `[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*`
	return regexp.MustCompile(`^` + number + `\.` + number + `\.` + number + `(-` + word + `)?(\+` + word + `)?$`)
}

// check returns what is wrong with the options together. Each by itself is right.
func (o *Options) check() error {
	var errs []error
	seen := map[string]bool{}
	for _, env := range o.Env {
		if seen[env.Name] {
			errs = append(errs, fmt.Errorf("manifests: --env: the variable %s is set twice", env.Name))
		}
		seen[env.Name] = true
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		request, requested := o.Resources.Requests[name]
		limit, limited := o.Resources.Limits[name]
		if requested && limited && request.Cmp(limit) > 0 {
			errs = append(errs, fmt.Errorf("manifests: --%s-request: %s is above the limit %s; set --%s-limit", name, &request, &limit, name))
		}
	}
	if o.ServiceMonitor && o.MetricsPort == 0 {
		errs = append(errs, errors.New("manifests: --service-monitor: the program serves no metrics; set --arg=--metrics-bind-address=:8080"))
	}
	return errors.Join(errs...)
}

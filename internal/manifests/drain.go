package manifests

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// keepsParents says whether the parents of an operator are of a kind that is Kubernetes'
// own, so that they stay when the operators leave.
func keepsParents(operators []config.Operator) bool {
	return slices.ContainsFunc(operators, func(cfg config.Operator) bool {
		return slices.ContainsFunc(k8s.Mappings(), func(m resource.Mapping) bool {
			return m.Type.GroupVersionKind().GroupKind() == cfg.Parent.GroupVersionKind().GroupKind()
		})
	})
}

// drainLogKept is for how long a drain that has failed can be asked why, in seconds.
const drainLogKept = int32(24 * 60 * 60)

// drain returns the hook of a chart that runs the subcommand uninstall before the
// operators are deleted, with the rights that it needs beyond theirs.
func (in *installation) drain(t *chart, operators []config.Operator) []any {
	hook := func(weight string) map[string]string {
		return map[string]string{
			"helm.sh/hook": "pre-delete", "helm.sh/hook-weight": weight, "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
		}
	}
	name := dnsLabel(in.Name, "-drain")
	var out []any
	if needed := drainRules(operators); len(needed) > 0 {
		out = in.clusterRole(in.roleName()+"-drain", needed)
		for _, object := range out {
			object.(metav1.Object).SetAnnotations(hook("-5")) //nolint:forcetypeassert // this package makes it
		}
	}
	main := in.container()
	main.Args = []string{"uninstall", "--yes", "--drain=" + t.inline(".Values.drain.timeout")}
	if keepsParents(operators) {
		main.Args = append(main.Args, "--keep-parents")
	}
	main.Ports, main.LivenessProbe, main.ReadinessProbe = nil, nil, nil
	spec := in.pod()
	spec.Containers, spec.RestartPolicy, spec.TopologySpreadConstraints = []corev1.Container{main}, corev1.RestartPolicyNever, nil
	meta := in.meta(name)
	meta.Annotations = hook("0")
	return append(out, &batchv1.Job{
		TypeMeta: typeMeta("batch/v1", "Job"), ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(0)),
			TTLSecondsAfterFinished: new(drainLogKept),
			// The labels aren't those of the Deployment's Pods, whose budget and policy
			// aren't for this one.
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/name": name}}, Spec: spec},
		},
	})
}

// drainRules returns what the operators' own rights lack: to delete parents, and to let
// go of what is left of former children.
func drainRules(operators []config.Operator) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	rule := func(cfg config.Operator, t resource.Type, verb string) {
		m, _ := catalog.MappingOf(cfg, t)
		out = withMore(out, []rbacv1.PolicyRule{{APIGroups: []string{t.GroupVersionKind().Group}, Resources: []string{m.Plural}, Verbs: []string{verb}}})
	}
	for _, cfg := range operators {
		if !keepsParents(operators) {
			rule(cfg, cfg.Parent, "delete")
		}
		for _, t := range cfg.FormerChildren {
			rule(cfg, t, "patch")
		}
	}
	return out
}

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

const uid = "set"

// stateful returns a StatefulSet with a value of the label.
func stateful(replicas int32, value string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid, Labels: map[string]string{label: value}},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(replicas),
			ServiceName:         "web",
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}},
			},
		},
	}
}

// pod returns a Pod as the StatefulSet's controller makes it.
func pod(name string, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": "web", appsv1.StatefulSetPodNameLabel: name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: uid, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Ports: ports}}},
	}
}

func tcp(port int32) corev1.ContainerPort {
	return corev1.ContainerPort{ContainerPort: port, Protocol: corev1.ProtocolTCP}
}

func service(name string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"statefulset.kubernetes.io/pod-name": name}, Ports: ports},
	}
}

func port(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: number, TargetPort: intstr.FromInt32(number)}
}

// What the operator does about a StatefulSet, by its Pods. Without a cluster.
func TestSync(t *testing.T) {
	http := port("tcp-8080", 8080)
	foreign := pod("other-0", tcp(8080))
	foreign.OwnerReferences[0].Name, foreign.OwnerReferences[0].UID = "other", "another"
	orphan := pod("orphan", tcp(8080))
	orphan.OwnerReferences = nil
	unlabelled := pod("web-1", tcp(8080))
	unlabelled.Labels = nil
	cases := map[string]struct {
		reason   string
		replicas int32
		value    string // of the label; "true" if empty
		pods     []any
		live     []any
		want     func(*testkit.Plan)
	}{
		"None": {
			reason: "Without a Pod there is no Service.", replicas: 2,
		},
		"Each": {
			reason: "A Service for each Pod.", replicas: 2,
			pods: []any{pod("web-0", tcp(8080)), pod("web-1", tcp(8080))},
			want: func(p *testkit.Plan) { p.WantCreate(service("web-0", http)).WantCreate(service("web-1", http)) },
		},
		"Others": {
			reason: "Pods that the selector matches, and that somebody else has made, are none of the StatefulSet's; nor are those that it doesn't match.", replicas: 2,
			pods: []any{pod("web-0", tcp(8080)), foreign, orphan, unlabelled},
			want: func(p *testkit.Plan) { p.WantCreate(service("web-0", http)) },
		},
		"Ports": {
			reason: "A Service has the ports of its own Pod: in a rolling update they may differ.", replicas: 2,
			pods: []any{pod("web-0", tcp(8080)), pod("web-1", tcp(9090))},
			live: []any{service("web-0", http), service("web-1", http)},
			want: func(p *testkit.Plan) { p.WantUpdate(service("web-1", port("tcp-9090", 9090))) },
		},
		"Portless": {
			reason: "A Service needs a port.", replicas: 2,
			pods: []any{pod("web-0", tcp(8080)), pod("web-1")},
			live: []any{service("web-0", http), service("web-1", http)},
			want: func(p *testkit.Plan) { p.WantDelete(service("web-1")) },
		},
		"Away": {
			reason: "A Pod that is made anew finds its Service as it was.", replicas: 2,
			pods: []any{pod("web-0", tcp(8080))},
			live: []any{service("web-0", http), service("web-1", port("tcp-9090", 9090))},
		},
		"ScaledDown": {
			reason: "A Pod that isn't made again needs no Service.", replicas: 1,
			pods: []any{pod("web-0", tcp(8080))},
			live: []any{service("web-0", http), service("web-1", http)},
			want: func(p *testkit.Plan) { p.WantDelete(service("web-1")) },
		},
		"GoingDown": {
			reason: "While the Pod is there, it has its Service.", replicas: 1,
			pods: []any{pod("web-0", tcp(8080)), pod("web-1", tcp(8080))},
			live: []any{service("web-0", http), service("web-1", http)},
		},
		"ToZero": {
			reason: "Nothing is left.", replicas: 0,
			live: []any{service("web-0", http)},
			want: func(p *testkit.Plan) { p.WantDelete(service("web-0")) },
		},
		"Off": {
			reason: "The label says that there shall be none any more.", replicas: 1, value: "false",
			pods: []any{pod("web-0", tcp(8080))},
			live: []any{service("web-0", http)},
			want: func(p *testkit.Plan) { p.WantDelete(service("web-0")) },
		},
		"Typo": {
			reason: "Nobody knows what is meant, so all stays as it is.", replicas: 1, value: "yes",
			pods: []any{pod("web-0", tcp(8080))},
			live: []any{service("web-7", http)},
			want: func(p *testkit.Plan) {
				p.WantError(`label example.roperator.com/service-per-pod: "yes" is neither true nor false`)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Log(tc.reason)
			if tc.value == "" {
				tc.value = "true"
			}
			set := stateful(tc.replicas, tc.value)
			set.Status.Replicas = 7 // it isn't the operator's: a write of it is unexpected, and fails the test
			plan := testkit.Sync(t, operator, decorator, set, append(tc.live, testkit.Related(tc.pods...))...)
			if tc.want != nil {
				tc.want(plan)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	udp := corev1.ContainerPort{ContainerPort: 53, Protocol: corev1.ProtocolUDP}
	two := pod("web-0", tcp(53), udp)
	two.Spec.Containers = append(two.Spec.Containers, corev1.Container{Name: "sidecar", Ports: []corev1.ContainerPort{{ContainerPort: 53}, tcp(9090)}})
	wanted := port("udp-53", 53)
	wanted.Protocol = corev1.ProtocolUDP
	require.Equal(t, []corev1.ServicePort{port("tcp-53", 53), wanted, port("tcp-9090", 9090)}, ports(two), "each protocol and number once, whatever the containers")
}

func TestHasPod(t *testing.T) {
	three := stateful(3, "true")
	from := stateful(3, "true")
	from.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	unset := stateful(1, "true")
	unset.Spec.Replicas = nil
	cases := map[string]struct {
		reason string
		set    *appsv1.StatefulSet
		name   string
		want   bool
	}{
		"First":       {"They begin with 0.", three, "web-0", true},
		"Last":        {"Three are 0, 1 and 2.", three, "web-2", true},
		"Beyond":      {"There is no fourth.", three, "web-3", false},
		"Start":       {"Unless they begin elsewhere.", from, "web-5", true},
		"BeforeStart": {"Those before it aren't wanted.", from, "web-4", false},
		"LastOfStart": {"Three from 5 on.", from, "web-7", true},
		"AfterStart":  {"And no more.", from, "web-8", false},
		"Default":     {"Without replicas there is one.", unset, "web-0", true},
		"DefaultOnly": {"And no more.", unset, "web-1", false},
		"Other":       {"Another StatefulSet's.", three, "webs-0", false},
		"Longer":      {"That of a StatefulSet called web-a.", three, "web-a-0", false},
		"None":        {"Nobody's.", three, "web", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, hasPod(tc.set, tc.name), tc.reason) })
	}
}

func TestWarnings(t *testing.T) {
	require.Empty(t, warnings(nil))
	require.Equal(t, []handler.Event{{Type: "Warning", Reason: "NoPorts", Message: "no container port, so no Service: Pods web-0, web-1"}}, warnings([]string{"web-0", "web-1"}))
}

package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func valid() Operator {
	return Operator{
		Name:   "echoserver",
		Parent: resource.Type{APIVersion: "example.com/v1", Kind: "EchoServer"},
		Children: []Child{
			{Type: k8s.Pod, Strategy: Recreate},
			{Type: k8s.Service, Strategy: Replace, IgnoreFields: []string{"spec.ports[port=80].nodePort", `metadata.annotations["a.b/c"]`}},
			{Type: k8s.Event, Strategy: Apply},
			{Type: k8s.EventCore, Strategy: OnDelete},
		},
		Namespaces:       []string{"a", "b"},
		ParentSelector:   "tier in (gold, silver),!legacy",
		Domain:           "example.com",
		TrackingLabel:    "example.com/parent",
		OwnershipLabel:   "managed-by",
		Finalizer:        FinalizerAlways,
		FormerFinalizers: []string{"example.com/old"},
		Mappings: []resource.Mapping{
			{Type: resource.Type{APIVersion: "example.com/v1", Kind: "EchoServer"}, Plural: "echoservers"},
		},
	}
}

func TestValidate(t *testing.T) {
	full := valid()
	require.NoError(t, full.Validate())
	require.NoError(t, (&Operator{Name: "n", Parent: k8s.ConfigMap}).Validate(), "no children, all defaults")
	require.ErrorContains(t, (*Operator)(nil).Validate(), "nil")
}

// The finalizer of this build may be that of earlier ones alone.
func TestValidate_OwnFinalizerAmongTheFormer(t *testing.T) {
	o := valid()
	o.FormerFinalizers = []string{o.Domain + "/" + o.Name}
	require.Error(t, o.Validate())
	o.Finalizer = FinalizerNever
	require.NoError(t, o.Validate())
}

func TestValidateFinds(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*Operator)
		want   []string // each line of the error
	}{
		"BothAdopt": {
			"one of them is idle", func(o *Operator) { o.Children[0].Adopt, o.Children[0].AdoptOffered = true, true },
			[]string{"Children[0].AdoptOffered: set beside Adopt"},
		},
		"NoName":        {"no name", func(o *Operator) { o.Name = "" }, []string{"Name: empty"}},
		"UpperName":     {"the lease could not be created", func(o *Operator) { o.Name = "Echo" }, []string{`Name: "Echo": a lowercase RFC 1123 subdomain`}},
		"LongName":      {"label values are short", func(o *Operator) { o.Name = strings.Repeat("a", 64) }, []string{"longer than 63 characters"}},
		"NoParent":      {"no parent", func(o *Operator) { o.Parent = resource.Type{} }, []string{"Parent.APIVersion: empty", "Parent.Kind: empty"}},
		"ParentVersion": {"no API version", func(o *Operator) { o.Parent.APIVersion = "a/b/c" }, []string{`Parent.APIVersion: "a/b/c": neither`}},
		"ParentGroup":   {"no group", func(o *Operator) { o.Parent.APIVersion = "Example/v1" }, []string{`Parent.APIVersion: "Example": a lowercase`}},
		"EmptyVersion":  {"no version", func(o *Operator) { o.Parent.APIVersion = "example.com/" }, []string{`Parent.APIVersion: "example.com/": neither`}},
		"BadVersion":    {"no version", func(o *Operator) { o.Parent.APIVersion = "example.com/V1" }, []string{`Parent.APIVersion: "V1"`}},
		"ParentKind":    {"no kind", func(o *Operator) { o.Parent.Kind = "Echo Server" }, []string{`Parent.Kind: "Echo Server"`}},
		"NoChildType": {
			"no type", func(o *Operator) { o.Children[0].Type = resource.Type{} },
			[]string{"Children[0].Type.APIVersion: empty", "Children[0].Type.Kind: empty"},
		},
		"Twice": {
			"one type twice", func(o *Operator) { o.Children[1].Type = k8s.Pod },
			[]string{"Children[1].Type: v1/Pod is Children[0] already; remove one"},
		},
		"RelatedTwoVersions": {
			"a related type in another version than the parent's or a child's", func(o *Operator) {
				o.Children[0].Type = k8s.HorizontalPodAutoscaler
				o.Related = []Related{
					{Type: resource.Type{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"}},
					{Type: resource.Type{APIVersion: o.Parent.GroupVersionKind().Group + "/v9", Kind: o.Parent.Kind}},
				}
			},
			[]string{
				"Related[0].Type: autoscaling/v1/HorizontalPodAutoscaler is the kind of Children[0] in another version; use autoscaling/v2/HorizontalPodAutoscaler",
				"is the kind of the parent in another version; use ",
			},
		},
		"TwoVersions": {
			"one kind in two versions", func(o *Operator) {
				o.Children[0].Type = k8s.HorizontalPodAutoscaler
				o.Children[1].Type = resource.Type{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"}
			},
			[]string{"Children[1].Type: autoscaling/v1/HorizontalPodAutoscaler is Children[0] already, in another version (autoscaling/v2/"},
		},
		"ParentAsChild": {
			"in whatever version", func(o *Operator) {
				o.Children[0].Type = resource.Type{APIVersion: "example.com/v2", Kind: "EchoServer"}
			},
			[]string{"Children[0].Type: example.com/v2/EchoServer is the kind of the parent"},
		},
		"NoStrategy": {
			"it has no default", func(o *Operator) { o.Children[0].Strategy = "" },
			[]string{"Children[0].Strategy: not set; choose Replace, Recreate, OnDelete or Apply"},
		},
		"UnknownStrategy": {
			"no such strategy", func(o *Operator) { o.Children[0].Strategy = "Patch" },
			[]string{`Children[0].Strategy: "Patch" is unknown`},
		},
		"RecreateImmutable": {
			"it is for strategies that update, and loses no data", func(o *Operator) {
				o.Children = []Child{
					{Type: k8s.Job, Strategy: Replace, RecreateImmutable: true},
					{Type: k8s.Pod, Strategy: Recreate, RecreateImmutable: true},
					{Type: k8s.Service, Strategy: OnDelete, RecreateImmutable: true},
					{Type: k8s.PersistentVolumeClaim, Strategy: Apply, RecreateImmutable: true},
					{Type: k8s.PersistentVolume, Strategy: Apply, RecreateImmutable: true},
					{Type: k8s.Namespace, Strategy: Replace, RecreateImmutable: true},
					{Type: k8s.CustomResourceDefinition, Strategy: Replace, RecreateImmutable: true},
				}
			},
			[]string{
				"Children[1].RecreateImmutable: set beside the strategy Recreate", "Children[2].RecreateImmutable: set beside the strategy OnDelete",
				"Children[3].RecreateImmutable: a PersistentVolumeClaim holds data", "Children[4].RecreateImmutable: a PersistentVolume holds data",
				"Children[5].RecreateImmutable: a Namespace holds data", "Children[6].RecreateImmutable: a CustomResourceDefinition holds data",
			},
		},
		"Roll": {
			"a rollout must be able to go on", func(o *Operator) {
				o.Children = []Child{
					{Type: k8s.Job, Strategy: OnDelete, Roll: &Roll{}},
					{Type: k8s.Pod, Strategy: Recreate, Roll: &Roll{MaxUnavailable: "0"}},
					{Type: k8s.Service, Strategy: Apply, Roll: &Roll{MaxUnavailable: "0%"}},
					{Type: k8s.Secret, Strategy: Apply, Roll: &Roll{MaxUnavailable: "101%"}},
					{Type: k8s.ConfigMap, Strategy: Replace, Roll: &Roll{MaxUnavailable: "-1"}},
					{Type: k8s.Deployment, Strategy: Replace, Roll: &Roll{MaxUnavailable: "few", Partition: "spec..a"}},
					{Type: k8s.StatefulSet, Strategy: Replace, Roll: &Roll{MaxUnavailable: "25%", Partition: "spec.partition"}},
					{Type: k8s.DaemonSet, Strategy: Replace, Roll: &Roll{MaxUnavailable: "99999999999"}},
				}
			},
			[]string{
				"Children[0].Roll: set beside the strategy OnDelete", `Children[1].Roll.MaxUnavailable: "0" would never update a child`,
				`Children[2].Roll.MaxUnavailable: "0%" would never`, `Children[3].Roll.MaxUnavailable: "101%" is more than all; write at most "100%"`,
				`Children[4].Roll.MaxUnavailable: "-1" is neither a number nor a percentage; write it as "2" or "25%"`,
				`Children[5].Roll.MaxUnavailable: "few" is neither`, "Children[5].Roll.Partition: ", `Children[7].Roll.MaxUnavailable: "99999999999"`,
			},
		},
		"Teardown": {
			"there are two policies", func(o *Operator) { o.Teardown = "Random" },
			[]string{`Teardown: "Random" is unknown; choose TeardownGC or TeardownOrdered`},
		},
		"TeardownWithoutFinalizer": {
			"nothing would hold the parent", func(o *Operator) {
				o.Finalizer, o.Teardown = FinalizerNever, TeardownOrdered
				o.Children[0].Retain = true
			},
			[]string{"Teardown: TeardownOrdered needs the finalizer", "Children[0].Retain: it needs the finalizer"},
		},
		"Related": {
			"types are there once, and paths must parse", func(o *Operator) {
				o.Related = []Related{{Type: k8s.Secret}, {Type: k8s.Secret}, {}, {Type: k8s.Pod, Fields: []string{".spec", "", "spec.a", "spec.a"}}}
			},
			[]string{
				"Related[1].Type: v1/Secret is Related[0] already", "Related[2].Type.APIVersion: empty", "Related[2].Type.Kind: empty", `Related[3].Fields[0]: field path ".spec"`,
				"Related[3].Fields[1]: empty", `Related[3].Fields[3]: "spec.a" is Related[3].Fields[2] already`,
			},
		},
		"FormerChildren": {
			"types are there once, and aren't in use", func(o *Operator) {
				o.FormerChildren = []resource.Type{
					k8s.Secret, k8s.Secret, {}, {APIVersion: "v2", Kind: "Pod"}, {APIVersion: "example.com/v2", Kind: "EchoServer"},
				}
			},
			[]string{
				"FormerChildren[1]: v1/Secret is FormerChildren[0] already; remove one", "FormerChildren[2].APIVersion: empty", "FormerChildren[2].Kind: empty",
				"FormerChildren[3]: v2/Pod is Children[0]; what is left of an earlier build is deleted all the same", "FormerChildren[4]: example.com/v2/EchoServer is the kind of the parent",
			},
		},
		"IgnoreFields": {
			"paths must parse", func(o *Operator) { o.Children[0].IgnoreFields = []string{"spec.nodeName", ".spec", ""} },
			[]string{`Children[0].IgnoreFields[1]: field path ".spec"`, "Children[0].IgnoreFields[2]: field path: empty"},
		},
		"UnquotedKey": {
			"an annotation's dots split it", func(o *Operator) { o.Children[0].IgnoreFields = []string{"metadata.annotations.a.b/c"} },
			[]string{`leads into a string; quote the key, as in metadata.annotations["example.com/name"]`},
		},
		"Namespaces": {
			"namespaces are names", func(o *Operator) { o.Namespaces = []string{"a", "", "a", "B"} },
			[]string{"Namespaces[1]: empty; leave", `Namespaces[2]: "a" is Namespaces[0] already`, `Namespaces[3]: "B"`},
		},
		"ClusterScoped": {
			"a cluster-scoped parent is in no namespace", func(o *Operator) { o.Mappings[0].ClusterScoped = true },
			[]string{"Namespaces: set, but the parent example.com/v1/EchoServer is cluster-scoped"},
		},
		"Selector": {"no selector", func(o *Operator) { o.ParentSelector = "a==b==c" }, []string{"ParentSelector: not a label selector"}},
		"Domain":   {"no domain", func(o *Operator) { o.Domain = "Example_com" }, []string{`Domain: "Example_com"`}},
		"Labels": {
			"no label names", func(o *Operator) { o.TrackingLabel, o.OwnershipLabel = "a b", "/x" },
			[]string{`TrackingLabel: "a b"`, `OwnershipLabel: "/x"`},
		},
		"SameLabels": {
			"one label can't hold both", func(o *Operator) { o.TrackingLabel = o.OwnershipLabel },
			[]string{`OwnershipLabel: "managed-by" is the TrackingLabel as well`},
		},
		"Bucket": {
			"it is the label of the buckets", func(o *Operator) { o.TrackingLabel = "roperator.com/bucket"; o.Domain = "" },
			[]string{`TrackingLabel: "roperator.com/bucket" is the label of the buckets`},
		},
		"SameAsDefault": {
			"defaults count", func(o *Operator) { o.TrackingLabel, o.OwnershipLabel = "example.com/operator", "" },
			[]string{`OwnershipLabel: "example.com/operator" is the TrackingLabel as well`},
		},
		"Finalizer": {"no such policy", func(o *Operator) { o.Finalizer = "Sometimes" }, []string{`Finalizer: "Sometimes" is unknown`}},
		"FormerFinalizers": {
			"each has its own trouble", func(o *Operator) {
				o.FormerFinalizers = []string{"a/b", "", "a/b", "example.com/echoserver", "orphan", "a b"}
			},
			[]string{
				"FormerFinalizers[1]: empty", "FormerFinalizers[2]: \"a/b\" is FormerFinalizers[0] already",
				"FormerFinalizers[3]: \"example.com/echoserver\" is the finalizer of this build",
				"FormerFinalizers[4]: \"orphan\" is Kubernetes' own", "FormerFinalizers[5]: \"a b\"",
			},
		},
		"DefaultFinalizer": {
			"with the default domain as well", func(o *Operator) { o.Domain, o.FormerFinalizers = "", []string{"roperator.com/echoserver"} },
			[]string{"FormerFinalizers[0]: \"roperator.com/echoserver\" is the finalizer of this build"},
		},
		"Negative": {
			"no time runs backwards", func(o *Operator) { o.MaxErrorBackoff, o.MaxConcurrentSyncs, o.HandlerTimeout = -1, -2, -3 },
			[]string{"MaxErrorBackoff: negative (-1ns)", "MaxConcurrentSyncs: negative (-2)", "HandlerTimeout: negative (-3ns)"},
		},
		"TooMany": {
			"each takes a goroutine", func(o *Operator) { o.MaxConcurrentSyncs = 10_001 },
			[]string{"MaxConcurrentSyncs: more than 10000 (10001); leave it 0 for 16"},
		},
		"Mappings": {
			"mappings are complete and unique", func(o *Operator) {
				o.Mappings = append(o.Mappings, o.Mappings[0], resource.Mapping{Type: resource.Type{Kind: "A"}},
					resource.Mapping{Type: k8s.Pod, Plural: "Pods"})
			},
			[]string{
				"Mappings[1].Type: example.com/v1/EchoServer is Mappings[0] already", "Mappings[2].Type.APIVersion: empty",
				"Mappings[2].Plural: empty", `Mappings[3].Plural: "Pods"`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := valid()
			tc.change(&o)
			err := o.Validate()
			require.Error(t, err, tc.reason)
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(tc.want), tc.reason)
			for i, want := range tc.want {
				require.Contains(t, lines[i], want, tc.reason)
				require.True(t, strings.HasPrefix(lines[i], "config.Operator: "), lines[i])
			}
		})
	}
}

// All mistakes are reported at once, always in the same order.
func TestValidateIsStable(t *testing.T) {
	o := Operator{
		Children: []Child{{}, {Type: k8s.Pod}, {Type: k8s.Pod}}, Namespaces: []string{""}, ParentSelector: "=",
		Domain: "-", Finalizer: "x", MaxErrorBackoff: -1, Mappings: []resource.Mapping{{}},
	}
	want := o.Validate()
	require.GreaterOrEqual(t, len(want.(interface{ Unwrap() []error }).Unwrap()), 14)
	for range 10 {
		require.EqualError(t, o.Validate(), want.Error())
	}
}

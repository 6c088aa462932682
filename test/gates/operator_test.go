package gates

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// The environment of the operator's process.
const (
	envNamespace = "GATES_NAMESPACE"
	envObjects   = "GATES_OBJECTS" // see plant
	envSize      = "GATES_SIZE"
)

// A site is what the handler reads of a parent.
type site struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Value string `json:"value"`
	} `json:"spec"`
}

type siteStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Children           int   `json:"children,omitempty"`
}

// A subject is the operator that is measured.
type subject struct {
	namespace string
	more      plant
	wire      *wire
	calls     atomic.Int64           // of the handler
	phase     atomic.Pointer[string] // the name of the present one
	kept      atomic.Pointer[[]byte] // an object that was allocated for nothing
	repeats   sync.Map               // how often each parent was asked to be reconciled once more, by name

	manager *manager.Manager
	cancel  context.CancelFunc
	ended   chan error
	passes  uint64 // of the runs before this one
}

// beOperator is the main function of the operator's process. Each line of standard input has it carry out the next phase, whose
// figures it writes to standard output.
func beOperator() {
	debug.SetGCPercent(-1) // a collection empties pools, which would be filled anew at other moments each time
	s := &subject{namespace: os.Getenv(envNamespace), wire: newWire()}
	var err error
	if s.more.objects, err = strconv.Atoi(os.Getenv(envObjects)); err == nil {
		s.more.size, err = strconv.Atoi(os.Getenv(envSize))
	}
	if err == nil {
		err = s.serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve carries out the phases.
func (s *subject) serve(in io.Reader, out io.Writer) error {
	words, results := bufio.NewScanner(in), json.NewEncoder(out)
	all := phases()
	for i, phase := range all {
		before := s.collected()
		if !words.Scan() {
			return errors.New("the test has ended")
		}
		if err := s.carryOut(phase); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		found := s.now().minus(before)
		if i == len(all)-1 || all[i+1].starts {
			if err := s.stop(); err != nil {
				return err
			}
		}
		if err := results.Encode(found); err != nil {
			return err
		}
	}
	return nil
}

// collected returns the totals so far, after a garbage collection.
func (s *subject) collected() totals {
	s.wire.endPhase()
	for range 3 { // what pools hold goes later
		runtime.GC()
	}
	return s.now()
}

func (s *subject) now() totals {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t := totals{Allocations: mem.Mallocs, Bytes: mem.TotalAlloc, Calls: uint64(s.calls.Load()), Reconciliations: s.passes}
	if s.manager != nil {
		t.Reconciliations += s.manager.Engine().Activity().Passes
	}
	t.Requests = s.wire.count()
	return t
}

// carryOut carries out a phase until the operator is at rest.
func (s *subject) carryOut(p phase) error {
	s.phase.Store(&p.name)
	if p.starts {
		if err := s.start(); err != nil {
			return err
		}
	}
	s.wire.owe(p.events, parentCount)
	return s.settle(p.batch)
}

func (s *subject) start() error {
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	cfg.QPS = -1
	single := rest.CopyConfig(cfg)
	single.NextProtos = []string{"http/1.1"}
	if s.wire.watches, err = rest.TransportFor(single); err != nil {
		return err
	}
	cfg.Wrap(s.wire.wrap)
	log := slog.New(slog.NewTextHandler(io.Discard, nil)) //nolint:sloglint // slog.DiscardHandler makes no lines, which a program pays for
	s.manager, err = manager.New(manager.Options{RESTConfig: cfg, Logger: log, NamespacesExist: true}, manager.Spec{
		Config: config.Operator{
			Name: "gates", Parent: resource.Type{APIVersion: "gates.example.com/v1", Kind: "Site"}, Namespaces: []string{s.namespace},
			Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.Service, Strategy: config.Replace}, {Type: k8s.PodTemplate, Strategy: config.Replace}},
		},
		Handler: handler.Funcs{SyncFunc: s.sync, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func(m *manager.Manager) { s.ended <- m.Start(ctx) }(s.manager) // ends with ctx, in stop
	return nil
}

// stop ends the operator.
func (s *subject) stop() error {
	s.passes += s.manager.Engine().Activity().Passes
	s.cancel()
	s.manager = nil
	return <-s.ended
}

// settle returns when the operator is at rest and every event has been delivered, so many of a type at once (0: all).
func (s *subject) settle(batch int) error {
	const (
		interval = 20 * time.Millisecond
		quiet    = 10 // intervals
		patience = 2 * time.Minute
	)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for still, last := 0, uint64(0); ; {
		select {
		case <-ticker.C:
		case <-limit.C:
			return fmt.Errorf("not at rest after %v: %s", patience, s.wire)
		case err := <-s.ended:
			return fmt.Errorf("the operator has ended: %w", err)
		}
		passes, rests := s.atRest()
		if !rests || passes != last {
			still, last = 0, passes
			continue
		}
		if still++; still < quiet {
			continue
		}
		if still = 0; !s.wire.release(batch) {
			return nil
		}
	}
}

func (s *subject) atRest() (passes uint64, rests bool) {
	engine := s.manager.Engine()
	if engine == nil || s.manager.Ready() != nil {
		return 0, false
	}
	a := engine.Activity()
	return a.Passes, a.Running == 0 && a.Due == 0 && s.wire.atRest()
}

// sync is the handler.
func (s *subject) sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	s.calls.Add(1)
	parent, err := handler.ParentAs[site](req)
	if err != nil {
		return nil, err
	}
	children := []any{configMap(&parent), service(&parent), podTemplate(&parent)}
	resp := &handler.SyncResponse{Status: siteStatus{Children: req.Children.Len()}, Children: children}
	s.doMore(parent.Name, resp)
	return resp, nil
}

// doMore does what the plant says.
func (s *subject) doMore(parent string, resp *handler.SyncResponse) {
	if s.more.objects == 0 {
		return
	}
	switch *s.phase.Load() {
	case specPhase:
		for range s.more.objects {
			object := make([]byte, s.more.size)
			s.kept.Store(&object)
		}
	case editPhase:
		// The first is dropped if the engine reconciles the parent again anyway.
		before, _ := s.repeats.LoadOrStore(parent, 0)
		if n := before.(int); n < 2 {
			s.repeats.Store(parent, n+1)
			resp.Resync = time.Millisecond
		}
	}
}

func labelsOf(s *site) map[string]string { return map[string]string{"site": s.Name} }

// The children are written as people write them: by their Go types, with quantities that the API server writes in another
// way, and without the fields that have defaults. No controller of a cluster changes any of them.

func configMap(s *site) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: labelsOf(s)},
		Data: map[string]string{
			"value":   s.Spec.Value,
			"comment": "Some lines of configuration, as operators write them: neither empty nor large. They are the same for every Site and never change.",
		},
	}
}

func service(s *site) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: labelsOf(s)},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: labelsOf(s), Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func podTemplate(s *site) *corev1.PodTemplate {
	return &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: labelsOf(s)},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labelsOf(s)},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "site", Image: "registry.example.com/site:1.2.3",
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
					Env:   []corev1.EnvVar{{Name: "SITE", Value: s.Name}},
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1000m"), corev1.ResourceMemory: apiresource.MustParse("1024Mi")},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/site"}},
				}},
				Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: s.Name}},
				}}},
			},
		},
	}
}

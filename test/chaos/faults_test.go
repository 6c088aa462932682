package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roperator/roperator/internal/testing/plane"
)

// suffer returns when the faults are over, and everything runs again.
func (w *world) suffer(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, w.settings.faults)
	defer cancel()
	w.layer.set(0.01, "")
	defer w.layer.set(0, "")
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() { w.people.work(limited, w.rng(uint64(20+i)), w.pause) })
	}
	for i, r := range w.replicas {
		all.Go(func() { w.disturb(ctx, limited, r, w.rng(uint64(30+i))) })
	}
	all.Go(func() { w.storms(limited, w.rng(40)) })
	all.Go(func() { w.kill(ctx, limited, w.rng(41)) })
	all.Wait()
}

// between returns a duration of that many milliseconds.
func between(rng *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+rng.IntN(to-from)) * time.Millisecond
}

// disturb makes a replica's connections bad for a while, again and again.
func (w *world) disturb(ctx, limited context.Context, r *replica, rng *rand.Rand) {
	for pauseFor(limited, between(rng, 500, 4000)) {
		w.counts.toxics.Add(1)
		if rng.IntN(6) == 0 { // nothing gets through at all
			r.route.close()
			pauseFor(limited, between(rng, 500, 6000))
			if err := r.route.open(ctx); err != nil {
				w.failed(err)
				return
			}
			continue
		}
		kind, attributes := toxic(rng)
		stream := []string{"upstream", "downstream"}[rng.IntN(2)]
		if err := r.route.poison(kind, stream, attributes); err != nil {
			w.failed(err)
			return
		}
		pauseFor(limited, between(rng, 500, 4000))
		if err := r.route.cure(ctx); err != nil {
			w.failed(err)
			return
		}
	}
}

// storms lets many requests fail in the same way.
func (w *world) storms(limited context.Context, rng *rand.Rand) {
	for pauseFor(limited, between(rng, 500, 3000)) {
		w.layer.set(0.01, requestFaults[rng.IntN(len(requestFaults))])
		pauseFor(limited, between(rng, 500, 3000))
		w.layer.set(0.01, "")
	}
}

// kill ends processes, and has them started again.
func (w *world) kill(ctx, limited context.Context, rng *rand.Rand) {
	for pauseFor(limited, between(rng, 1500, 5000)) {
		var err error
		switch rng.IntN(19) {
		case 0, 1, 2:
			w.killReplica(w.replicas[rng.IntN(replicas)], syscall.SIGKILL)
		case 3, 4, 5, 6:
			if r := w.leader(limited); r != nil {
				w.killReplica(r, syscall.SIGKILL)
			}
		case 7:
			w.killReplica(w.replicas[rng.IntN(replicas)], syscall.SIGTERM)
		case 8, 9:
			w.counts.kills.Add(1)
			w.plane.Server.Kill()
			pauseFor(limited, between(rng, 0, 2000))
			err = w.plane.StartServer(ctx)
		case 10, 11:
			w.counts.control.Add(1)
			if err = w.plane.Etcd.Pause(); err == nil {
				pauseFor(limited, between(rng, 1000, 8000))
				err = w.plane.Etcd.Resume()
			}
		case 12:
			w.counts.kills.Add(1)
			w.plane.Etcd.Kill()
			pauseFor(limited, between(rng, 0, 2000))
			err = w.plane.StartEtcd(ctx)
		case 13:
			err = w.compact(ctx, limited, rng)
		case 14, 15: // it wakes up after others have taken over, or before
			if r := w.leader(limited); r != nil {
				w.suspend(limited, r, between(rng, 500, 12000))
			}
		case 16:
			w.suspend(limited, w.replicas[rng.IntN(replicas)], between(rng, 500, 12000))
		case 17, 18:
			err = w.restore(ctx, limited, between(rng, 500, 8000), between(rng, 0, 4000))
		}
		if err != nil {
			w.failed(err)
			return
		}
	}
}

func (w *world) killReplica(r *replica, s os.Signal) {
	if r.signal(s) {
		w.counts.kills.Add(1)
	}
}

// restore puts etcd back to what it was a while ago. People's objects go back too. The
// replicas see the API server again after some more changes. If these have overtaken what the replicas
// know, the replicas are killed: Kubernetes advises to restart every controller. Otherwise they end by themselves (S356).
func (w *world) restore(ctx, limited context.Context, old, unseen time.Duration) (err error) {
	r := restored{backup: time.Now()}
	backup, err := w.plane.Backup()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backup.Remove()) }()
	if !pauseFor(limited, old) {
		return nil
	}
	for _, replica := range w.replicas {
		replica.route.close()
		defer func() { err = errors.Join(err, replica.route.open(ctx)) }()
	}
	w.counts.kills.Add(3)
	before, err := w.version(ctx)
	if err != nil {
		return err
	}
	w.plane.ControllerManager.Kill() // as etcd's documentation asks for
	if err := w.plane.Restore(ctx, backup); err != nil {
		return err
	}
	r.done = time.Now()
	if err := appendTo(filepath.Join(w.dir, restoresFile), r.line()); err != nil {
		return err
	}
	w.counts.restores.Add(1)
	if err := w.plane.StartServer(ctx); err != nil {
		return err
	}
	pauseFor(limited, unseen)
	now, err := w.version(ctx)
	if err != nil {
		return err
	}
	if now+margin >= before {
		for _, replica := range w.replicas {
			w.killReplica(replica, syscall.SIGKILL)
		}
	}
	return w.plane.StartControllerManager(plane.GarbageCollector)
}

// margin is by how many revisions the replicas may know less than there was, or may see more than there is
// by the time that they look.
const margin = 100

// version returns the newest resourceVersion.
func (w *world) version(ctx context.Context) (int, error) {
	list, err := w.people.of(parents()).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(list.GetResourceVersion())
}

// suspend lets a replica stand still for a while, as a machine without time or
// memory to spare would.
func (w *world) suspend(limited context.Context, r *replica, d time.Duration) {
	if !r.signal(syscall.SIGSTOP) {
		return
	}
	w.counts.stops.Add(1)
	if pauseFor(limited, d) && d > leaseDuration {
		w.counts.overslept.Add(1)
	}
	r.signal(syscall.SIGCONT)
}

// leader is the replica that holds the lease, nil if nobody does or that can't
// be found out.
func (w *world) leader(ctx context.Context) *replica {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	leases := parents().GroupVersion().WithResource("leases")
	leases.Group, leases.Version = "coordination.k8s.io", "v1"
	lease, err := w.people.of(leases).Get(ctx, operatorName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	slot, _, _ := strings.Cut(holder, "-")
	n, err := strconv.Atoi(slot)
	if err != nil || n >= len(w.replicas) {
		return nil
	}
	return w.replicas[n]
}

// compact lets etcd and the API server forget what was before, while no replica
// is watching.
func (w *world) compact(ctx, limited context.Context, rng *rand.Rand) (err error) {
	w.counts.control.Add(1)
	for _, r := range w.replicas {
		r.route.close()
		defer func() { err = errors.Join(err, r.route.open(ctx)) }()
	}
	if !pauseFor(limited, between(rng, 500, 1500)) { // changes that no watch will tell of
		return nil
	}
	if err := w.plane.Compact(ctx); err != nil {
		return err
	}
	w.counts.kills.Add(1)
	w.plane.Server.Kill() // it would remember in its place
	pauseFor(limited, between(rng, 500, 2000))
	return w.plane.StartServer(ctx)
}

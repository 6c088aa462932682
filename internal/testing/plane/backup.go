package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// A Backup is a copy of etcd's data.
type Backup struct{ dir string }

// Backup copies etcd's data as they are now. etcd stands still meanwhile, so that the
// copy is what a machine would have on its disk that lost its power then.
func (p *Plane) Backup() (b *Backup, err error) {
	dir, err := os.MkdirTemp(p.opts.Dir, "backup-")
	if err != nil {
		return nil, err
	}
	if err := p.Etcd.Pause(); err != nil {
		return nil, fmt.Errorf("etcd: pause: %w", err)
	}
	defer func() { err = errors.Join(err, p.Etcd.Resume()) }()
	if err := os.CopyFS(dir, os.DirFS(p.path("etcd"))); err != nil {
		return nil, fmt.Errorf("etcd: backup: %w", err)
	}
	return &Backup{dir}, nil
}

// Restore kills kube-apiserver and etcd, puts the backup in the place of etcd's data,
// and starts etcd. A backup may be restored again and again.
func (p *Plane) Restore(ctx context.Context, b *Backup) error {
	p.Server.Kill()
	p.Etcd.Kill()
	if err := os.RemoveAll(p.path("etcd")); err != nil {
		return fmt.Errorf("etcd: restore: %w", err)
	}
	if err := os.CopyFS(p.path("etcd"), os.DirFS(b.dir)); err != nil {
		return fmt.Errorf("etcd: restore: %w", err)
	}
	return p.StartEtcd(ctx)
}

// Remove removes the copy.
func (b *Backup) Remove() error { return os.RemoveAll(b.dir) }

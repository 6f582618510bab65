//go:build !linux && !darwin

package testcluster

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"lockstep/kube/throwaway"
)

// start starts a cluster for this package only: sharing one needs FIFOs and file locks, which testcluster
// does not support on this system.
func start() (*Cluster, error) {
	dir, err := os.MkdirTemp("", "lockstep-test-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := throwaway.Start(ctx, throwaway.Options{AuditLog: filepath.Join(dir, "audit.log")})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	leave := func() error {
		defer os.RemoveAll(dir)
		return c.Close()
	}
	return &Cluster{Kubeconfig: c.Kubeconfig, Server: c.Server, AuditLog: c.AuditLog, leave: leave}, nil
}

// Hold does nothing: each package stops its own cluster.
func Hold(int) (release func() error, err error) { return func() error { return nil }, nil }

// Package testcluster provides the throwaway cluster that the tests of a package
// share.
package testcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lockstep/kube/throwaway"
)

var (
	mu      sync.Mutex
	dir     string // of the audit log
	cluster *throwaway.Cluster
	failed  error
)

// Main runs the tests of a package and then closes the cluster, if one was
// started. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	mu.Lock()
	defer mu.Unlock()
	if cluster != nil {
		if err := cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(dir)
	return code
}

// Get returns the cluster, which has an audit log; the first call starts it.
// With -short the test is skipped.
func Get(t testing.TB) *throwaway.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	c, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Start is Get for callers that are not in a test.
func Start() (*throwaway.Cluster, error) {
	mu.Lock()
	defer mu.Unlock()
	if cluster == nil && failed == nil {
		cluster, failed = start()
	}
	return cluster, failed
}

func start() (*throwaway.Cluster, error) {
	var err error
	if dir, err = os.MkdirTemp("", "lockstep-test-"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return throwaway.Start(ctx, throwaway.Options{AuditLog: filepath.Join(dir, "audit.log")})
}

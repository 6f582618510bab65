// Package testcluster provides the throwaway cluster of a test run: the first package that needs the
// cluster starts it, all packages of one go test share it, and the last one stops it. A package whose
// tests disturb others calls Alone to get a separate cluster.
package testcluster

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"lockstep/kube/throwaway"
	"lockstep/kube/throwaway/auditlog"
)

// Cluster is a running cluster.
type Cluster struct {
	Kubeconfig string // path of a kubeconfig for an administrator
	Server     string // https://127.0.0.1:PORT
	AuditLog   string

	tail  *auditlog.Tail
	leave func() error
}

// Log returns the audit log since this package started to use the cluster.
func (c *Cluster) Log() (auditlog.Log, error) { return c.tail.Read() }

// ForeignWrites returns the writes of lockstep to what was somebody else's, as auditlog.Tail does.
func (c *Cluster) ForeignWrites(interest func(namespace string) bool) ([]string, error) {
	return c.tail.ForeignWrites(interest)
}

// Alone gives this package a separate cluster. Call it before Get and Start.
func Alone() { alone = true }

var (
	alone    bool
	mu       sync.Mutex
	cluster  *Cluster
	startErr error
)

// Main runs the tests of a package and then stops using the cluster. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	mu.Lock()
	defer mu.Unlock()
	if cluster != nil {
		if err := cluster.leave(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// Get returns the cluster. With -short it skips the test. A package that calls Start before its tests must
// also call Get in each test: go test otherwise returns cached results although the sandbox has changed.
func Get(t testing.TB) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	c, err := Start()
	if err == nil {
		_, _, err = throwaway.Command(nil) // looks up the sandbox's program, so that go test notices changes
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Start is like Get, for callers outside of a test.
func Start() (*Cluster, error) {
	mu.Lock()
	defer mu.Unlock()
	if cluster != nil || startErr != nil {
		return cluster, startErr
	}
	c, err := start()
	if err == nil {
		if c.tail, err = auditlog.NewTail(c.AuditLog); err != nil {
			_ = c.leave()
		}
	}
	if err != nil {
		startErr = fmt.Errorf("start the cluster of the tests: %w", err)
		return nil, startErr
	}
	cluster = c
	return c, nil
}

// Package testcluster provides the throwaway cluster of a test run: the first package that
// needs it starts it, all packages of one go test share it, and the last one ends it. Packages
// whose tests disturb others call Alone to get a cluster of their own.
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

// Log returns the audit log since this package joined the cluster.
func (c *Cluster) Log() (auditlog.Log, error) { return c.tail.Read() }

// Alone makes this package start its own cluster, because its tests disturb others. Call it before Get or Start.
func Alone() { alone = true }

var (
	alone   bool
	mu      sync.Mutex
	cluster *Cluster
	failed  error
)

// Main runs the tests of a package and then leaves the cluster. It returns the exit code.
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

// Get returns the cluster. With -short the test is skipped. A package that calls Start before its tests must
// also call Get in each of them: go test takes cached results unless a test has read what has changed.
func Get(t testing.TB) *Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	c, err := Start()
	if err == nil {
		_, _, err = throwaway.Command(nil) // the results depend on the sandbox's program
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Start is like Get, for callers outside a test.
func Start() (*Cluster, error) {
	mu.Lock()
	defer mu.Unlock()
	if cluster != nil || failed != nil {
		return cluster, failed
	}
	c, err := start()
	if err == nil {
		if c.tail, err = auditlog.NewTail(c.AuditLog); err != nil {
			_ = c.leave()
		}
	}
	if err != nil {
		failed = fmt.Errorf("start the cluster of the tests: %w", err)
		return nil, failed
	}
	cluster = c
	return c, nil
}

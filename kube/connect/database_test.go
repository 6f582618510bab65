package connect

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// awayUntil is a driver whose database is away until a time. As Helm's, it then finds no record.
type awayUntil struct {
	*driver.Memory
	until time.Time
}

var errDial = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func (d awayUntil) away() error {
	if time.Now().Before(d.until) {
		return errDial
	}
	return nil
}

func (d awayUntil) Get(key string) (release.Releaser, error) {
	if d.away() != nil {
		return nil, driver.ErrReleaseNotFound
	}
	return d.Memory.Get(key)
}

func (d awayUntil) Query(labels map[string]string) ([]release.Releaser, error) {
	if err := d.away(); err != nil {
		return nil, err
	}
	return d.Memory.Query(labels)
}

func (d awayUntil) Create(key string, r release.Releaser) error {
	if err := d.away(); err != nil {
		return err
	}
	return d.Memory.Create(key, r)
}

// TestDatabaseAway: a database of release records that has been reached before is waited for, and a record that is not found because
// the database is away is not missing (R53). One that was never reached is not waited for.
func TestDatabaseAway(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			x, _ := newTestTransport(operationContext(t), nil)
			x.database.Store(known)
			told := map[string]bool{}
			defer x.link.Listen(Listener{Retrying: func(to Target, _ time.Time, reason string) { told[to.Resource+": "+reason] = true }})()
			start := time.Now()
			d := database{awayUntil{driver.NewMemory(), start.Add(20 * time.Second)}, x}
			err := d.Create("sh.helm.release.v1.a.v1", &rel1.Release{Name: "a", Namespace: "default", Version: 1, Info: &rel1.Info{}})
			if !known {
				if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) > 0 {
					t.Errorf("%v after %s", err, time.Since(start))
				}
				return
			}
			if waited := time.Since(start); err != nil || waited < 20*time.Second || waited > 26*time.Second || !told["database: connection refused"] {
				t.Errorf("%v after %s, told %v", err, waited, told)
			}
			d.Driver = awayUntil{d.Driver.(awayUntil).Memory, time.Now().Add(20 * time.Second)}
			if _, err := d.Get("sh.helm.release.v1.a.v1"); err != nil {
				t.Errorf("the record is read as %v", err)
			}
			if _, err := d.Get("sh.helm.release.v1.b.v1"); !errors.Is(err, driver.ErrReleaseNotFound) {
				t.Errorf("a record that does not exist is read as %v", err)
			}
		})
	}
}

package connect

import (
	"errors"
	"net"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine/parallel"
	"lockstep/engine/run"
)

// initStorage initialises Helm's action configuration with a storage driver. A database (HELM_DRIVER=sql) that has been reached
// before is waited for.
func initStorage(cfg *action.Configuration, getter *Getter, namespace, name string) error {
	if name != "sql" {
		return cfg.Init(getter, namespace, name)
	}
	l, err := getter.load()
	if err != nil {
		return err
	}
	err = l.transport.awaitDatabase(func() error { return cfg.Init(getter, namespace, name) })
	if err == nil {
		cfg.Releases.Driver = database{cfg.Releases.Driver, l.transport}
	}
	return err
}

// database is Helm's storage driver for a database. It waits out an outage, as transport does for the API server (R53).
type database struct {
	driver.Driver
	t *transport
}

func (d database) Create(key string, r release.Releaser) error {
	return d.t.awaitDatabase(func() error { return d.Driver.Create(key, r) })
}

func (d database) Update(key string, r release.Releaser) error {
	return d.t.awaitDatabase(func() error { return d.Driver.Update(key, r) })
}

func (d database) Delete(key string) (r release.Releaser, err error) {
	err = d.t.awaitDatabase(func() error { r, err = d.Driver.Delete(key); return err })
	return r, err
}

// Get asks twice before it says that there is no such record, because Helm's driver says so of every failure.
func (d database) Get(key string) (r release.Releaser, err error) {
	err = d.t.awaitDatabase(func() error {
		if r, err = d.Driver.Get(key); !errors.Is(err, driver.ErrReleaseNotFound) {
			return err
		}
		if _, err := d.Driver.Query(map[string]string{"name": key}); notReached(err) {
			return err
		}
		r, err = d.Driver.Get(key)
		return err
	})
	return r, err
}

func (d database) List(filter func(release.Releaser) bool) (all []release.Releaser, err error) {
	err = d.t.awaitDatabase(func() error { all, err = d.Driver.List(filter); return err })
	return all, err
}

func (d database) Query(labels map[string]string) (all []release.Releaser, err error) {
	err = d.t.awaitDatabase(func() error { all, err = d.Driver.Query(labels); return err })
	return all, err
}

// DatabaseResource is the resource of a Target that is the database of the release records.
const DatabaseResource = "database"

// awaitDatabase repeats a call until it reaches the database, as long as requests to the API server would be.
// A database that was never reached is not waited for: its address may be wrong.
func (t *transport) awaitDatabase(call func() error) error {
	ctx, began := run.RetryContext(t.ctx), time.Now()
	for tries := 0; ; tries++ {
		err := call()
		if !notReached(err) {
			t.database.Store(true)
			return err
		}
		if limit := t.limits.unreachable; !t.database.Load() || limit > 0 && time.Since(began) >= limit {
			return err
		}
		t.link.notifyRetry(t.writes, Target{Resource: DatabaseResource}, began, shortReason(err))
		if parallel.Sleep(ctx, backoff(tries, maxBackoff)) != nil {
			return err
		}
	}
}

// notReached reports whether a call has done nothing, because the database could not be reached, is shutting down or is starting:
// the class 57P of SQLSTATE.
func notReached(err error) bool {
	var op *net.OpError
	var state interface{ SQLState() string }
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &state) && strings.HasPrefix(state.SQLState(), "57P")
}

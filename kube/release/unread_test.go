package release

import (
	"errors"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// unreadable is a storage whose records cannot be read for some reason.
type unreadable struct {
	driver.Driver
	why error
}

func (u *unreadable) Get(key string) (release.Releaser, error) {
	if u.why != nil {
		return nil, u.why
	}
	return u.Driver.Get(key)
}

func (u *unreadable) Query(labels map[string]string) ([]release.Releaser, error) {
	if u.why != nil {
		return nil, u.why
	}
	return u.Driver.Query(labels)
}

// revision returns one that Helm could have made.
func revision(version int) *rel1.Release {
	return &rel1.Release{
		Name: "t", Namespace: "default", Version: version, Info: &rel1.Info{Status: rcommon.StatusDeployed},
		Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "edge", Version: "1.0.0"}},
	}
}

// TestUnreadIsNotAbsent never takes an error of a read for the answer that there is no
// record, whatever its text, nor makes a revision after one.
func TestUnreadIsNotAbsent(t *testing.T) {
	inner := &unreadable{Driver: driver.NewMemory()}
	s := storage.Init(NewDriver(Checked(inner), DriverOptions{}))
	if _, found, err := Read(s, "t"); found || err != nil {
		t.Errorf("of none: %v, %v", found, err)
	}
	if err := s.Create(revision(1)); err != nil {
		t.Fatal(err)
	}
	inner.why = errors.New(`secrets is forbidden: RBAC: role.rbac.authorization.k8s.io "few" not found`)
	if _, err := s.Deployed("t"); err == nil || errors.Is(err, driver.ErrNoDeployedReleases) || !errors.Is(err, inner.why) {
		t.Errorf("deployed: %v", err)
	}
	if _, found, err := Read(s, "t"); found || err == nil {
		t.Errorf("read: %v, %v", found, err)
	}
	if _, found, err := Get(s, "t", 1); found || err == nil {
		t.Errorf("get: %v, %v", found, err)
	}
	if _, err := Finalize(s, "t", Written{Made: 1}, errors.New("cut")); err == nil {
		t.Error("finalized")
	}
	if err := s.Create(revision(2)); !errors.Is(err, inner.why) {
		t.Errorf("a revision is made: %v", err)
	}
	inner.why = nil
	if _, found, err := Read(s, "t"); !found || err != nil {
		t.Errorf("read again: %v, %v", found, err)
	}
	if err := s.Create(revision(2)); err != nil {
		t.Errorf("create: %v", err)
	}
}

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

	"lockstep/kube/mask"
)

// unreadable is a storage whose reads fail with err, unless it is nil.
type unreadable struct {
	driver.Driver
	err error
}

func (u *unreadable) Get(key string) (release.Releaser, error) {
	if u.err != nil {
		return nil, u.err
	}
	return u.Driver.Get(key)
}

func (u *unreadable) Query(labels map[string]string) ([]release.Releaser, error) {
	if u.err != nil {
		return nil, u.err
	}
	return u.Driver.Query(labels)
}

// revision returns a deployed revision.
func revision(version int) *rel1.Release {
	return &rel1.Release{
		Name: "t", Namespace: "default", Version: version, Info: &rel1.Info{Status: rcommon.StatusDeployed},
		Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "edge", Version: "1.0.0"}},
	}
}

// TestUnreadableIsNotAbsent: a failed read never counts as "no records", whatever the text of its
// error, and Create then refuses to create a revision (R28).
func TestUnreadableIsNotAbsent(t *testing.T) {
	inner := &unreadable{Driver: driver.NewMemory()}
	s := storage.Init(NewDriver(Checked(inner, &mask.Mask{}), DriverOptions{}))
	if _, found, err := Read(s, "t"); found || err != nil {
		t.Errorf("without revisions: found %v, error %v", found, err)
	}
	if err := s.Create(revision(1)); err != nil {
		t.Fatal(err)
	}
	inner.err = errors.New(`secrets is forbidden: RBAC: role.rbac.authorization.k8s.io "few" not found`)
	if _, err := s.Deployed("t"); err == nil || errors.Is(err, driver.ErrNoDeployedReleases) || !errors.Is(err, inner.err) {
		t.Errorf("Deployed of an unreadable record: error %v", err)
	}
	if _, found, err := Read(s, "t"); found || err == nil {
		t.Errorf("Read of an unreadable record: found %v, error %v", found, err)
	}
	if _, found, err := Get(s, "t", 1); found || err == nil {
		t.Errorf("Get of an unreadable record: found %v, error %v", found, err)
	}
	if _, err := Finalize(s, "t", WriteResult{Created: 1}, 0, errors.New("cut")); err == nil {
		t.Error("Finalize of an unreadable record returned no error")
	}
	if err := s.Create(revision(2)); !errors.Is(err, inner.err) {
		t.Errorf("Create after a failed read: error %v, want %v", err, inner.err)
	}
	inner.err = nil
	if _, found, err := Read(s, "t"); !found || err != nil {
		t.Errorf("Read once the record is readable: found %v, error %v", found, err)
	}
	if err := s.Create(revision(2)); err != nil {
		t.Errorf("Create after a successful read: %v", err)
	}
}

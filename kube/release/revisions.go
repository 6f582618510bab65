package release

import (
	"errors"
	"fmt"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// Revisions are those that an operation on a release looks at.
type Revisions struct {
	Last    *rel1.Release // the latest
	Current *rel1.Release // what is deployed, or else the latest
}

// Read reads the revisions of a release. Where there is none, the error is
// driver.ErrReleaseNotFound.
func Read(s *storage.Storage, name string) (*Revisions, error) {
	last, err := Last(s, name)
	if err != nil {
		return nil, err
	}
	r := &Revisions{Last: last, Current: last}
	if last.Info.Status == rcommon.StatusDeployed {
		return r, nil
	}
	x, err := s.Deployed(name)
	if errors.Is(err, driver.ErrNoDeployedReleases) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.Current, err = AsV1(x)
	return r, err
}

// Last reads the latest revision of a release.
func Last(s *storage.Storage, name string) (*rel1.Release, error) {
	x, err := s.Last(name)
	if err != nil {
		return nil, err
	}
	return AsV1(x)
}

// Get reads a revision, the latest one for 0.
func Get(s *storage.Storage, name string, revision int) (*rel1.Release, error) {
	if revision == 0 {
		return Last(s, name)
	}
	x, err := s.Get(name, revision)
	if err != nil {
		return nil, err
	}
	return AsV1(x)
}

// Good is the revision to roll back to when the operation fails, 0 for none.
func (r *Revisions) Good() int {
	if r.Current.Info.Status == rcommon.StatusDeployed {
		return r.Current.Version
	}
	return 0
}

// GoOn says what to do about a release whose last operation was cut off.
func (r *Revisions) GoOn() string {
	switch {
	case r.Last.Info.Status == rcommon.StatusUninstalling:
		return "uninstall it again"
	case r.Good() == 0:
		return "uninstall it"
	}
	return fmt.Sprintf("roll it back to revision %d", r.Good())
}

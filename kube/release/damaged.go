package release

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/kube/mask"
)

// Checked wraps a Helm driver. It returns an error for a damaged record, on which Helm would panic,
// and rewords errors that Helm would misread as "no records". It adds the secret values of each revision
// that it reads or creates to secrets, so that nothing of any revision is shown later (S14).
func Checked(d driver.Driver, secrets *mask.Mask) driver.Driver { return &checkedDriver{d, secrets} }

type checkedDriver struct {
	driver.Driver
	secrets *mask.Mask
}

// learn adds the secret values of revisions to the mask.
func (d *checkedDriver) learn(list ...release.Releaser) {
	for _, r := range list {
		if rel, ok := r.(*rel1.Release); ok {
			Hide(d.secrets, rel)
		}
	}
}

// readError is a failed read. Helm treats every error whose text contains "not found" as the answer
// that there are no records, but a forbidden error may contain it too, about a role.
type readError struct{ error }

func (e *readError) Error() string {
	return strings.ReplaceAll(e.error.Error(), "not found", "missing")
}

func (e *readError) Unwrap() error { return e.error }

// asReadError wraps all errors except driver.ErrReleaseNotFound.
func asReadError(err error) error {
	if err == nil || errors.Is(err, driver.ErrReleaseNotFound) {
		return err
	}
	return &readError{err}
}

func (d *checkedDriver) Get(key string) (release.Releaser, error) {
	r, err := d.Driver.Get(key)
	if err == nil {
		err = damaged(r, key)
	}
	if err != nil {
		return nil, asReadError(err)
	}
	d.learn(r)
	return r, nil
}

func (d *checkedDriver) Create(key string, r release.Releaser) error {
	d.learn(r)
	return d.Driver.Create(key, r)
}

// List reads the revisions that pass a filter. It skips damaged ones, as Helm skips those that it
// cannot decode.
func (d *checkedDriver) List(filter func(release.Releaser) bool) ([]release.Releaser, error) {
	list, err := d.Driver.List(func(r release.Releaser) bool { return damaged(r, "") == nil && filter(r) })
	d.learn(list...)
	return list, asReadError(err)
}

// Query reads the revisions with the labels. It returns an error if one of them is damaged,
// because the objects of that revision are unknown.
func (d *checkedDriver) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := d.Driver.Query(labels)
	for _, r := range list {
		if err == nil {
			err = damaged(r, "")
		}
	}
	if err != nil {
		return nil, asReadError(err)
	}
	d.learn(list...)
	return list, nil
}

// decodedDriver is a driver for Secrets or ConfigMaps. Helm's driver leaves out of a query the records that it cannot decode, as
// if the revisions did not exist; decodedDriver returns an error that names them.
type decodedDriver struct {
	driver.Driver
	// open returns the driver with a function that gets the name of each record that it lists.
	open func(listed func(name string)) driver.Driver
}

func newDecodedDriver(open func(listed func(string)) driver.Driver) driver.Driver {
	return decodedDriver{open(func(string) {}), open}
}

func (d decodedDriver) Query(labels map[string]string) ([]release.Releaser, error) {
	var missing []string
	list, err := d.open(func(name string) { missing = append(missing, name) }).Query(labels)
	if err != nil || len(list) == len(missing) {
		return list, err
	}
	for _, r := range list {
		if rel, ok := r.(*rel1.Release); ok {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == recordName(rel) })
		}
	}
	return nil, damagedError(strings.Join(missing, ", "), "it cannot be decoded")
}

// recordName returns the name of a listed record.
func recordName(rel *rel1.Release) string {
	return fmt.Sprintf("%s.%s.v%s", storage.HelmStorageType, rel.Labels["name"], rel.Labels["version"])
}

func damagedError(record, defect string) error {
	return fmt.Errorf("the release record %s is damaged (%s); restore it from a backup, or delete it if you do not need that revision", record, defect)
}

// damaged returns an error if a record lacks a required field. If key is "", it takes the name of
// the record from its labels.
func damaged(r release.Releaser, key string) error {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return nil
	}
	defect := defectOf(rel)
	if defect == "" {
		return nil
	}
	return damagedError(cmp.Or(key, recordName(rel)), defect)
}

// defectOf returns the first defect of a record, "" for none.
func defectOf(rel *rel1.Release) string {
	switch {
	case rel.Info == nil:
		return "no info"
	case rel.Chart == nil:
		return "no chart"
	case rel.Chart.Metadata == nil:
		return "no chart metadata"
	case slices.Contains(rel.Chart.Metadata.Dependencies, nil):
		return "an empty dependency"
	case slices.Contains(rel.Chart.Templates, nil) || slices.Contains(rel.Chart.Files, nil):
		return "an empty file"
	case slices.Contains(rel.Hooks, nil):
		return "an empty hook"
	}
	return ""
}

package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/release"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// Checked returns a driver of Helm's that returns an error instead of a damaged
// record, from which Helm would read what is not there, and whose errors Helm never
// takes for the answer that there is no record.
func Checked(d driver.Driver) driver.Driver { return &checked{d} }

type checked struct{ driver.Driver }

// unreadError is why it is not known which records there are. Helm takes every error
// with "not found" in its text for the answer that there are none, and a refusal may
// say that of a role.
type unreadError struct{ error }

func (e *unreadError) Error() string {
	return strings.ReplaceAll(e.error.Error(), "not found", "missing")
}

func (e *unreadError) Unwrap() error { return e.error }

// unread marks an error that leaves it open which records there are.
func unread(err error) error {
	if err == nil || errors.Is(err, driver.ErrReleaseNotFound) {
		return err
	}
	return &unreadError{err}
}

// Get reads one revision.
func (d *checked) Get(key string) (release.Releaser, error) {
	r, err := d.Driver.Get(key)
	if err == nil {
		err = damaged(r, key)
	}
	if err != nil {
		return nil, unread(err)
	}
	return r, nil
}

// List reads the revisions that a filter lets through. Those that are damaged are
// left out, as are those that Helm cannot decode.
func (d *checked) List(filter func(release.Releaser) bool) ([]release.Releaser, error) {
	list, err := d.Driver.List(func(r release.Releaser) bool { return damaged(r, "") == nil && filter(r) })
	return list, unread(err)
}

// Query reads the revisions that have the labels. What is not known of one of them
// could be anything that the release has brought, so that one is enough for an error.
func (d *checked) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := d.Driver.Query(labels)
	for _, r := range list {
		if err == nil {
			err = damaged(r, "")
		}
	}
	if err != nil {
		return nil, unread(err)
	}
	return list, nil
}

// damaged returns an error that says what is missing in a record. Its key is
// empty where the labels are those of the stored object.
func damaged(r release.Releaser, key string) error {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return nil
	}
	what := missing(rel)
	if what == "" {
		return nil
	}
	if key == "" {
		key = fmt.Sprintf("sh.helm.release.v1.%s.v%s", rel.Labels["name"], rel.Labels["version"])
	}
	return fmt.Errorf("the release record %s is damaged, it has %s: restore it, or delete it if that revision is not needed", key, what)
}

// missing is what a release lacks that every release has, empty for nothing.
func missing(rel *rel1.Release) string {
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

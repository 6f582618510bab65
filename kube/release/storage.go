package release

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
)

// Driver is the decorator of Helm's release storage: the last look at a release
// before it is stored.
type Driver struct {
	inner driver.Driver
	opts  DriverOptions
	log   *writeLog
}

// writeLog is what has been stored so far, also by another driver of the same
// operation.
type writeLog struct {
	mu sync.Mutex
	Written
	unread error // why it is not known which revisions there are, from the last look
}

// DriverOptions are what a Driver adds. Each may be nil.
type DriverOptions struct {
	// BeforeCreate is told of each revision before it is stored for the first
	// time. It returns what the revision keeps, nil for what it has already: a
	// rollback's comes back with the chart.
	BeforeCreate func(*rel1.Release) (*Record, error)
	// BeforeUninstall is told of a revision that Helm is about to delete.
	BeforeUninstall func(*rel1.Release)
	// Held reports whether the run holds the Lease of the release: then what it
	// leaves half done is known to be its own.
	Held func() bool
	// Timings are kept with a revision that was made here, once that is over.
	Timings func() []Timing
	// Mask hides secret values in descriptions, nil for none: why a release
	// failed is told by every look at its history.
	Mask func(string) string
}

// Written is what happened to the changes of a release's record.
type Written struct {
	Made         int    // the revision that was made, 0 for none so far
	Uninstalling bool   // the release was marked so
	Any          bool   // anything was stored
	Status       string // what the record says now, of the revision that counts
	Err          error  // why the last change of it was not stored
	// Others are the other revisions whose last change was not stored.
	Others []int
	// Unanswered is the revision that was made, as it was sent, where nobody
	// knows whether it has been stored, or still will be.
	Unanswered *rel1.Release
}

var _ driver.Driver = (*Driver)(nil)

// NewDriver decorates a driver of Helm's.
func NewDriver(inner driver.Driver, opts DriverOptions) *Driver {
	return &Driver{inner: inner, opts: opts, log: &writeLog{}}
}

// Over returns the same driver over another connection. What either writes,
// both know.
func (d *Driver) Over(inner driver.Driver) *Driver {
	return &Driver{inner: inner, opts: d.opts, log: d.log}
}

// Written is what has been stored so far.
func (d *Driver) Written() Written {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	w := d.log.Written
	w.Others = slices.Clone(w.Others)
	return w
}

// note takes note of what happened to a change of a revision.
func (d *Driver) note(rel *rel1.Release, err error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	w := &d.log.Written
	w.Any = w.Any || err == nil
	if w.Made > 0 && rel.Version != w.Made {
		w.Others = slices.DeleteFunc(w.Others, func(v int) bool { return v == rel.Version })
		if err != nil {
			w.Others = append(w.Others, rel.Version)
		}
		return
	}
	if w.Err = err; err == nil {
		w.Status = rel.Info.Status.String()
		w.Uninstalling = w.Uninstalling || rel.Info.Status == rcommon.StatusUninstalling
	}
}

// Name returns the name of the driver.
func (d *Driver) Name() string { return d.inner.Name() }

// Get reads one revision.
func (d *Driver) Get(key string) (release.Releaser, error) { return d.inner.Get(key) }

// List reads the revisions that a filter lets through.
func (d *Driver) List(filter func(release.Releaser) bool) ([]release.Releaser, error) {
	list, err := d.inner.List(filter)
	return list, d.looked(err)
}

// Query reads the revisions that have the labels.
func (d *Driver) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := d.inner.Query(labels)
	return list, d.looked(err)
}

// looked takes note of whether it is known which revisions there are. Helm's
// installation takes every error for the answer that there are none.
func (d *Driver) looked(err error) error {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	if _, d.log.unread = foundBy(err); d.log.unread != nil {
		d.log.unread = fmt.Errorf("no revision created, because the existing ones are unknown: %w", err)
	}
	return err
}

// known returns an error if it is not known which revisions there are.
func (d *Driver) known() error {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return d.log.unread
}

func (d *Driver) held() bool { return d.opts.Held != nil && d.opts.Held() }

// Create stores a new revision.
func (d *Driver) Create(key string, r release.Releaser) error {
	rel, err := AsV1(r)
	if err != nil {
		return err
	}
	if err := d.known(); err != nil {
		return err
	}
	charts.UnwrapTemplates(rel.Chart)
	if d.opts.BeforeCreate != nil {
		record, err := d.opts.BeforeCreate(rel)
		if err != nil {
			return err
		}
		if record != nil {
			if err := record.write(rel); err != nil {
				return err
			}
		}
	}
	if d.held() {
		if err := sign(rel, true); err != nil {
			return err
		}
	}
	dropFile(rel, timingsFile) // of the revision that a rollback goes back to
	create := func() (bool, error) {
		return d.confirm(key, rel, d.store(rel, func() error { return d.inner.Create(key, rel) }))
	}
	doubt, err := create()
	if tooLarge(err) { // by what is ours in it, perhaps
		dropFile(rel, recordFile)
		doubt, err = create()
	}
	if errors.Is(err, driver.ErrReleaseExists) {
		err = fmt.Errorf("revision %d was created meanwhile, by helm or a run without a Lease: %w", rel.Version, err)
	}
	if err == nil || doubt {
		d.made(rel, doubt)
	}
	d.note(rel, err)
	return err
}

// made takes note of a new revision.
func (d *Driver) made(rel *rel1.Release, doubt bool) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	d.log.Made, d.log.Any, d.log.Unanswered = rel.Version, true, nil
	if doubt {
		sent, info := *rel, *rel.Info
		sent.Info = &info
		d.log.Unanswered = &sent
	}
}

// Update stores a revision that is there.
func (d *Driver) Update(key string, r release.Releaser) error {
	rel, err := AsV1(r)
	if err != nil {
		return err
	}
	charts.UnwrapTemplates(rel.Chart)
	if d.opts.BeforeUninstall != nil && rel.Info.Status == rcommon.StatusUninstalling {
		d.opts.BeforeUninstall(rel)
	}
	if d.held() {
		if err := sign(rel, false); err != nil {
			return err
		}
	}
	update := func() error {
		_, err := d.confirm(key, rel, d.store(rel, func() error { return d.inner.Update(key, rel) }))
		d.note(rel, err)
		return err
	}
	if d.opts.Timings != nil && rel.Version == d.Written().Made && !rel.Info.Status.IsPending() {
		if err := writeFile(rel, timingsFile, timings{rel.Version, d.opts.Timings()}); err != nil {
			return err
		}
	}
	err = update()
	for _, shrink := range []func(){
		func() { dropFile(rel, timingsFile) },
		func() { rel.Info.Description = shortened(rel.Info.Description) },
		func() { dropFile(rel, recordFile) },
	} {
		if !tooLarge(err) {
			break
		}
		shrink() // it may be what is too much: a final status matters more (R34)
		err = update()
	}
	return err
}

// tooLarge reports whether the API server may have refused a release for its size.
func tooLarge(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// shortened returns a description of a release that is as long as most are.
func shortened(description string) string {
	const most = 80
	if runes := []rune(description); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return description
}

// confirm reads a revision again where it is in doubt whether it was stored: the
// API server has not answered, or with its own error, which something
// between it and us may have made up (R32a). The error is nil where it was. It
// stays in doubt where it cannot be read either, and where the request may still
// be on its way.
func (d *Driver) confirm(key string, rel *rel1.Release, err error) (doubt bool, _ error) {
	if err == nil || errors.Is(err, driver.ErrReleaseExists) || final(err) {
		return false, err
	}
	stored, readErr := d.inner.Get(key)
	if readErr != nil {
		var status apierrors.APIStatus
		unread := !errors.Is(readErr, driver.ErrReleaseNotFound) && errors.As(err, &status)
		return unread || connect.MayHaveArrived(err), err
	}
	if there, ok := stored.(*rel1.Release); ok && there.Info.Status == rel.Info.Status && there.Info.Description == rel.Info.Description &&
		there.Info.LastDeployed.Equal(rel.Info.LastDeployed) {
		return false, nil
	}
	return false, err
}

// answered reports whether an error is the API server's answer to a request that
// it has refused.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// Delete takes a revision away.
func (d *Driver) Delete(key string) (release.Releaser, error) {
	rel, err := d.inner.Delete(key)
	if err == nil {
		d.log.mu.Lock()
		defer d.log.mu.Unlock()
		d.log.Any, d.log.Status = true, event.NoRelease
	}
	return rel, err
}

// store writes with the annotation keys that an API server accepts (R3), and
// leaves the release in memory as it was: Helm continues with it, and its hooks
// are known by their text. What it says of itself is stored, and stays, without
// secret values.
func (d *Driver) store(rel *rel1.Release, write func() error) error {
	if d.opts.Mask != nil {
		rel.Info.Description = d.opts.Mask(rel.Info.Description)
	}
	manifest := rel.Manifest
	hooks := make([]string, len(rel.Hooks))
	rel.Manifest = charts.Respell(manifest)
	for i, h := range rel.Hooks {
		hooks[i] = h.Manifest
		h.Manifest = charts.Respell(h.Manifest)
	}
	err := write()
	rel.Manifest = manifest
	for i, h := range rel.Hooks {
		h.Manifest = hooks[i]
	}
	return err
}

// AsV1 returns the one type that a release has in Helm 4.
func AsV1(r release.Releaser) (*rel1.Release, error) {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return nil, fmt.Errorf("release of unexpected type %T", r)
	}
	return rel, nil
}

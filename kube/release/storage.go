package release

import (
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/engine/event"
	"lockstep/kube/charts"
	"lockstep/kube/connect"
)

// Driver wraps Helm's release storage. It adds the record and the timings to a release before it is
// stored, and tracks whether writes succeeded.
type Driver struct {
	inner driver.Driver
	opts  DriverOptions
	log   *writeLog
}

// DriverOptions configures a Driver. All fields are optional.
type DriverOptions struct {
	// BeforeCreate is called before a new revision is stored. It returns the record to add, nil
	// to keep the one that the chart of a rollback already has.
	BeforeCreate func(*rel1.Release) (*Record, error)
	// BeforeUninstall is called before a revision is marked uninstalling.
	BeforeUninstall func(*rel1.Release)
	// BeforeDeployed is called before the created revision is marked deployed, and before another one is marked superseded
	// by it. If it fails, neither is stored. Helm ignores that error, so the caller must check it.
	BeforeDeployed func() error
	// HoldsLease reports whether the run holds the Lease of the release. The Driver signs the
	// revisions that it writes accordingly.
	HoldsLease func() bool
	// Job is the Job of the run (Record.Job), Undo whether it rolls back a failed operation (Record.Undo).
	Job  string
	Undo bool
	// Course returns what to store with the created revision at the end of its run, which may have deployed it.
	Course func(deployed bool) Course
	// NoReturn has the reasons of points of no return that earlier runs have passed (Record.NoReturn), and Record.Others.
	NoReturn StackPoint
	// Passed are these points with the revisions whose runs have passed them (Record.Passed).
	Passed []Passed
	// Taken returns the objects that the run has taken over (Record.Taken).
	Taken func() []Taken
	// Span returns the span of a revision (Record.Pruned). It is nil if the operation creates no revision.
	Span func(*rel1.Release) Span
	// Mask masks secret values in descriptions, which every history shows.
	Mask func(string) string
}

var _ driver.Driver = (*Driver)(nil)

// NewDriver wraps a Helm driver.
func NewDriver(inner driver.Driver, opts DriverOptions) *Driver {
	return &Driver{inner, opts, &writeLog{noReturn: opts.NoReturn.Reasons}}
}

// WithInner returns a copy of d that wraps another driver, for another connection. Both share the
// log of writes.
func (d *Driver) WithInner(inner driver.Driver) *Driver {
	return &Driver{inner, d.opts, d.log}
}

func (d *Driver) Name() string { return d.inner.Name() }

func (d *Driver) Get(key string) (release.Releaser, error) { return d.inner.Get(key) }

func (d *Driver) List(filter func(release.Releaser) bool) ([]release.Releaser, error) {
	list, err := d.inner.List(filter)
	return list, d.logRead(err)
}

func (d *Driver) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := d.inner.Query(labels)
	if _, some := labels["status"]; !some && err == nil {
		d.logHistory(list)
	}
	return list, d.logRead(err)
}

// sign signs a revision.
func (d *Driver) sign(rel *rel1.Release, created bool) error {
	var taken []Taken
	if d.opts.Taken != nil && (created || rel.Version == d.WriteResult().Created) {
		taken = d.opts.Taken()
	}
	var pruned []Pruned
	if d.opts.Span != nil && created {
		d.log.mu.Lock()
		pruned = d.log.history.toNote(d.opts.Span)
		d.log.mu.Unlock()
	}
	var noReturn []string
	if created || rel.Version == d.WriteResult().Created {
		d.log.mu.Lock()
		noReturn = d.log.noReturn
		d.log.mu.Unlock()
	}
	return sign(rel, created, d.opts.HoldsLease != nil && d.opts.HoldsLease(), d.opts.Job, d.opts.Undo, taken, pruned, d.opts.Passed, noReturn, d.opts.NoReturn.Others)
}

// SaveNoReturn adds the reason of a point of no return to the record of the revision that the run created, before the run can pass
// it: if the run is killed, the next one knows. Later calls with the same reason do nothing.
func (d *Driver) SaveNoReturn(name, reason string) error {
	d.log.saving.Lock()
	defer d.log.saving.Unlock()
	d.log.mu.Lock()
	before := d.log.noReturn
	if !slices.Contains(before, reason) {
		d.log.noReturn = append(slices.Clip(before), reason)
	}
	added := len(d.log.noReturn) > len(before)
	d.log.mu.Unlock()
	if !added {
		return nil
	}
	if err := d.SaveTaken(name); err != nil {
		d.log.mu.Lock()
		d.log.noReturn = before
		d.log.mu.Unlock()
		return fmt.Errorf("record the point of no return: %w", err)
	}
	return nil
}

// SaveTaken adds what the run has taken over since, and what else it must keep, to the record of the revision that it created.
func (d *Driver) SaveTaken(name string) error {
	created := d.WriteResult().Created
	if created == 0 {
		return nil // the record will have it
	}
	key := Keys(name, []int{created})[0]
	stored, err := d.inner.Get(key)
	if err != nil {
		return fmt.Errorf("read revision %d: %w", created, err)
	}
	rel, err := AsV1(stored)
	if err == nil {
		err = d.sign(rel, false)
	}
	if err != nil {
		return err
	}
	return d.inner.Update(key, rel)
}

// Create stores a new revision.
func (d *Driver) Create(key string, r release.Releaser) error {
	rel, err := AsV1(r)
	if err != nil {
		return err
	}
	d.log.mu.Lock()
	err = d.log.readErr
	d.log.mu.Unlock()
	if err != nil {
		return err
	}
	if err := d.prepareCreate(rel); err != nil {
		return err
	}
	create := func() (unsure bool, _ error) {
		return d.confirm(key, rel, d.store(rel, func() error { return d.inner.Create(key, rel) }))
	}
	unsure, err := create()
	if tooLarge(err) { // without the record it may fit
		dropFile(rel, recordFile)
		unsure, err = create()
	}
	if errors.Is(err, driver.ErrReleaseExists) {
		err = fmt.Errorf("helm or a run without a lock created revision %d in the meantime (%w); run the command again", rel.Version, err)
	}
	if err == nil || unsure {
		d.logCreated(rel, unsure)
	}
	d.logWrite(rel, err)
	if err == nil {
		d.deleteKept()
	}
	return err
}

// prepareCreate adds the record to a new revision, signs it, and drops the timings of an old one.
func (d *Driver) prepareCreate(rel *rel1.Release) error {
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
	if err := d.sign(rel, true); err != nil {
		return err
	}
	dropFile(rel, courseFile) // a rollback's chart has those of the old revision
	return nil
}

// Update stores an existing revision.
func (d *Driver) Update(key string, r release.Releaser) error {
	rel, err := AsV1(r)
	if err != nil {
		return err
	}
	if d.opts.BeforeUninstall != nil && rel.Info.Status == rcommon.StatusUninstalling {
		d.opts.BeforeUninstall(rel)
	}
	if err := d.beforeDeployed(rel); err != nil {
		return err
	}
	if err := d.sign(rel, false); err != nil {
		return err
	}
	update := func() error {
		_, err := d.confirm(key, rel, d.store(rel, func() error { return d.inner.Update(key, rel) }))
		d.logWrite(rel, err)
		return err
	}
	if d.opts.Course != nil && rel.Version == d.WriteResult().Created && !rel.Info.Status.IsPending() {
		if err := writeFile(rel, courseFile, course{rel.Version, d.opts.Course(rel.Info.Status == rcommon.StatusDeployed)}); err != nil {
			return err
		}
	}
	err = update()
	for _, shrink := range []func(){
		func() { dropFile(rel, courseFile) },
		func() { rel.Info.Description = shortened(rel.Info.Description) },
		func() { dropFile(rel, recordFile) },
	} {
		if !tooLarge(err) {
			break
		}
		shrink() // storing the final status is more important (R34)
		err = update()
	}
	return err
}

func (d *Driver) beforeDeployed(rel *rel1.Release) error {
	created := d.WriteResult().Created
	deployed := rel.Version == created && rel.Info.Status == rcommon.StatusDeployed
	superseded := rel.Version != created && created > 0 && rel.Info.Status == rcommon.StatusSuperseded
	if d.opts.BeforeDeployed == nil || !deployed && !superseded {
		return nil
	}
	return d.opts.BeforeDeployed()
}

// confirm reads a revision again if err does not show whether it was stored: there was no answer, or
// a server error, which may come from a proxy (R32a). It returns a nil error if the revision was
// stored. unsure is set if the write may still arrive, or if the API server answered it with an error and the read fails.
func (d *Driver) confirm(key string, rel *rel1.Release, err error) (unsure bool, _ error) {
	if err == nil || errors.Is(err, driver.ErrReleaseExists) || permanent(err) {
		return false, err
	}
	stored, readErr := d.inner.Get(key)
	if readErr != nil {
		var status apierrors.APIStatus
		unreadable := !errors.Is(readErr, driver.ErrReleaseNotFound) && errors.As(err, &status)
		return unreadable || connect.MayHaveArrived(err), err
	}
	found, ok := stored.(*rel1.Release)
	if ok && Same(found, rel) && found.Info.Description == rel.Info.Description {
		return false, nil
	}
	return false, err
}

// answered reports whether an error is a client error (4xx) from the API server, which shows that the
// request had no effect.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// Delete deletes a revision. One that no longer exists is deleted: an uninstall that deletes the release's own
// namespace deletes its records with it. The record of a revision that may have left something is deleted once the next one has
// the names of its objects: the run may be killed in between.
func (d *Driver) Delete(key string) (release.Releaser, error) {
	if rel := d.keep(key); rel != nil {
		return rel, nil
	}
	rel, err := d.inner.Delete(key)
	if errors.Is(err, driver.ErrReleaseNotFound) || apierrors.IsNotFound(err) {
		err = nil
	}
	if err == nil {
		d.log.mu.Lock()
		defer d.log.mu.Unlock()
		d.log.Stored, d.log.Status = true, event.NoRelease
	}
	return rel, err
}

// store masks secret values in the description, and calls write while the manifests have annotation
// keys that an API server accepts (R3). Afterwards it restores the keys: Helm continues with the
// release, and hooks are identified by their text.
func (d *Driver) store(rel *rel1.Release, write func() error) error {
	if d.opts.Mask != nil {
		rel.Info.Description = d.opts.Mask(rel.Info.Description)
	}
	manifest := rel.Manifest
	hooks := make([]string, len(rel.Hooks))
	rel.Manifest = charts.RewriteKeys(manifest)
	for i, h := range rel.Hooks {
		hooks[i] = h.Manifest
		h.Manifest = charts.RewriteKeys(h.Manifest)
	}
	err := write()
	rel.Manifest = manifest
	for i, h := range rel.Hooks {
		h.Manifest = hooks[i]
	}
	return err
}

// AsV1 returns a release as the only type that Helm 4 stores.
func AsV1(r release.Releaser) (*rel1.Release, error) {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return nil, fmt.Errorf("release of unexpected type %T", r)
	}
	return rel, nil
}

package release

import (
	"fmt"
	"slices"
	"sync"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// writeLog is the log of writes, shared by the drivers of one operation.
type writeLog struct {
	mu sync.Mutex
	WriteResult
	readErr error     // of the last List or Query, which leaves the existing revisions unknown
	history Revisions // as last read
	// noReturn are the reasons to keep in the created revision (R33a); saving is held while one is stored.
	noReturn []string
	saving   sync.Mutex
	kept     []string // the keys of records to delete once the next revision has what is in them
}

// WriteResult is the result of an operation's writes to the release records.
type WriteResult struct {
	Created      int    // the created revision, 0 for none so far
	Uninstalling bool   // the release was marked uninstalling
	Stored       bool   // anything was stored
	Status       string // the stored status of the created or uninstalled revision
	Err          error  // why the last change of that revision was not stored
	// Others are the other revisions whose last change was not stored.
	Others []int
	// Unconfirmed is the created revision as it was sent, if its request may still arrive or may have been carried out.
	Unconfirmed *rel1.Release
}

// WriteResult returns the result of the writes so far.
func (d *Driver) WriteResult() WriteResult {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	w := d.log.WriteResult
	w.Others = slices.Clone(w.Others)
	return w
}

// logWrite logs the result of writing a revision.
func (d *Driver) logWrite(rel *rel1.Release, err error) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	w := &d.log.WriteResult
	w.Stored = w.Stored || err == nil
	if w.Created > 0 && rel.Version != w.Created {
		w.Others = slices.DeleteFunc(w.Others, func(v int) bool { return v == rel.Version })
		if err != nil {
			w.Others = append(w.Others, rel.Version)
		}
		return
	}
	w.Err = err
	if err == nil {
		w.Status = rel.Info.Status.String()
		w.Uninstalling = w.Uninstalling || rel.Info.Status == rcommon.StatusUninstalling
	}
}

// logRead logs the error of a read and returns it. Helm's install treats every error as the answer
// that there are no revisions, so Create checks the log.
func (d *Driver) logRead(err error) error {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	_, d.log.readErr = checkFound(err)
	if d.log.readErr != nil {
		d.log.readErr = fmt.Errorf("no revision was created, because the existing ones could not be read: %w", err)
	}
	return err
}

// logCreated logs a new revision. unsure is set if its request may still arrive or may have been
// carried out.
func (d *Driver) logCreated(rel *rel1.Release, unsure bool) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	d.log.Created, d.log.Stored, d.log.Unconfirmed = rel.Version, true, nil
	if unsure {
		sent, info := *rel, *rel.Info
		sent.Info = &info
		d.log.Unconfirmed = &sent
	}
}

// Package release reads and writes Helm's release records: Driver wraps Helm's storage, Record is the
// order that is stored with a revision (R28), Ledger detects writes by somebody else (R51a), and
// Finalize brings a revision to a final state (R34).
package release

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/engine/plan"
	"lockstep/kube/lease"
	"lockstep/kube/manifest"
	"lockstep/kube/mask"
	"lockstep/kube/readiness"
)

// Record is the order of a revision's charts, for a later rollback or uninstall. The order of groups
// is in the annotations of the manifest. A Record is stored as one of the chart's files, because these
// belong to a single revision. Labels do not: Helm's upgrade copies them.
//
// Rule R28: lockstep adds only files to the chart of a release: this record and the timings
// (timings.go).
type Record struct {
	Version   int         `json:"version"`
	Sequenced bool        `json:"sequenced"`
	Tree      *plan.Chart `json:"tree"`
	// Readiness is what the operator said about the readiness of objects when the revision was applied (R22b). Those who look
	// at the release later, and a rollback to the revision, judge by it.
	Readiness []readiness.Override `json:"readiness,omitempty"`
	// SecretPaths are the places of values of the revision that are secret whatever they are called, so that a later plan hides them,
	// too.
	SecretPaths mask.Paths `json:"secretPaths,omitempty"`
	// Revision is the number of the revision if the run that created it held the Lease. It may
	// differ from the release's, because Helm's rollback copies the file. Uninstalling is set by a run that uninstalls the release while it holds the Lease.
	Revision     int  `json:"revision,omitempty"`
	Uninstalling bool `json:"uninstalling,omitempty"`
	// Job is the Job whose pod created the revision, as namespace/name/UID; "" outside of the cluster. Undo is set if the
	// revision is the rollback of a failed operation.
	Job  string `json:"job,omitempty"`
	Undo bool   `json:"undo,omitempty"`
	// Author and Process are the run that created revision Authored, which may differ from the release's, as Revision does. Unlike
	// Revision, they are also set without the Lease, and so are Job and Undo.
	Author   string `json:"author,omitempty"`
	Process  int    `json:"process,omitempty"`
	Authored int    `json:"authored,omitempty"`
	// Stored is Info.LastDeployed of the revision in which a run has stored the record, zero for older versions.
	Stored time.Time `json:"stored,omitzero"`
	// Taken are the objects of others that revision Authored has taken over.
	Taken []Taken `json:"taken,omitempty"`
	// NoReturn are the reasons of the points of no return that the run of revision Authored may have passed: their groups have
	// started. At the end of the run, its Course says which it has passed (R33a). Passed are those that earlier revisions have
	// passed since the one to roll back to: their records may be deleted.
	NoReturn []string `json:"noReturn,omitempty"`
	Passed   []Passed `json:"passed,omitempty"`
	// Others are the other releases of the stack that the run of revision Authored was to deploy, by their IDs, with the revisions to which a
	// rollback of them would have gone, 0 for none. It is only set with NoReturn.
	Others map[string]int `json:"others,omitempty"`
	// Pruned are the revisions before Authored that were never deployed: their records may be deleted.
	Pruned []Pruned `json:"pruned,omitempty"`
}

// Passed is a point of no return that the run of a revision has passed.
type Passed struct {
	Revision int    `json:"revision"`
	Reason   string `json:"reason"`
}

// Taken is an object that existed before a release took it over (--take-ownership), with the marks of its owner then.
type Taken struct {
	Object plan.Object    `json:"object"`
	UID    types.UID      `json:"uid"`
	Marks  manifest.Marks `json:"marks"`
}

const (
	recordFile    = ".lockstep/plan.json.gz"
	recordVersion = 1
	// maxRecord limits the unpacked size of a file, in bytes. 10,000 subcharts take half of it.
	maxRecord = 4 << 20
)

// write adds the record to the files of a release's chart.
func (r *Record) write(rel *rel1.Release) error { return writeFile(rel, recordFile, *r) }

func writeFile(rel *rel1.Release, name string, content any) error {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := errors.Join(json.NewEncoder(z).Encode(content), z.Close()); err != nil {
		return fmt.Errorf("add %s to release %s: %w", name, rel.Name, err)
	}
	dropFile(rel, name)
	rel.Chart.Files = append(rel.Chart.Files, &common.File{Name: name, Data: buf.Bytes()})
	return nil
}

// dropFile removes a file from a copy of the list of files, which may be shared.
func dropFile(rel *rel1.Release, name string) {
	rel.Chart.Files = slices.DeleteFunc(slices.Clone(rel.Chart.Files), func(f *common.File) bool { return f != nil && f.Name == name })
}

// ReadRecord returns the record of a release, nil if it has none or an unknown version. Helm stores the files of a chart with its
// releases: of a record that its rollback has copied, only what is about the chart counts, and one that a chart brings along,
// made from a release, does not count.
func ReadRecord(rel *rel1.Release) *Record {
	var r Record
	switch {
	case !readFile(rel, recordFile, &r) || r.Version != recordVersion:
		return nil
	case storedWith(rel, r.Stored):
		return &r
	case isRollback(rel):
		return &Record{Version: r.Version, Sequenced: r.Sequenced, Tree: r.Tree, Readiness: r.Readiness, SecretPaths: r.SecretPaths}
	}
	return nil
}

// storedWith reports whether a record was made for a release, as far as one can tell, not for another one from which a chart was made.
func storedWith(rel *rel1.Release, stored time.Time) bool {
	return stored.IsZero() || rel.Info == nil || stored.Equal(rel.Info.LastDeployed)
}

// UnreadOrder says why nobody can tell in which order a revision was deployed, "" if the record says it or if there is none.
func UnreadOrder(rel *rel1.Release) string {
	var head struct {
		Version int       `json:"version"`
		Stored  time.Time `json:"stored"`
	}
	known := readFile(rel, recordFile, &head)
	switch {
	case known && !storedWith(rel, head.Stored) && !isRollback(rel):
		return "" // a chart brings it along, see ReadRecord
	case known && head.Version != recordVersion:
		return fmt.Sprintf("another version of lockstep has recorded it, in format %d; this one reads format %d", head.Version, recordVersion)
	case fileOf(rel, recordFile) != nil && !readFile(rel, recordFile, &Record{}):
		return "its record is damaged"
	}
	return ""
}

// RollbackTo returns the revision that a rollback restored, 0 if the revision is no rollback. Helm 3 has it only in the description.
func RollbackTo(rel *rel1.Release) (number int) {
	if number = rel.Info.RollbackRevision; number == 0 {
		_, _ = fmt.Sscanf(rel.Info.Description, "Rollback to %d", &number)
	}
	return number
}

// isRollback reports whether a revision is a rollback, also one of Helm 3.
func isRollback(rel *rel1.Release) bool {
	return rel.Info.RollbackRevision > 0 || strings.HasPrefix(rel.Info.Description, "Rollback ")
}

// fileOf returns a file of the chart of a release, nil if it has none of that name.
func fileOf(rel *rel1.Release, name string) *common.File {
	if rel == nil || rel.Chart == nil {
		return nil
	}
	for _, f := range rel.Chart.Files {
		if f != nil && f.Name == name {
			return f
		}
	}
	return nil
}

// readFile reads what writeFile wrote. It reports whether the file exists and is valid.
func readFile(rel *rel1.Release, name string, content any) bool {
	f := fileOf(rel, name)
	if f == nil {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(f.Data))
	if err != nil {
		return false
	}
	data, err := io.ReadAll(io.LimitReader(z, maxRecord))
	return err == nil && json.Unmarshal(data, content) == nil
}

// NewRecord returns the record of a revision that is applied in the order of a tree, or
// unsequenced.
func NewRecord(sequenced bool, tree *plan.Chart) *Record {
	return &Record{Version: recordVersion, Sequenced: sequenced, Tree: tree}
}

// Hide adds the secret values of a release to a mask, also those that only its record knows to be secret.
func Hide(m *mask.Mask, rel *rel1.Release) {
	if r := ReadRecord(rel); r != nil {
		m.AddPaths(rel.Namespace, rel.Name, rel.Config, r.SecretPaths)
	}
	m.AddRelease(rel)
}

// ReadinessOf returns Record.Readiness of a release, nil if it has no record.
func ReadinessOf(rel *rel1.Release) []readiness.Override {
	if r := ReadRecord(rel); r != nil {
		return r.Readiness
	}
	return nil
}

// signed reports whether a run that held the Lease created the revision or, if the revision is
// uninstalling, started the uninstall.
func signed(rel *rel1.Release) bool {
	r := ReadRecord(rel)
	if r == nil {
		return false
	}
	if rel.Info.Status == rcommon.StatusUninstalling {
		return r.Uninstalling
	}
	return r.Revision == rel.Version
}

// sign records in a revision that a run created it, if created is set, and that a run holding the Lease created it or is
// uninstalling it, if locked is set. job is the Job of the run, undo whether it rolls back a failed operation. taken are
// the objects that it has taken over, nil if the revision is not the run's, pruned the revisions before it that were never deployed,
// passed the points of no return that these have passed, noReturn those of its run, and others its Others.
func sign(rel *rel1.Release, created, locked bool, job string, undo bool, taken []Taken, pruned []Pruned, passed []Passed, noReturn []string, others map[string]int) error {
	r := ReadRecord(rel)
	if r == nil {
		r = NewRecord(false, nil)
	}
	before := *r
	if created {
		author := lease.NewAuthor(job)
		r.Author, r.Process, r.Authored, r.Job, r.Undo = author.Name, author.Process, rel.Version, job, undo
		r.Pruned, r.Passed = pruned, passed
	}
	if created || taken != nil {
		r.Taken = taken
	}
	if created || noReturn != nil {
		if r.NoReturn, r.Others = noReturn, others; len(noReturn) == 0 {
			r.Others = nil
		}
	}
	if locked {
		r.Uninstalling = rel.Info.Status == rcommon.StatusUninstalling
	}
	if created && locked {
		r.Revision = rel.Version
	}
	labelStackPoints(rel, r)
	if reflect.DeepEqual(*r, before) {
		return nil
	}
	r.Stored = rel.Info.LastDeployed
	return r.write(rel)
}

// AuthorOf returns who created a revision: a run of lockstep, or Helm.
func AuthorOf(rel *rel1.Release) lease.Author {
	r := ReadRecord(rel)
	switch {
	case r != nil && r.Authored == rel.Version && r.Author != "":
		return lease.Author{Name: r.Author, Process: r.Process}
	case r != nil && r.Revision == rel.Version: // by an older version
		return lease.Author{Name: "lockstep"}
	}
	return lease.Author{Name: "helm"}
}

// CreatedBy reports whether a pod of the Job created the revision.
func CreatedBy(rel *rel1.Release, job string) bool {
	r := ReadRecord(rel)
	return job != "" && r != nil && r.Job == job && r.Authored == rel.Version
}

// DeployedBy reports whether a pod of the Job created and deployed the revision, and not as a rollback on failure.
func DeployedBy(rel *rel1.Release, job string) bool {
	return CreatedBy(rel, job) && !ReadRecord(rel).Undo && rel.Info.Status == rcommon.StatusDeployed
}

// PassedNoReturn returns the reasons of the points of no return that the run of a revision has passed or, if it was killed, may
// have passed (R33a).
func PassedNoReturn(rel *rel1.Release) []string {
	var c course
	if readFile(rel, courseFile, &c) && c.Revision == rel.Version {
		return c.NoReturn
	}
	if r := ReadRecord(rel); r != nil && r.Authored == rel.Version {
		return r.NoReturn
	}
	return nil
}

// TestsPassed reports whether all tests of a revision have passed since it was deployed; true if it has none.
func TestsPassed(rel *rel1.Release) bool {
	return !slices.ContainsFunc(rel.Hooks, func(h *rel1.Hook) bool {
		return slices.Contains(h.Events, rel1.HookTest) && h.LastRun.Phase != rel1.HookPhaseSucceeded
	})
}

// RolledBackBy reports whether a pod of the Job created and deployed the revision as a rollback on failure.
func RolledBackBy(rel *rel1.Release, job string) bool {
	return CreatedBy(rel, job) && ReadRecord(rel).Undo && rel.Info.Status == rcommon.StatusDeployed
}

// ChartsOf returns the charts of a revision, whether or not they have ordered it. Of one without a record, such as Helm's, only the
// root chart is known.
func ChartsOf(rel *rel1.Release) *plan.Chart {
	if r := ReadRecord(rel); r != nil && r.Tree != nil {
		return r.Tree
	}
	return plan.NewChart(rel.Chart.Name(), rel.Chart.Metadata.Annotations)
}

// TreeOf returns the chart tree by which a revision was sequenced, nil if it was not (R32).
func TreeOf(rel *rel1.Release) *plan.Chart {
	if r := ReadRecord(rel); r != nil && r.Sequenced {
		return r.Tree
	}
	return nil
}

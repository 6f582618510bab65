package kube

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/charts"
)

// record is what a revision keeps to be undone in order later (R28): which
// chart waits for which. The groups are in the annotations of its manifest.
// Chart files belong to a revision and come back with it after a rollback and
// after Helm's own upgrade, other than labels, which Helm's upgrade copies.
type record struct {
	Version   int         `json:"version"`
	Sequenced bool        `json:"sequenced"`
	Tree      *plan.Chart `json:"tree"`
}

const (
	recordFile    = ".lockstep/plan.json.gz"
	recordVersion = 1
)

// writeRecord puts the record among the files of a release's chart.
func writeRecord(rel *rel1.Release, r record) error { return writeFile(rel, recordFile, r) }

func writeFile(rel *rel1.Release, name string, content any) error {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := json.NewEncoder(z).Encode(content); err != nil {
		return fmt.Errorf("record %s with %s: %w", name, rel.Name, err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("record %s with %s: %w", name, rel.Name, err)
	}
	dropFile(rel, name)
	rel.Chart.Files = append(rel.Chart.Files, &common.File{Name: name, Data: buf.Bytes()})
	return nil
}

// dropFile leaves the list of files that others may hold as it is.
func dropFile(rel *rel1.Release, name string) {
	rel.Chart.Files = slices.DeleteFunc(slices.Clone(rel.Chart.Files), func(f *common.File) bool { return f.Name == name })
}

// readRecord returns the record of a release, or nil where it has none that
// this program understands: the release is Helm's own.
func readRecord(rel *rel1.Release) *record {
	var r record
	if !readFile(rel, recordFile, &r) || r.Version != recordVersion {
		return nil
	}
	return &r
}

// readFile reads what writeFile has written. It reports whether that is there
// and is what it should be.
func readFile(rel *rel1.Release, name string, content any) bool {
	if rel == nil || rel.Chart == nil {
		return false
	}
	i := slices.IndexFunc(rel.Chart.Files, func(f *common.File) bool { return f.Name == name })
	if i < 0 {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(rel.Chart.Files[i].Data))
	if err != nil {
		return false
	}
	data, err := io.ReadAll(io.LimitReader(z, 16<<20))
	return err == nil && json.Unmarshal(data, content) == nil
}

// recorder is the decorator of Helm's release storage: the last look at a
// release before it is stored.
type recorder struct {
	driver.Driver
	// seen is told of each revision before it is stored for the first time,
	// removed of one that Helm is about to delete. Either may be nil.
	seen    func(*rel1.Release) error
	removed func(*rel1.Release)
	// record is what new revisions keep, nil for what they have already.
	record *record
	// timings are kept with a revision that this pass has made, once that is
	// over. May be nil.
	timings func() []Timing

	made         int    // the revision that this pass has made, 0 for none so far
	uninstalling bool   // this pass has marked the release so
	wrote        bool   // anything was stored
	status       string // what the record says now, of the revision that counts
	failed       error  // why the last change of it was not stored
}

// took takes note of what has become of a change of a revision.
func (s *recorder) took(rel *rel1.Release, err error) {
	s.wrote = s.wrote || err == nil
	if s.made > 0 && rel.Version != s.made {
		return
	}
	if s.failed = err; err == nil {
		s.status = rel.Info.Status.String()
		s.uninstalling = s.uninstalling || rel.Info.Status == rcommon.StatusUninstalling
	}
}

// Create stores a new revision.
func (s *recorder) Create(key string, r release.Releaser) error {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return fmt.Errorf("store release: unexpected type %T", r)
	}
	charts.UnwrapTemplates(rel.Chart)
	if s.seen != nil {
		if err := s.seen(rel); err != nil {
			return err
		}
	}
	if s.record != nil {
		if err := writeRecord(rel, *s.record); err != nil {
			return err
		}
	}
	dropFile(rel, timingsFile) // of the revision that a rollback goes back to
	err := s.store(rel, func() error { return s.Driver.Create(key, rel) })
	if err == nil || !errors.Is(err, driver.ErrReleaseExists) && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		s.made, s.wrote = rel.Version, true // or may have: there was no answer
	}
	s.took(rel, err)
	return err
}

// Update stores a revision that is there.
func (s *recorder) Update(key string, r release.Releaser) error {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return fmt.Errorf("store release: unexpected type %T", r)
	}
	charts.UnwrapTemplates(rel.Chart)
	if s.removed != nil && rel.Info.Status == rcommon.StatusUninstalling {
		s.removed(rel)
	}
	update := func() error {
		err := s.store(rel, func() error { return s.Driver.Update(key, rel) })
		s.took(rel, err)
		return err
	}
	if s.timings == nil || rel.Version != s.made || rel.Info.Status.IsPending() {
		return update()
	}
	if err := writeFile(rel, timingsFile, timings{rel.Version, s.timings()}); err != nil {
		return err
	}
	err := update()
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) { // they may be what is too much
		dropFile(rel, timingsFile)
		err = update()
	}
	return err
}

// Delete takes a revision away.
func (s *recorder) Delete(key string) (release.Releaser, error) {
	rel, err := s.Driver.Delete(key)
	if err == nil {
		s.wrote, s.status = true, event.NoRelease
	}
	return rel, err
}

// store writes with the annotation keys that an API server accepts (R3), and
// leaves the release in memory as it was: Helm goes on with it, and its hooks
// are known by their text.
func (s *recorder) store(rel *rel1.Release, write func() error) error {
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

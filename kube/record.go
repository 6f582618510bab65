package kube

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"

	"lockstep/engine"
	"lockstep/kube/charts"
)

// record is what a revision keeps to be undone in order later (R28): which
// chart waits for which. The groups are in the annotations of its manifest.
// Chart files belong to a revision and come back with it after a rollback and
// after Helm's own upgrade, other than labels, which Helm's upgrade copies.
type record struct {
	Version   int           `json:"version"`
	Sequenced bool          `json:"sequenced"`
	Tree      *engine.Chart `json:"tree"`
}

const (
	recordFile    = ".lockstep/plan.json.gz"
	recordVersion = 1
)

// writeRecord puts the record among the files of a release's chart.
func writeRecord(rel *rel1.Release, r record) error {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := json.NewEncoder(z).Encode(r); err != nil {
		return fmt.Errorf("record the plan of %s: %w", rel.Name, err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("record the plan of %s: %w", rel.Name, err)
	}
	files := slices.DeleteFunc(slices.Clone(rel.Chart.Files), func(f *common.File) bool { return f.Name == recordFile })
	rel.Chart.Files = append(files, &common.File{Name: recordFile, Data: buf.Bytes()})
	return nil
}

// readRecord returns the record of a release, or nil where it has none that
// this program understands: the release is Helm's own.
func readRecord(rel *rel1.Release) *record {
	if rel == nil || rel.Chart == nil {
		return nil
	}
	i := slices.IndexFunc(rel.Chart.Files, func(f *common.File) bool { return f.Name == recordFile })
	if i < 0 {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(rel.Chart.Files[i].Data))
	if err != nil {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(z, 16<<20))
	if err != nil {
		return nil
	}
	var r record
	if json.Unmarshal(data, &r) != nil || r.Version != recordVersion {
		return nil
	}
	return &r
}

// recorder is the decorator of Helm's release storage: the last look at a
// release before it is stored.
type recorder struct {
	driver.Driver
	// seen is told of each revision before it is stored for the first time,
	// uninstalling of one that Helm is about to delete. Either may be nil.
	seen         func(*rel1.Release) error
	uninstalling func(*rel1.Release)
	// record is what new revisions keep, nil for what they have already.
	record *record
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
	return s.store(rel, func() error { return s.Driver.Create(key, rel) })
}

// Update stores a revision that is there.
func (s *recorder) Update(key string, r release.Releaser) error {
	rel, ok := r.(*rel1.Release)
	if !ok {
		return fmt.Errorf("store release: unexpected type %T", r)
	}
	charts.UnwrapTemplates(rel.Chart)
	if s.uninstalling != nil && rel.Info.Status == rcommon.StatusUninstalling {
		s.uninstalling(rel)
	}
	return s.store(rel, func() error { return s.Driver.Update(key, rel) })
}

// store writes with the annotation keys that an API server accepts (R3), and
// leaves the release in memory as it was: Helm goes on with it, and its hooks
// are known by their text.
func (s *recorder) store(rel *rel1.Release, write func() error) error {
	manifest := rel.Manifest
	hooks := make([]string, len(rel.Hooks))
	rel.Manifest = respell(manifest)
	for i, h := range rel.Hooks {
		hooks[i] = h.Manifest
		h.Manifest = respell(h.Manifest)
	}
	err := write()
	rel.Manifest = manifest
	for i, h := range rel.Hooks {
		h.Manifest = hooks[i]
	}
	return err
}

// respell writes the annotation keys with two slashes under their stored
// spelling with one (R3).
func respell(manifest string) string {
	if !strings.Contains(manifest, "helm.sh/dep") {
		return manifest
	}
	for _, key := range engine.TwoSlashKeys() {
		manifest = strings.ReplaceAll(manifest, key+":", engine.StoredKey(key)+":")
		manifest = strings.ReplaceAll(manifest, key+`":`, engine.StoredKey(key)+`":`)
		manifest = strings.ReplaceAll(manifest, key+`':`, engine.StoredKey(key)+`':`)
	}
	return manifest
}

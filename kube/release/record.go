// Package release keeps Helm's release records: the decorator of Helm's storage
// (R28), what a revision keeps to be undone in order, the timings of its run,
// and the final state of a revision (R34).
package release

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/engine/plan"
)

// Record is the order of a revision, for undoing it later: which chart waits for which.
// Groups are in the annotations of the manifest. It is stored among the chart's files,
// which belong to one revision; Helm's upgrade would copy labels.
//
// Rule R28: the only addition to a release is a file that looks like a chart's.
type Record struct {
	Version   int         `json:"version"`
	Sequenced bool        `json:"sequenced"`
	Tree      *plan.Chart `json:"tree"`
	// Revision is the revision that a run has made of it which held the Lease of
	// the release: a rollback of Helm's takes the file over to another one.
	// Uninstalling means that such a run has begun to uninstall it.
	Revision     int  `json:"revision,omitempty"`
	Uninstalling bool `json:"uninstalling,omitempty"`
}

const (
	recordFile    = ".lockstep/plan.json.gz"
	recordVersion = 1
	// maxRecord limits the size of a file that is read: 10,000 subcharts take half of it.
	maxRecord = 4 << 20
)

// write adds the record to the files of a release's chart.
func (r *Record) write(rel *rel1.Release) error { return writeFile(rel, recordFile, *r) }

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

// dropFile copies the list of files, which others may hold.
func dropFile(rel *rel1.Release, name string) {
	rel.Chart.Files = slices.DeleteFunc(slices.Clone(rel.Chart.Files), func(f *common.File) bool { return f != nil && f.Name == name })
}

// ReadRecord returns the record of a release, nil if it has none that lockstep
// understands.
func ReadRecord(rel *rel1.Release) *Record {
	var r Record
	if !readFile(rel, recordFile, &r) || r.Version != recordVersion {
		return nil
	}
	return &r
}

// readFile reads what writeFile wrote. It reports whether the file exists and is valid.
func readFile(rel *rel1.Release, name string, content any) bool {
	if rel == nil || rel.Chart == nil {
		return false
	}
	i := slices.IndexFunc(rel.Chart.Files, func(f *common.File) bool { return f != nil && f.Name == name })
	if i < 0 {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(rel.Chart.Files[i].Data))
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

// begun reports whether a run that held the Lease has brought the revision to
// the state that it is in.
func begun(rel *rel1.Release) bool {
	r := ReadRecord(rel)
	if r == nil {
		return false
	}
	if rel.Info.Status == rcommon.StatusUninstalling {
		return r.Uninstalling
	}
	return r.Revision == rel.Version
}

// sign notes in the record of a revision that a run which holds the Lease has
// made it, or has begun to uninstall it.
func sign(rel *rel1.Release, made bool) error {
	r := ReadRecord(rel)
	if r == nil {
		r = NewRecord(false, nil)
	}
	was := *r
	if r.Uninstalling = rel.Info.Status == rcommon.StatusUninstalling; made {
		r.Revision = rel.Version
	}
	if *r == was {
		return nil
	}
	return r.write(rel)
}

// TreeOf returns the chart tree that a revision was sequenced by, or nil for one
// that was not (R32).
func TreeOf(rel *rel1.Release) *plan.Chart {
	if r := ReadRecord(rel); r != nil && r.Sequenced {
		return r.Tree
	}
	return nil
}

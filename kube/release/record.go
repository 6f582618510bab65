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

// Record is what a revision keeps to be undone in order later: which chart waits
// for which. The groups are in the annotations of its manifest. It is stored
// among the chart's files, since those come back with their revision after a
// rollback and after Helm's own upgrade; labels would be copied by the latter.
//
// Rule R28: what is added to a release is a file that Helm takes for a chart's.
type Record struct {
	Version   int         `json:"version"`
	Sequenced bool        `json:"sequenced"`
	Tree      *plan.Chart `json:"tree"`
	// Revision is the revision that a run has made of it which held the Lease of
	// the release: a rollback of Helm's takes the file over to another one.
	// Uninstalling tells that such a run has begun to uninstall it.
	Revision     int  `json:"revision,omitempty"`
	Uninstalling bool `json:"uninstalling,omitempty"`
}

const (
	recordFile    = ".lockstep/plan.json.gz"
	recordVersion = 1
	// maxRecord is how much is read of a file of ours. That of 10,000 subcharts or
	// groups has half of it; what is read takes many times the memory.
	maxRecord = 4 << 20
)

// write puts the record among the files of a release's chart.
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

// dropFile leaves the list of files that others may hold as it is.
func dropFile(rel *rel1.Release, name string) {
	rel.Chart.Files = slices.DeleteFunc(slices.Clone(rel.Chart.Files), func(f *common.File) bool { return f != nil && f.Name == name })
}

// ReadRecord returns the record of a release, or nil where it has none that
// this program understands: the release is Helm's own.
func ReadRecord(rel *rel1.Release) *Record {
	var r Record
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

// NewRecord is what a revision keeps that is brought in the order of a tree, or
// with sequenced false in no order.
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

// TreeOf is the chart tree that a revision was sequenced by, or nil for one
// that was not (R32).
func TreeOf(rel *rel1.Release) *plan.Chart {
	if r := ReadRecord(rel); r != nil && r.Sequenced {
		return r.Tree
	}
	return nil
}

package release

import (
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// A killed run may leave a pending or uninstalling revision. It may also leave two deployed ones,
// because the last two writes of an operation change two records.

// Mark is a change that brings a revision to a final state.
type Mark struct {
	Revision int
	From, To rcommon.Status
	// Ours is set if the run that left the revision in that status held the release's Lease, or has
	// certainly ended.
	Ours bool
}

func (m Mark) String() string {
	text := fmt.Sprintf("revision %d was left %s", m.Revision, m.From)
	if m.To == rcommon.StatusSuperseded {
		text += ", and a later one exists"
	}
	return text
}

// Interrupted returns the marks for interrupted revisions, and for deployed revisions before the latest
// deployed one.
func (r *Revisions) Interrupted() (marks []Mark) {
	deployed := r.deployed()
	for _, rel := range r.All {
		st := rel.Info.Status
		m := Mark{Revision: rel.Version, From: st, To: rcommon.StatusFailed, Ours: signed(rel)}
		switch {
		case st.IsPending(), st == rcommon.StatusUninstalling:
		case st == rcommon.StatusDeployed && rel != deployed:
			m.To, m.Ours = rcommon.StatusSuperseded, true // a later revision is deployed, or its uninstall has started: this one's run has ended
		case st == rcommon.StatusSuperseded && rel == r.Last && !rel.Info.Deleted.IsZero():
			m.Ours = true // install --replace was killed before it created the next one
		default:
			continue
		}
		marks = append(marks, m)
	}
	return marks
}

// apply marks a revision. It returns false if the status is no longer m.From.
func (m Mark) apply(rel *rel1.Release) bool {
	if rel.Version != m.Revision || rel.Info.Status != m.From {
		return false
	}
	rel.Info.Status = m.To
	if m.To == rcommon.StatusFailed {
		rel.Info.Description = fmt.Sprintf("Release %q failed: an interrupted run left it %s", rel.Name, m.From)
	}
	return true
}

// Write writes a mark to the revision's record, unless the record already has that status.
func (m Mark) Write(s *storage.Storage, name string) error {
	rel, err := MustExist(Get(s, name, m.Revision))
	switch {
	case err != nil:
	case rel.Info.Status == m.To:
		return nil
	case !m.apply(rel):
		err = fmt.Errorf("another operation has marked it %s; run the command again", rel.Info.Status)
	default:
		err = s.Update(rel)
	}
	if err != nil {
		return fmt.Errorf("mark revision %d as %s: %w", m.Revision, m.To, err)
	}
	return nil
}

// Marked returns a storage whose revisions look as if the marks had been written. It is for planning;
// the marks must be written before the plan runs.
func Marked(s *storage.Storage, marks []Mark) *storage.Storage {
	return storage.Init(&markedDriver{s.Driver, marks})
}

type markedDriver struct {
	driver.Driver
	marks []Mark
}

func (d *markedDriver) apply(r release.Releaser) {
	if rel, ok := r.(*rel1.Release); ok {
		for _, m := range d.marks {
			m.apply(rel)
		}
	}
}

func (d *markedDriver) Get(key string) (release.Releaser, error) {
	r, err := d.Driver.Get(key)
	d.apply(r)
	return r, err
}

func (d *markedDriver) List(filter func(release.Releaser) bool) ([]release.Releaser, error) {
	return d.Driver.List(func(r release.Releaser) bool {
		d.apply(r)
		return filter(r)
	})
}

// Query reads the revisions with the labels. The label status is compared after marking.
func (d *markedDriver) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := d.Driver.Query(labels)
	want := labels["status"]
	var out []release.Releaser
	for _, r := range list {
		d.apply(r)
		if rel, ok := r.(*rel1.Release); !ok || want == "" || strings.EqualFold(string(rel.Info.Status), want) {
			out = append(out, r)
		}
	}
	if err == nil && len(out) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return out, err
}

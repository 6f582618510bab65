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

// What a run leaves that is killed: a revision that is pending or uninstalling,
// or two that are deployed, since the last two writes of an operation are those
// of two revisions.

// Mark is a change that brings a revision to a final state.
type Mark struct {
	Revision int
	From, To rcommon.Status
	// Ours means that a run of this program, which held the release's Lease, has
	// left the revision so.
	Ours bool
}

func (m Mark) String() string {
	if m.To == rcommon.StatusSuperseded {
		return fmt.Sprintf("revision %d was left %s, and a later one exists", m.Revision, m.From)
	}
	return fmt.Sprintf("revision %d was left %s", m.Revision, m.From)
}

// Cut returns the marks that the revisions need: that of one which was cut off, and
// those of such as are deployed although a later one is.
func (r *Revisions) Cut() (marks []Mark) {
	for _, rel := range r.All {
		st := rel.Info.Status
		m := Mark{Revision: rel.Version, From: st, To: rcommon.StatusFailed, Ours: begun(rel)}
		switch deployed := r.deployed(); {
		case st.IsPending(), st == rcommon.StatusUninstalling:
		case st == rcommon.StatusDeployed && rel != deployed:
			m.To, m.Ours = rcommon.StatusSuperseded, true // whoever it was, it is over
		case st == rcommon.StatusSuperseded && rel == r.Last && !rel.Info.Deleted.IsZero(): // what was uninstalled was about to be replaced
			m.Ours = true
		default:
			continue
		}
		marks = append(marks, m)
	}
	return marks
}

// apply changes a revision as marked, where it is as it was found.
func (m Mark) apply(rel *rel1.Release) bool {
	if rel.Version != m.Revision || rel.Info.Status != m.From {
		return false
	}
	if rel.Info.Status = m.To; m.To == rcommon.StatusFailed {
		rel.Info.Description = fmt.Sprintf("Release %q failed: its run was interrupted while it was %s", rel.Name, m.From)
	}
	return true
}

// Write writes a mark. One that is there already is left alone.
func (m Mark) Write(s *storage.Storage, name string) error {
	rel, err := There(Get(s, name, m.Revision))
	if err != nil {
		return fmt.Errorf("mark revision %d %s: %w", m.Revision, m.To, err)
	}
	if rel.Info.Status == m.To {
		return nil
	}
	if !m.apply(rel) {
		return fmt.Errorf("mark revision %d %s: it is now %s: another operation is running", m.Revision, m.To, rel.Info.Status)
	}
	if err := s.Update(rel); err != nil {
		return fmt.Errorf("mark revision %d %s: %w", m.Revision, m.To, err)
	}
	return nil
}

// Marked returns a storage to read from in which the marks are set already: what is
// planned from it can be carried out once they are written.
func Marked(s *storage.Storage, marks []Mark) *storage.Storage {
	if len(marks) == 0 {
		return s
	}
	return storage.Init(&marked{s.Driver, marks})
}

type marked struct {
	driver.Driver
	marks []Mark
}

func (d *marked) set(r release.Releaser) {
	if rel, ok := r.(*rel1.Release); ok {
		for _, m := range d.marks {
			m.apply(rel)
		}
	}
}

// Get reads one revision.
func (d *marked) Get(key string) (release.Releaser, error) {
	r, err := d.Driver.Get(key)
	d.set(r)
	return r, err
}

// List reads the revisions that a filter lets through.
func (d *marked) List(filter func(release.Releaser) bool) ([]release.Releaser, error) {
	return d.Driver.List(func(r release.Releaser) bool {
		d.set(r)
		return filter(r)
	})
}

// Query reads the revisions that have the labels, of which one is their status.
func (d *marked) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := d.Driver.Query(labels)
	want := labels["status"]
	var out []release.Releaser
	for _, r := range list {
		d.set(r)
		if rel, ok := r.(*rel1.Release); !ok || want == "" || strings.EqualFold(string(rel.Info.Status), want) {
			out = append(out, r)
		}
	}
	if err == nil && len(out) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return out, err
}

package release

import (
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Span is the time from the first write of a revision's record to the last one, by the API server's clock: its run has created
// all its objects in that time. To is zero while the revision is unfinished. The zero Span is unknown.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Has reports whether an object created at t may be the revision's.
func (s Span) Has(t time.Time) bool {
	return s.From.IsZero() || !t.Before(s.From) && (s.To.IsZero() || !t.After(s.To))
}

// spanOf returns the span of the revision in a record.
func spanOf(o metav1.Object, status rcommon.Status) Span {
	s := Span{From: o.GetCreationTimestamp().Time}
	if status.IsPending() || status == rcommon.StatusUninstalling {
		return s
	}
	for _, m := range o.GetManagedFields() {
		if m.Time != nil && m.Time.After(s.To) {
			s.To = m.Time.Time
		}
	}
	return s
}

// Span returns the span of a revision that was stored at the start of the run, or pruned before.
func (l *Ledger) Span(rel *rel1.Release) Span {
	if s, found := l.spanOf(rel.Version); found {
		return s
	}
	return Span{rel.Info.FirstDeployed, rel.Info.LastDeployed} // of Pruned
}

// spanOf returns the span of a revision that is stored, or that the run has deleted since.
func (l *Ledger) spanOf(revision int) (s Span, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[revision]; e != nil {
		return e.span, true
	}
	s, found = l.deleted[revision]
	return s, found
}

// StoredSpan returns the span of a stored revision, the zero Span if it is unknown.
func (l *Ledger) StoredSpan(revision int) Span {
	s, _ := l.spanOf(revision)
	return s
}

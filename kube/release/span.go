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

// Span returns the span of a revision that is stored, that the run has deleted since, or that was pruned before.
func (l *Ledger) Span(rel *rel1.Release) Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[rel.Version]; e != nil {
		return e.span
	}
	if s, found := l.deleted[rel.Version]; found {
		return s
	}
	return Span{rel.Info.FirstDeployed, rel.Info.LastDeployed} // of Pruned
}

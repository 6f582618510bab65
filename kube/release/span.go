package release

import (
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Span is the time from the first write of a revision's record to the last one, by the API server's clock: its run has created
// all its objects in that time. To is zero while the revision is unfinished. The zero Span is unknown.
type Span struct{ From, To time.Time }

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

// Span returns the span of a revision.
func (l *Ledger) Span(revision int) Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.entries[revision]; e != nil {
		return e.span
	}
	return Span{}
}

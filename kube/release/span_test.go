package release

import (
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
)

// TestSpanOfDeletedRevision: a run that prunes the record of a failed revision still knows when that revision's objects were
// created, because it deletes them later (R32a).
func TestSpanOfDeletedRevision(t *testing.T) {
	began := time.Now()
	span := Span{began, began.Add(time.Minute)}
	l := NewLedger("shop", "shop")
	if err := l.observe(snapshot{revision: 5, status: rcommon.StatusFailed, uid: "u", version: "1", span: span}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.beginDelete(5); err != nil {
		t.Fatal(err)
	}
	l.endDelete(5)
	if got := l.Span(&rel1.Release{Version: 5, Info: &rel1.Info{LastDeployed: began}}); got != span {
		t.Errorf("the span is %v, want %v", got, span)
	}
}

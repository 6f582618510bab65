package lease

import (
	"os"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzHolder: any annotation gives a holder, which is the one that kubectl shows, and no
// holder leads to a file other than a lock file.
func FuzzHolder(f *testing.F) {
	f.Add(`{"user":"ann","host":"box","process":7,"run":"abcdefgh","since":"2026-01-02T03:04:05Z"}`, "ann@box/7/abcdefgh")
	f.Add(`{"run":"../../../etc/passwd"}`, "@/0/../../../etc/passwd")
	f.Add(`{"user":"other"}`, "ann@box/7/abcdefgh")
	f.Add(`null`, "@/0/")
	f.Add(`{"process":-1,"since":"9999-99-99"}`, "@/-1/")
	dir := f.TempDir()
	host, err := os.Hostname()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, annotation, identity string) {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{holderKey: annotation}}}
		l.Spec.HolderIdentity = &identity
		h := holderOf(l)
		if got := h.identity(); got != identity && h.User != identity {
			t.Errorf("%s of %q is told as %+v", annotation, identity, h)
		}
		if !strings.Contains(h.String(), h.User) {
			t.Errorf("%+v is told as %s", h, h)
		}
		h.Host = host
		if _, known := (Options{LockDir: dir}).dead(h); known {
			t.Errorf("%+v is known by a lock in an empty folder", h)
		}
	})
}

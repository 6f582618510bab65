package lease

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzHolder: whatever the annotation contains, HolderOf agrees with the HolderIdentity that kubectl shows, and no run ID
// leads to a file outside the lock directory (R51).
func FuzzHolder(f *testing.F) {
	f.Add(`{"user":"ann","host":"box","process":7,"run":"abcdefgh","since":"2026-01-02T03:04:05Z"}`, "ann@box/7/abcdefgh")
	f.Add(`{"run":"../../../etc/passwd"}`, "@/0/../../../etc/passwd")
	f.Add(`{"user":"other"}`, "ann@box/7/abcdefgh")
	f.Add(`null`, "@/0/")
	f.Add(`{}`, "@/0/")
	f.Add(`{"run":"x"}`, "@/0/x")
	f.Add(`{"run":"../outside"}`, "@/0/../outside")
	f.Add(fmt.Sprintf(`{"run":%q}`, strings.Repeat("a", 400)), "@/0/"+strings.Repeat("a", 400))
	f.Add(`{"process":-1,"since":"9999-99-99"}`, "@/-1/")
	dir := filepath.Join(f.TempDir(), "locks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..", "outside"+lockFileSuffix), nil, 0o600); err != nil {
		f.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, annotation, identity string) {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{holderKey: annotation}}}
		l.Spec.HolderIdentity = &identity
		h := HolderOf(l)
		if got := h.identity(); got != identity && h.User != identity {
			t.Errorf("HolderOf(%s, %q) = %+v", annotation, identity, h)
		}
		if !strings.Contains(h.String(), h.User) {
			t.Errorf("String of %+v lacks the user: %s", h, h)
		}
		h.Host = host
		if _, known := (Options{LockDir: dir}).dead(h); known {
			t.Errorf("dead(%+v) is known without a lock file", h)
		}
	})
}

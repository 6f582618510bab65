package release

import (
	"errors"
	"testing"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// TestFinalDescription: the record says what failed, in Helm's words.
func TestFinalDescription(t *testing.T) { // R34
	for _, c := range []struct {
		status   rcommon.Status
		wrote    WriteResult
		untested int
		want     string
	}{
		{rcommon.StatusPendingInstall, WriteResult{Created: 1}, 0, `Release "t" failed: timed out`},
		{rcommon.StatusPendingUpgrade, WriteResult{Created: 1}, 0, `Upgrade "t" failed: timed out`},
		{rcommon.StatusPendingRollback, WriteResult{Created: 1}, 0, `Release "t" failed: timed out`},
		{rcommon.StatusUninstalling, WriteResult{Uninstalling: true}, 0, `Uninstall of "t" failed: timed out`},
		{rcommon.StatusDeployed, WriteResult{Created: 1}, 1, `Release "t" failed: timed out`}, // its tests failed (S11)
	} {
		s := storage.Init(driver.NewMemory())
		rel := revision(1)
		rel.Info.Status = c.status
		if err := s.Create(rel); err != nil {
			t.Fatal(err)
		}
		status, err := Finalize(s, "t", c.wrote, c.untested, errors.New("timed out"))
		got, found, readErr := Get(s, "t", 1)
		if err != nil || readErr != nil || !found || status != "failed" || got.Info.Description != c.want {
			t.Errorf("%s: status %q, errors %v, %v, record %+v, want %q", c.status, status, err, readErr, got, c.want)
		}
	}
}

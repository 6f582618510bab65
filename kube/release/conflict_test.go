package release

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conflictingStore refuses updates and deletions with a conflict until a time, although nobody has changed the record, as a
// webhook may do.
type conflictingStore struct {
	*secretStore
	until  time.Time
	writes int
}

func (s *conflictingStore) refuse(name string) error {
	s.writes++
	if time.Now().Before(s.until) {
		return apierrors.NewConflict(secretKind, name, errors.New("made to fail"))
	}
	return nil
}

func (s *conflictingStore) Update(ctx context.Context, o *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error) {
	if err := s.refuse(o.Name); err != nil {
		return nil, err
	}
	return s.secretStore.Update(ctx, o, opts)
}

func (s *conflictingStore) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := s.refuse(name); err != nil {
		return err
	}
	return s.secretStore.Delete(ctx, name, opts)
}

// TestLastingConflict: a write of a record that is refused with conflicts for a while is repeated with pauses, and succeeds (R53).
func TestLastingConflict(t *testing.T) {
	for operation, write := range map[string]func(driver.Driver) error{
		"update": func(d driver.Driver) error { return d.Update(keyOf(1), record(1, rcommon.StatusDeployed)) },
		"delete": func(d driver.Driver) error { _, err := d.Delete(keyOf(1)); return err },
	} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const outage = 20 * time.Second
				store := &conflictingStore{secretStore: newSecretStore()}
				d := driver.NewSecrets(newSecrets(store, NewLedger("ns", "r"), func(string) {}))
				if err := d.Create(keyOf(1), record(1, rcommon.StatusPendingInstall)); err != nil {
					t.Fatal(err)
				}
				store.until = time.Now().Add(outage)
				if err := write(d); err != nil {
					t.Fatal(err)
				}
				if late := time.Since(store.until); late > maxConflictPause || store.writes > 2*int(outage/time.Second) {
					t.Errorf("%d writes, the last one %s after the last conflict", store.writes, late)
				}
			})
		})
	}
}

// TestOverloadIsRetried: an overload passes, so a record is written again until the context ends (R53). A refusal is final.
func TestOverloadIsRetried(t *testing.T) {
	for err, want := range map[error]int{
		apierrors.NewTooManyRequests("made to fail", 1):                          3,
		apierrors.NewForbidden(secretKind, keyOf(1), errors.New("made to fail")): 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			_ = Retry(t.Context(), func() error {
				if tries++; tries < 3 {
					return err
				}
				return nil
			})
			if tries != want {
				t.Errorf("%v: %d tries, want %d", err, tries, want)
			}
		})
	}
}

package helmclient

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/csaupgrade"

	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
	"lockstep/kube/manifest"
)

// Method is how an operation updates existing objects. Its options are those of Helm's action. Client and DryRun both use
// them, with the same function of Helm, so a dry run sends what the operation will send.
type Method struct {
	// ClientSide sends the differences between manifests (client-side apply); Replace then sends whole objects.
	ClientSide, Replace bool
	// Force takes over fields from other managers.
	Force bool
	// Migrate first gives the fields of client-side apply to server-side apply.
	Migrate bool
	// Applied is the previous state of objects for client-side apply, nil for that of the old revision.
	Applied *manifest.Applied
	// Adopts takes the target itself as the previous state of an object that no revision has applied, as an install and an
	// upgrade do. A rollback takes the live object, and so removes the fields that the target lacks.
	Adopts bool
	// MergeCustom compares custom resources with the live object, too.
	MergeCustom bool
	// Adapter, if set, adapts each request to the live object at its time.
	Adapter Adapter `json:"-"`
}

// Options returns the options for Helm's Update.
func (m Method) Options() []helmkube.ClientUpdateOption {
	return []helmkube.ClientUpdateOption{
		helmkube.ClientUpdateOptionForceReplace(m.Replace),
		helmkube.ClientUpdateOptionServerSideApply(!m.ClientSide, m.Force),
		helmkube.ClientUpdateOptionThreeWayMergeForUnstructured(m.MergeCustom && m.ClientSide),
		helmkube.ClientUpdateOptionUpgradeClientSideFieldManager(m.Migrate && !m.ClientSide),
	}
}

// DryRun sends the update of an object as a dry run, and returns the object as the update would leave it. live is the object in
// the cluster, old the one in the manifest of the old revision, nil for none.
func (m Method) DryRun(ctx context.Context, helm *helmkube.Client, live *unstructured.Unstructured, old, target *resource.Info) (*unstructured.Unstructured, error) {
	if m.Adapter != nil && live != nil {
		return m.dryRunAdapted(ctx, helm, live, old, target)
	}
	if !m.Migrate || m.ClientSide || live == nil || !manifest.UpdatedByHelm(live) {
		return m.dryRun(helm, live, old, target)
	}
	migrated := live.DeepCopy()
	if err := csaupgrade.UpgradeManagedFields(migrated, sets.New(connect.FieldManager), connect.FieldManager); err != nil {
		return nil, err
	}
	return m.dryRunMigration(helm, live, migrated, old, target)
}

// dryRun returns the dry run of the updates that the client sends; originals has the objects of the old revision.
func (c *Client) dryRun(originals manifest.Index) func(i *resource.Info, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return func(i *resource.Info, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.cfg.Options.Method.DryRun(c.cfg.Context, c.cfg.Inner, live, originals.Get(i), i)
	}
}

// dryRun sends the update without a migration.
func (m Method) dryRun(helm *helmkube.Client, live *unstructured.Unstructured, old, target *resource.Info) (*unstructured.Unstructured, error) {
	sent := manifest.DryRun(target, live)
	var originals helmkube.ResourceList
	if live != nil {
		old = cmp.Or(m.Applied.Of(target, live.GetManagedFields()), old)
	}
	switch {
	case old != nil:
		originals = helmkube.ResourceList{manifest.DryRun(old, live)}
	case m.Adopts && live != nil:
		originals = helmkube.ResourceList{manifest.DryRun(target, live)}
	}
	if _, err := helm.Update(originals, helmkube.ResourceList{sent}, m.Options()...); err != nil {
		return nil, answer(err)
	}
	next, ok := sent.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, errors.New("the API server returned no object")
	}
	return next, nil
}

// answer returns the error of the API server in an error of Helm, which repeats the object and the request, or a *PatchError.
func answer(err error) error {
	err = asPatchError(err)
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		return status
	}
	return err
}

// PatchError is the error about an object for which client-side apply finds no patch, so no request is sent, or one that the
// API server cannot apply: two elements of a list that it tells apart by one field have the same value there, for example.
// The next try has the same result unless the live object or the manifest changes.
type PatchError struct{ error }

func (e *PatchError) Unwrap() error { return e.error }

func (e *PatchError) Error() string {
	why := e.error.Error()
	if _, after, found := strings.Cut(why, createPatch); found {
		why = after
	}
	why = strings.Join(strings.Fields(why), " ")
	if first, size := utf8.DecodeRuneInString(why); size > 0 {
		why = string(unicode.ToLower(first)) + why[size:]
	}
	return "client-side apply cannot compare the manifest with the object in the cluster: " + why + "; apply it with --server-side=true"
}

// createPatch is how an error of Helm starts that is a PatchError.
const createPatch = "failed to create patch: "

// asPatchError returns the *PatchError of an error of Helm; other errors as they are.
func asPatchError(err error) error {
	answer := apierrors.APIStatus(nil)
	switch {
	case errors.As(err, &answer) && connect.Unpatchable(answer.Status().Message):
		return &PatchError{errors.New(answer.Status().Message)}
	case err != nil && answer == nil && strings.Contains(err.Error(), createPatch):
		return &PatchError{err}
	}
	return err
}

// IsPatchError reports whether client-side apply finds no patch for an object.
func IsPatchError(err error) bool {
	e := (*PatchError)(nil)
	return errors.As(err, &e)
}

// MigrationError is a refusal of the prediction for an object that Helm migrates to server-side apply. The operation may
// pass: no dry run can contain both the migration and the apply.
type MigrationError struct{ error }

func (e *MigrationError) Unwrap() error { return e.error }

// dryRunMigration predicts the update of an object that Helm migrates to server-side apply (migrated): a dry run of the
// migration would have no effect on the dry run of the apply. Without it the object has old and new fields, which may be
// alternatives, such as two types of a volume. If the API server refuses that, the differences between the manifests are the
// prediction; if it refuses the object without the old fields, such as a Pod without the resources that a LimitRange gave it, that
// is. Only a conflict with another manager, or a value of a wrong type, is refused for certain.
func (m Method) dryRunMigration(helm *helmkube.Client, live, migrated *unstructured.Unstructured, old, target *resource.Info) (*unstructured.Unstructured, error) {
	next, err := m.applyMigrated(helm, live, migrated, old, target)
	if refused := (*MigrationError)(nil); isCertain(err) || errors.As(err, &refused) {
		return next, err
	}
	if old == nil && !m.Adopts {
		old = likeTarget(live, target)
	}
	next, err = Method{ClientSide: true, Adopts: m.Adopts, MergeCustom: true}.dryRun(helm, live, old, target)
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		return nil, &MigrationError{err}
	}
	return next, err
}

// likeTarget returns the live object with the metadata of the target and without a status: its fields that the target lacks
// are removed.
func likeTarget(live *unstructured.Unstructured, target *resource.Info) *resource.Info {
	out, object := *target, live.DeepCopy()
	delete(object.Object, "status")
	if u, ok := target.Object.(*unstructured.Unstructured); ok {
		object.Object["metadata"] = u.DeepCopy().Object["metadata"]
	}
	out.Object = object
	return &out
}

// isCertain reports whether a result of applyMigrated is what the update will return, too.
func isCertain(err error) bool {
	status := (*apierrors.StatusError)(nil)
	return !errors.As(err, &status) || diagnose.IsFieldConflict(err) || diagnose.LacksPermission(err) || connect.Mistyped(err.Error())
}

// applyMigrated sends the apply as a dry run. Conflicts with the fields to migrate do not count, and the fields that only
// they have are removed afterwards.
func (m Method) applyMigrated(helm *helmkube.Client, live, migrated *unstructured.Unstructured, old, target *resource.Info) (*unstructured.Unstructured, error) {
	m.Migrate = false
	if !m.Force {
		_, err := m.dryRun(helm, live, old, target)
		if err = withoutOwnConflicts(err); err != nil {
			return nil, err
		}
		m.Force = true
	}
	next, err := m.dryRun(helm, live, old, target)
	if err != nil {
		return nil, err
	}
	isApply := func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == connect.FieldManager && f.Operation == metav1.ManagedFieldsOperationApply
	}
	var before, after []metav1.ManagedFieldsEntry
	for _, f := range migrated.GetManagedFields() {
		if isApply(f) {
			before = append(before, f)
		} else {
			after = append(after, f)
		}
	}
	for _, f := range next.GetManagedFields() {
		if isApply(f) {
			after = append(after, f)
		}
	}
	if !manifest.Prune(next.Object, manifest.FieldsOf(before...), manifest.FieldsOfSecret(manifest.FieldsOf(after...), next)) {
		return next, nil
	}
	confirmed, err := confirm(helm, live, next, target)
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
		return nil, &MigrationError{err}
	}
	return confirmed, err
}

// withoutOwnConflicts drops the conflicts with Helm itself from an error.
func withoutOwnConflicts(err error) error {
	status := (*apierrors.StatusError)(nil)
	if !errors.As(err, &status) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return err
	}
	own := `conflict with "` + connect.FieldManager + `" using `
	others := status.ErrStatus.DeepCopy()
	others.Details.Causes = slices.DeleteFunc(others.Details.Causes, func(c metav1.StatusCause) bool {
		return len(c.Message) >= len(own) && c.Message[:len(own)] == own
	})
	if len(others.Details.Causes) == 0 {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: *others}
}

// confirm lets the API server check and complete a predicted object. It returns the prediction if the user may not
// replace the object, which the operation itself does not do.
func confirm(helm *helmkube.Client, live, next *unstructured.Unstructured, target *resource.Info) (*unstructured.Unstructured, error) {
	whole := *target
	whole.Object = next
	confirmed, err := Method{ClientSide: true, Replace: true}.dryRun(helm, live, nil, &whole)
	if apierrors.IsForbidden(err) || apierrors.IsConflict(err) {
		return next, nil
	}
	return confirmed, err
}

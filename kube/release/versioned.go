package release

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"

	"lockstep/engine/parallel"
	"lockstep/kube/lease"
)

// Helm's drivers overwrite a record even if it has changed. Ledger.Driver gives them a client that
// sends the resourceVersion from the ledger.

// Driver returns d with the ledger between it and the storage.
//
// A Secret or ConfigMap is written only if it has the known resourceVersion. An SQL database
// has no versions: the record is read before each write, and a change between the two is
// overwritten. Memory belongs to this process.
func (l *Ledger) Driver(d driver.Driver, c kubernetes.Interface, namespace string) driver.Driver {
	l.mu.Lock()
	l.newest = func() *rel1.Release { return newestIn(d, l.release) }
	l.mu.Unlock()
	switch d.(type) {
	case *driver.Secrets:
		return newDecodedDriver(func(listed func(string)) driver.Driver {
			return driver.NewSecrets(newSecrets(c.CoreV1().Secrets(namespace), l, listed))
		})
	case *driver.ConfigMaps:
		return newDecodedDriver(func(listed func(string)) driver.Driver {
			return driver.NewConfigMaps(newConfigMaps(c.CoreV1().ConfigMaps(namespace), l, listed))
		})
	case *driver.Memory:
		return d
	}
	return unversionedDriver{d, l}
}

// newestIn reads the newest revision of a release, nil if it cannot be read.
func newestIn(d driver.Driver, name string) *rel1.Release {
	rel, found, err := Last(storage.Init(d), name)
	if err != nil || !found || rel.Info == nil {
		return nil
	}
	return rel
}

// Records returns how to list the records of the ledger's release in a storage: their metadata, or the whole records if
// the storage is no Secrets or ConfigMaps.
func (l *Ledger) Records(s *storage.Storage, c metadata.Interface, resource, namespace string) Records {
	if resource == "" {
		return func(context.Context) (all Snapshots, err error) {
			history, err := s.History(l.release)
			for _, r := range history {
				if rel, err := AsV1(r); err == nil {
					all = append(all, snapshot{revision: rel.Version, status: rel.Info.Status})
				}
			}
			if errors.Is(err, driver.ErrReleaseNotFound) {
				err = nil
			}
			return all, err
		}
	}
	records := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(namespace)
	return func(ctx context.Context) (all Snapshots, err error) {
		if all, unchanged := l.recheck(ctx, records); unchanged {
			return all, nil
		}
		list, err := records.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{"owner": "helm", "name": l.release}.String()})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if s, ok := l.record(&o); ok {
				all = append(all, s)
			}
		}
		return all, nil
	}
}

// client is a typed client for Secrets or ConfigMaps.
type client[T metav1.Object, L runtime.Object] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// versionedClient is a client whose writes fail if a record no longer has the known resourceVersion.
type versionedClient[T metav1.Object, L runtime.Object] struct {
	client client[T, L]
	ledger *Ledger
	listed func(name string) // called for each record of a list
}

// secrets and configMaps are clients for Helm's drivers. The methods of versionedClient take
// precedence because those of the interfaces are embedded one level deeper.
type (
	secrets struct {
		versionedClient[*corev1.Secret, *corev1.SecretList]
		secretInterface
	}
	configMaps struct {
		versionedClient[*corev1.ConfigMap, *corev1.ConfigMapList]
		configMapInterface
	}
	secretInterface    struct{ typedcorev1.SecretInterface }
	configMapInterface struct{ typedcorev1.ConfigMapInterface }
)

func newSecrets(c typedcorev1.SecretInterface, l *Ledger, listed func(string)) secrets {
	return secrets{versionedClient[*corev1.Secret, *corev1.SecretList]{c, l, listed}, secretInterface{c}}
}

func newConfigMaps(c typedcorev1.ConfigMapInterface, l *Ledger, listed func(string)) configMaps {
	return configMaps{versionedClient[*corev1.ConfigMap, *corev1.ConfigMapList]{c, l, listed}, configMapInterface{c}}
}

// record returns the state of the record in an object. ok is false if the object is not a record of
// the release.
func (l *Ledger) record(o metav1.Object) (s snapshot, ok bool) {
	labels := o.GetLabels()
	revision, err := strconv.Atoi(labels["version"])
	status := rcommon.Status(labels["status"])
	return snapshot{revision, status, o.GetUID(), o.GetResourceVersion(), spanOf(o, status)}, err == nil && labels["name"] == l.release
}

func (l *Ledger) observeObject(o metav1.Object) error {
	if s, ok := l.record(o); ok {
		return l.observe(s)
	}
	return nil
}

func (v versionedClient[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	o, err := v.client.Get(ctx, name, opts)
	if err == nil {
		_ = v.ledger.observeObject(o) // the next write fails
	}
	return o, err
}

// List observes the latest record first, which gives the best message about changes by others.
func (v versionedClient[T, L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	shared, into := v.ledger.sharedRead(opts.LabelSelector)
	if list, ok := shared.(L); ok {
		return list, meta.EachListItem(list, func(o runtime.Object) error {
			v.listed(o.(metav1.Object).GetName())
			return nil
		})
	}
	began := v.ledger.last.now()
	list, err := v.client.List(ctx, opts)
	if err != nil {
		return list, err
	}
	var all []snapshot
	err = meta.EachListItem(list, func(o runtime.Object) error {
		v.listed(o.(metav1.Object).GetName())
		if s, ok := v.ledger.record(o.(metav1.Object)); ok {
			all = append(all, s)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b snapshot) int { return b.revision - a.revision })
	for _, s := range all {
		_ = v.ledger.observe(s) // the next write fails
	}
	if err == nil {
		v.ledger.keep(into, opts.LabelSelector, list, began)
	}
	return list, err
}

func (v versionedClient[T, L]) Create(ctx context.Context, o T, opts metav1.CreateOptions) (none T, _ error) {
	s, ok := v.ledger.record(o)
	if !ok {
		return v.client.Create(ctx, o, opts)
	}
	if _, err := v.ledger.beginWrite(s.revision, s.status); err != nil {
		return none, err
	}
	created, err := v.client.Create(ctx, o, opts)
	v.endWrite(s, created, err)
	if lost := (*lease.LostError)(nil); apierrors.IsAlreadyExists(err) && errors.As(v.readAgain(ctx, o.GetName(), 0), &lost) {
		return none, lost // it says whose record that is
	}
	return created, err
}

// endWrite records the result of a write. answer is the object in the response.
func (v versionedClient[T, L]) endWrite(sent snapshot, answer T, err error) {
	var stored snapshot
	if err == nil {
		stored, _ = v.ledger.record(answer)
	}
	v.ledger.endWrite(sent, stored, err)
}

// Update writes a record with the known resourceVersion. On a conflict it reads the record
// again and retries, unless its status shows that somebody else has changed it.
func (v versionedClient[T, L]) Update(ctx context.Context, o T, opts metav1.UpdateOptions) (none T, _ error) {
	s, ok := v.ledger.record(o)
	if !ok {
		return v.client.Update(ctx, o, opts)
	}
	known := v.ledger.knows(s.revision)
	for tries := 0; ; tries++ {
		if known || tries > 0 {
			e, err := v.ledger.beginWrite(s.revision, s.status)
			if err != nil {
				return none, err
			}
			o.SetUID(e.uid)
			o.SetResourceVersion(e.version)
			updated, err := v.client.Update(ctx, o, opts)
			v.endWrite(s, updated, err)
			if !apierrors.IsConflict(err) {
				return updated, err
			}
		}
		if err := v.readAgain(ctx, o.GetName(), tries); err != nil {
			return none, err
		}
	}
}

// Delete deletes a record with the known UID and resourceVersion.
func (v versionedClient[T, L]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	revision, ok := v.ledger.revisionOf(name)
	if !ok {
		return v.client.Delete(ctx, name, opts)
	}
	for tries := 1; ; tries++ {
		e, err := v.ledger.beginDelete(revision)
		if err != nil {
			return err
		}
		if e.uid != "" {
			opts.Preconditions = &metav1.Preconditions{UID: &e.uid, ResourceVersion: &e.version}
		}
		if err = v.client.Delete(ctx, name, opts); err == nil {
			v.ledger.endDelete(revision)
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := v.readAgain(ctx, name, tries); err != nil {
			return err
		}
	}
}

// maxConflictPause limits the pause between two writes of a record that are refused with a conflict although nobody
// changes it, as a webhook or a proxy may do for a while.
const maxConflictPause = time.Second

// readAgain reads and observes a record, from the second conflict on after a pause. It returns an error if that fails, or if
// somebody else has changed the record.
func (v versionedClient[T, L]) readAgain(ctx context.Context, name string, conflicts int) error {
	if conflicts > 1 {
		if err := parallel.Sleep(ctx, min(maxConflictPause, 10*time.Millisecond<<min(conflicts, 10))); err != nil {
			return err
		}
	}
	o, err := v.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return v.ledger.observeObject(o)
}

// revisionOf returns the revision in the name of a record of the release.
func (l *Ledger) revisionOf(name string) (revision int, ok bool) {
	number, ok := strings.CutPrefix(name, "sh.helm.release.v1."+l.release+".v")
	revision, err := strconv.Atoi(number)
	return revision, ok && err == nil
}

// unversionedDriver is a driver for a storage without resource versions.
type unversionedDriver struct {
	driver.Driver
	ledger *Ledger
}

func (u unversionedDriver) observe(r release.Releaser) error {
	if rel, ok := r.(*rel1.Release); ok && rel.Name == u.ledger.release && rel.Info != nil {
		return u.ledger.observe(snapshot{revision: rel.Version, status: rel.Info.Status})
	}
	return nil
}

func (u unversionedDriver) Get(key string) (release.Releaser, error) {
	r, err := u.Driver.Get(key)
	if err == nil {
		_ = u.observe(r)
	}
	return r, err
}

func (u unversionedDriver) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := u.Driver.Query(labels)
	for _, r := range list {
		if err == nil && u.observe(r) != nil {
			break // the next write fails
		}
	}
	return list, err
}

func (u unversionedDriver) Create(key string, r release.Releaser) error {
	return u.write(r, func() error { return u.Driver.Create(key, r) })
}

func (u unversionedDriver) Update(key string, r release.Releaser) error {
	stored, err := u.Driver.Get(key)
	if err != nil {
		return err
	}
	if err := u.observe(stored); err != nil {
		return err
	}
	return u.write(r, func() error { return u.Driver.Update(key, r) })
}

func (u unversionedDriver) write(r release.Releaser, do func() error) error {
	rel, err := AsV1(r)
	if err != nil {
		return err
	}
	sent := snapshot{revision: rel.Version, status: rel.Info.Status}
	if _, err := u.ledger.beginWrite(sent.revision, sent.status); err != nil {
		return err
	}
	err = do()
	u.ledger.endWrite(sent, snapshot{}, err)
	return err
}

func (u unversionedDriver) Delete(key string) (release.Releaser, error) {
	stored, err := u.Get(key)
	if err != nil {
		return nil, err
	}
	rel, err := AsV1(stored)
	if err != nil {
		return nil, err
	}
	if _, err := u.ledger.beginDelete(rel.Version); err != nil {
		return nil, err
	}
	r, err := u.Driver.Delete(key)
	if err == nil {
		u.ledger.endDelete(rel.Version)
	}
	return r, err
}

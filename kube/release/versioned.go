package release

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Helm's drivers overwrite a record even if it has changed. Driver gives them a client that
// sends the resourceVersion from the ledger.

// Driver returns d with the ledger between it and the storage.
//
// A Secret or ConfigMap is written only if it has the known resourceVersion. An SQL database
// has no versions: the record is read before each write, and a change between the two is
// overwritten. Memory belongs to this process.
func (l *Ledger) Driver(d driver.Driver, c kubernetes.Interface, namespace string) driver.Driver {
	switch d.(type) {
	case *driver.Secrets:
		return driver.NewSecrets(secrets{c.CoreV1().Secrets(namespace), l})
	case *driver.ConfigMaps:
		return driver.NewConfigMaps(configMaps{c.CoreV1().ConfigMaps(namespace), l})
	case *driver.Memory:
		return d
	}
	return unversioned{d, l}
}

// client is a typed client for Secrets or ConfigMaps.
type client[T metav1.Object] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// record returns the state of the record in an object. ok is false for an object that is not a
// record of the release.
func (l *Ledger) record(o metav1.Object) (s snapshot, ok bool) {
	labels := o.GetLabels()
	revision, err := strconv.Atoi(labels["version"])
	return snapshot{revision, rcommon.Status(labels["status"]), o.GetUID(), o.GetResourceVersion()}, err == nil && labels["name"] == l.release
}

func (l *Ledger) observeObject(o metav1.Object) error {
	if s, ok := l.record(o); ok {
		return l.observe(s)
	}
	return nil
}

// observeAll observes all records of a list, the latest first, which gives the best message
// about foreign changes.
func observeAll[P interface {
	*T
	metav1.Object
}, T any](l *Ledger, items []T) {
	var all []snapshot
	for i := range items {
		if s, ok := l.record(P(&items[i])); ok {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b snapshot) int { return b.revision - a.revision })
	for _, s := range all {
		_ = l.observe(s) // the next write fails
	}
}

func get[T metav1.Object](ctx context.Context, l *Ledger, c client[T], name string, opts metav1.GetOptions) (T, error) {
	o, err := c.Get(ctx, name, opts)
	if err == nil {
		_ = l.observeObject(o) // the next write fails
	}
	return o, err
}

func create[T metav1.Object](ctx context.Context, l *Ledger, c client[T], o T, opts metav1.CreateOptions) (T, error) {
	s, ok := l.record(o)
	if !ok {
		return c.Create(ctx, o, opts)
	}
	if _, err := l.beginWrite(s.revision, s.status); err != nil {
		var none T
		return none, err
	}
	created, err := c.Create(ctx, o, opts)
	l.endObjectWrite(s, created, err)
	return created, err
}

// endObjectWrite records the result of a write. answer is the object in the response.
func (l *Ledger) endObjectWrite(sent snapshot, answer metav1.Object, err error) {
	var stored snapshot
	if err == nil {
		stored, _ = l.record(answer)
	}
	l.endWrite(sent, stored, err)
}

// update writes a record with the known resourceVersion. On a conflict it reads the record
// again and retries, unless its status shows that somebody else has changed it.
func update[T metav1.Object](ctx context.Context, l *Ledger, c client[T], o T, opts metav1.UpdateOptions) (none T, _ error) {
	s, ok := l.record(o)
	if !ok {
		return c.Update(ctx, o, opts)
	}
	for known := l.knows(s.revision); ; known = true {
		if known {
			e, err := l.beginWrite(s.revision, s.status)
			if err != nil {
				return none, err
			}
			o.SetUID(e.uid)
			o.SetResourceVersion(e.version)
			updated, err := c.Update(ctx, o, opts)
			l.endObjectWrite(s, updated, err)
			if !apierrors.IsConflict(err) {
				return updated, err
			}
		}
		if err := readAgain(ctx, l, c, o.GetName()); err != nil {
			return none, err
		}
	}
}

// remove deletes a record with the known UID and resourceVersion.
func remove[T metav1.Object](ctx context.Context, l *Ledger, c client[T], name string, opts metav1.DeleteOptions) error {
	revision, ok := l.revisionOf(name)
	if !ok {
		return c.Delete(ctx, name, opts)
	}
	for {
		e, err := l.beginDelete(revision)
		if err != nil {
			return err
		}
		if e.uid != "" {
			opts.Preconditions = &metav1.Preconditions{UID: &e.uid, ResourceVersion: &e.version}
		}
		if err = c.Delete(ctx, name, opts); err == nil {
			l.endDelete(revision)
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := readAgain(ctx, l, c, name); err != nil {
			return err
		}
	}
}

// readAgain reads and observes a record. It also returns an error if somebody else has changed
// the record.
func readAgain[T metav1.Object](ctx context.Context, l *Ledger, c client[T], name string) error {
	o, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return l.observeObject(o)
}

// revisionOf returns the revision in the name of a record of the release.
func (l *Ledger) revisionOf(name string) (revision int, ok bool) {
	number, ok := strings.CutPrefix(name, "sh.helm.release.v1."+l.release+".v")
	revision, err := strconv.Atoi(number)
	return revision, ok && err == nil
}

// secrets and configMaps are clients for Helm's drivers.
type secrets struct {
	typedcorev1.SecretInterface
	ledger *Ledger
}

func (s secrets) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error) {
	return get(ctx, s.ledger, s.SecretInterface, name, opts)
}

func (s secrets) List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error) {
	list, err := s.SecretInterface.List(ctx, opts)
	if err == nil {
		observeAll[*corev1.Secret](s.ledger, list.Items)
	}
	return list, err
}

func (s secrets) Create(ctx context.Context, o *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error) {
	return create(ctx, s.ledger, s.SecretInterface, o, opts)
}

func (s secrets) Update(ctx context.Context, o *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error) {
	return update(ctx, s.ledger, s.SecretInterface, o, opts)
}

func (s secrets) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return remove(ctx, s.ledger, s.SecretInterface, name, opts)
}

type configMaps struct {
	typedcorev1.ConfigMapInterface
	ledger *Ledger
}

func (c configMaps) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.ConfigMap, error) {
	return get(ctx, c.ledger, c.ConfigMapInterface, name, opts)
}

func (c configMaps) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	list, err := c.ConfigMapInterface.List(ctx, opts)
	if err == nil {
		observeAll[*corev1.ConfigMap](c.ledger, list.Items)
	}
	return list, err
}

func (c configMaps) Create(ctx context.Context, o *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	return create(ctx, c.ledger, c.ConfigMapInterface, o, opts)
}

func (c configMaps) Update(ctx context.Context, o *corev1.ConfigMap, opts metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	return update(ctx, c.ledger, c.ConfigMapInterface, o, opts)
}

func (c configMaps) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return remove(ctx, c.ledger, c.ConfigMapInterface, name, opts)
}

// unversioned is a driver for a storage without resource versions.
type unversioned struct {
	driver.Driver
	ledger *Ledger
}

func (u unversioned) observe(list ...release.Releaser) (err error) {
	for _, r := range list {
		if rel, ok := r.(*rel1.Release); ok && rel.Name == u.ledger.release && rel.Info != nil && err == nil {
			err = u.ledger.observe(snapshot{revision: rel.Version, status: rel.Info.Status})
		}
	}
	return err
}

func (u unversioned) Get(key string) (release.Releaser, error) {
	r, err := u.Driver.Get(key)
	if err == nil {
		_ = u.observe(r)
	}
	return r, err
}

func (u unversioned) Query(labels map[string]string) ([]release.Releaser, error) {
	list, err := u.Driver.Query(labels)
	if err == nil {
		_ = u.observe(list...)
	}
	return list, err
}

func (u unversioned) Create(key string, r release.Releaser) error {
	return u.write(r, func() error { return u.Driver.Create(key, r) })
}

func (u unversioned) Update(key string, r release.Releaser) error {
	stored, err := u.Driver.Get(key)
	if err != nil {
		return err
	}
	if err := u.observe(stored); err != nil {
		return err
	}
	return u.write(r, func() error { return u.Driver.Update(key, r) })
}

func (u unversioned) write(r release.Releaser, do func() error) error {
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

func (u unversioned) Delete(key string) (release.Releaser, error) {
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

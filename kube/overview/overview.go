// Package overview follows the releases of a namespace, or of all, with as many requests for one release as for a thousand: one
// list and one watch of the records' metadata, one list of the records that are wanted, and one list and one watch for each kind
// of their objects. Its central types are Overview and Release. Only package kube imports it.
package overview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"lockstep/kube/connect"
)

// Key identifies a release.
type Key struct{ Namespace, Name string }

// Release is the latest revision of a release, as the metadata of its record describes it.
type Release struct {
	Key
	Revision int
	Status   string
	Changed  time.Time
}

// Overview follows the releases of a namespace. Follow is called once.
type Overview struct {
	client    *connect.Client
	namespace string // "" for all

	mu      sync.Mutex
	records map[recordKey]Release
}

type recordKey struct {
	Key
	revision int
}

// New returns an Overview of a namespace, "" for all.
func New(c *connect.Client, namespace string) *Overview {
	return &Overview{client: c, namespace: namespace, records: map[recordKey]Release{}}
}

// ErrStorage is the error about releases that are not stored in Secrets or ConfigMaps.
var ErrStorage = errors.New("releases can only be listed here if Helm stores them in Secrets or ConfigMaps (HELM_DRIVER)")

// superseded revisions are not listed: they are never the latest, and most records are theirs.
const selector = "owner=helm,status!=superseded"

// Follow calls changed with the releases after each change until ctx is done. away is the error of the last request, nil if
// it succeeded.
func (o *Overview) Follow(ctx context.Context, changed func(releases []Release, away error)) error {
	resource := connect.RecordResource(connect.StorageDriver())
	if resource == "" {
		return ErrStorage
	}
	records := o.client.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(o.namespace)
	for delay := minDelay; ; {
		list, err := records.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			delay = minDelay
			o.replace(list.Items)
			changed(o.latest(), nil)
			var w watch.Interface
			if w, err = records.Watch(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true}); err == nil {
				err = o.consume(ctx, w, func() { changed(o.latest(), nil) })
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("list the releases: %w", err)
		}
		if err != nil {
			changed(o.latest(), err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
		delay = min(2*delay, maxDelay)
	}
}

// The time between attempts while the API server cannot be reached.
const (
	minDelay = time.Second
	maxDelay = 10 * time.Second
)

// consume applies the events of a watch until it ends. A watch that the server ended is no error.
func (o *Overview) consume(ctx context.Context, w watch.Interface, changed func()) error {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			switch e.Type {
			case watch.Error:
				return nil // expired: it is listed again
			case watch.Added, watch.Modified, watch.Deleted:
				if m, ok := e.Object.(metav1.Object); ok {
					o.apply(m, e.Type == watch.Deleted)
					changed()
				}
			}
		}
	}
}

func (o *Overview) replace(items []metav1.PartialObjectMetadata) {
	o.mu.Lock()
	clear(o.records)
	o.mu.Unlock()
	for i := range items {
		o.apply(&items[i], false)
	}
}

// apply adds or removes a record. A revision that becomes superseded leaves the selection, which the server reports as deleted.
func (o *Overview) apply(m metav1.Object, deleted bool) {
	labels := m.GetLabels()
	revision, err := strconv.Atoi(labels["version"])
	if err != nil || labels["name"] == "" {
		return
	}
	r := Release{Key: Key{m.GetNamespace(), labels["name"]}, Revision: revision, Status: labels["status"], Changed: m.GetCreationTimestamp().Time}
	for _, at := range []string{"createdAt", "modifiedAt"} {
		if seconds, err := strconv.ParseInt(labels[at], 10, 64); err == nil {
			r.Changed = time.Unix(seconds, 0)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := recordKey{r.Key, revision}
	if deleted {
		delete(o.records, key)
	} else {
		o.records[key] = r
	}
}

// latest returns the latest revision of each release, sorted by namespace and name.
func (o *Overview) latest() []Release {
	o.mu.Lock()
	defer o.mu.Unlock()
	byKey := map[Key]Release{}
	for _, r := range o.records {
		if r.Revision > byKey[r.Key].Revision {
			byKey[r.Key] = r
		}
	}
	return slices.SortedFunc(maps.Values(byKey), func(a, b Release) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

package overview

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	rel1 "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"lockstep/engine/parallel"
	"lockstep/kube/connect"
)

// record is the metadata of a release's record.
type record struct {
	Release
	name string // of the Secret or the ConfigMap
}

// recordKey identifies a revision.
type recordKey struct {
	Key
	revision int
}

func (r record) key() recordKey { return recordKey{r.Key, r.Revision} }

// recordSelector omits superseded revisions: they are never the latest, and most records are theirs.
const recordSelector = "owner=helm,status!=superseded"

// recordResource returns the resource of the records.
func recordResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: connect.RecordResource(connect.StorageDriver())}
}

// The time between attempts to list the records.
const (
	minDelay = time.Second
	maxDelay = 10 * time.Second
)

// watchSeconds is how long a watch lasts; the API server's own limit is random.
const watchSeconds = 600

// followRecords keeps the metadata of the records up to date until ctx is done. It returns an error if they may not be read.
func (o *Overview) followRecords(ctx context.Context, c *connect.Client) error {
	if recordResource().Resource == "" {
		return ErrStorage
	}
	records := c.Metadata.Resource(recordResource()).Namespace(o.namespace)
	for delay := minDelay; ctx.Err() == nil; delay = min(2*delay, maxDelay) {
		list, err := records.List(ctx, metav1.ListOptions{LabelSelector: recordSelector})
		if err == nil {
			delay = minDelay
			o.replace(list.Items)
			version := list.ResourceVersion
			for err == nil && version != "" && ctx.Err() == nil {
				var w watch.Interface
				w, err = records.Watch(ctx, metav1.ListOptions{LabelSelector: recordSelector, ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(watchSeconds))})
				if err == nil {
					version = o.consume(ctx, w, version)
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsForbidden(err):
			return fmt.Errorf("list the releases: %w", err)
		case err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			if why := c.CheckReachable(ctx); why != nil { // it says what to check
				err = why
			}
			o.setAway(err)
		}
		_ = parallel.Sleep(ctx, delay)
	}
	return nil
}

// consume applies the events of a watch until it ends. It returns the version for the next one, "" if the records must be
// listed again.
func (o *Overview) consume(ctx context.Context, w watch.Interface, version string) string {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case e, ok := <-w.ResultChan():
			m, isObject := e.Object.(metav1.Object)
			switch {
			case !ok:
				return version
			case e.Type == watch.Error || !isObject:
				return ""
			case e.Type != watch.Bookmark:
				o.mu.Lock()
				o.apply(m, e.Type == watch.Deleted)
				o.mu.Unlock()
				o.recordsChanged()
			}
			version = m.GetResourceVersion()
		}
	}
}

// replace takes a complete list of the records.
func (o *Overview) replace(items []metav1.PartialObjectMetadata) {
	o.mu.Lock()
	clear(o.records)
	for i := range items {
		o.apply(&items[i], false)
	}
	o.listed, o.away = true, nil
	o.mu.Unlock()
	o.recordsChanged()
}

func (o *Overview) recordsChanged() {
	signal(o.changed)
	signal(o.wants) // a new revision may be wanted
}

// apply adds or removes a record. A revision that becomes superseded counts as deleted, because it no longer matches the
// selector. The caller holds the lock.
func (o *Overview) apply(m metav1.Object, deleted bool) {
	labels := m.GetLabels()
	revision, err := strconv.Atoi(labels["version"])
	if err != nil || labels["name"] == "" {
		return
	}
	r := record{name: m.GetName(), Release: Release{Key: Key{m.GetNamespace(), labels["name"]}, Revision: revision, Status: labels["status"], Changed: m.GetCreationTimestamp().Time}}
	// Helm copies the label from the revision before.
	if seconds, err := strconv.ParseInt(labels["modifiedAt"], 10, 64); err == nil && time.Unix(seconds, 0).After(r.Changed) {
		r.Changed = time.Unix(seconds, 0)
	}
	if deleted {
		delete(o.records, r.key())
	} else {
		o.records[r.key()] = r
	}
}

// maxNames is how many records one request asks for: a selector must fit into a URL.
const maxNames = 100

// missing returns the wanted records whose content is not known yet, at most maxNames.
func (o *Overview) missing() (missing []record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	latest := o.latest()
	for _, k := range o.wanted {
		if r, ok := latest[k]; ok && o.details[r.key()] == nil && len(missing) < maxNames {
			missing = append(missing, r)
		}
	}
	return missing
}

// read reads the content of records in one request.
func (o *Overview) read(ctx context.Context, c *connect.Client, records []record) (map[recordKey]*rel1.Release, error) {
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.Name
	}
	selector := recordSelector + ",name in (" + strings.Join(names, ",") + ")"
	list, err := c.Dynamic.Resource(recordResource()).Namespace(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("read the release records: %w", err)
	}
	found := map[recordKey]*rel1.Release{}
	for i := range list.Items {
		if rel, err := decode(&list.Items[i]); err == nil { // a damaged record stays unknown
			found[recordKey{Key{list.Items[i].GetNamespace(), rel.Name}, rel.Version}] = rel
		}
	}
	return found, nil
}

// decode returns the release in a Secret or ConfigMap, as Helm writes it: JSON, compressed, in base64.
func decode(u *unstructured.Unstructured) (*rel1.Release, error) {
	text, _, err := unstructured.NestedString(u.Object, "data", "release")
	if err != nil {
		return nil, err
	}
	content := []byte(text)
	for range map[string]int{"ConfigMap": 1, "Secret": 2}[u.GetKind()] { // the data of a Secret are in base64, too
		if content, err = base64.StdEncoding.AppendDecode(nil, content); err != nil {
			return nil, err
		}
	}
	if zipped, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
		if content, err = io.ReadAll(zipped); err != nil {
			return nil, err
		}
	}
	rel := &rel1.Release{}
	if err := json.Unmarshal(content, rel); err != nil {
		return nil, err
	}
	return rel, nil
}

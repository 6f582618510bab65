package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"lockstep/kube/connect"
)

// listThreshold is the number of objects of one kind and namespace at which one list request is
// cheaper than a GET for each.
const listThreshold = 4

// maxGets is the number of parallel GETs.
const maxGets = 32

// Snapshot caches list responses by kind and namespace, because Helm builds manifests up to three
// times before it writes. The zero value is ready to use; nil caches nothing.
type Snapshot struct{ lists sync.Map } // objectsByName by listKey

// objectsByName are the objects in a list response.
type objectsByName map[string]*metav1.PartialObjectMetadata

// listKey is a kind in a namespace.
type listKey struct {
	gvr       schema.GroupVersionResource
	namespace string
}

func (s *Snapshot) get(k listKey) objectsByName {
	if s == nil {
		return nil
	}
	found, _ := s.lists.Load(k)
	objects, _ := found.(objectsByName)
	return objects
}

func (s *Snapshot) put(k listKey, found objectsByName) {
	if s != nil {
		s.lists.Store(k, found)
	}
}

// Prefetch reads the metadata of a list's objects: with one list request per kind and namespace, or
// with parallel GETs if there are few objects or listing is forbidden. The Infos then answer the
// GETs with which Helm checks owners, one by one. GETs for objects that could not be read still go
// to the server. Prefetch does not repeat list requests that are in the snapshot. Objects of kinds
// that the cluster does not have yet are answered as not found: a GET would use a guessed resource,
// for which the user may have no permission.
//
// After DropPrefetched, GETs go to the server again.
func (b *Builder) Prefetch(ctx context.Context, list helmkube.ResourceList, snapshot *Snapshot) {
	infos := map[listKey]helmkube.ResourceList{}
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || f.Generated || f.unreadable {
			continue
		}
		if f.Late {
			answer(i, nil, f)
			f.before, f.seen = Before{}, Seen{}
			continue
		}
		k := listKey{i.Mapping.Resource, i.Namespace}
		infos[k] = append(infos[k], i)
	}
	p := &prefetcher{Builder: b, snapshot: snapshot, slots: make(chan struct{}, maxGets)}
	for k, list := range infos {
		if len(list) < listThreshold {
			p.get(ctx, list)
			continue
		}
		p.wg.Go(func() { p.list(ctx, k, list) })
	}
	p.wg.Wait()
}

// prefetcher reads the metadata of objects in parallel.
type prefetcher struct {
	*Builder
	snapshot *Snapshot
	slots    chan struct{} // one for each GET in flight
	wg       sync.WaitGroup
}

// Read is like Prefetch for one object. It returns an error unless it knows whether the object exists.
func (b *Builder) Read(ctx context.Context, i *resource.Info) error {
	found, err := b.client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		answer(i, found, b.Fact(i))
		return nil
	}
	return err
}

// get starts a GET for each object of a list.
func (p *prefetcher) get(ctx context.Context, list helmkube.ResourceList) {
	for _, i := range list {
		p.wg.Go(func() {
			p.slots <- struct{}{}
			defer func() { <-p.slots }()
			p.Fact(i).unreadable = apierrors.IsForbidden(p.Read(ctx, i))
		})
	}
}

// list reads the objects of a list from the snapshot or with a list request. If listing is
// forbidden, it calls get.
func (p *prefetcher) list(ctx context.Context, k listKey, list helmkube.ResourceList) {
	found := p.snapshot.get(k)
	if found == nil {
		found = objectsByName{}
		err := p.listMetadata(ctx, k, "", func(m *metav1.PartialObjectMetadata) { found[m.Name] = m })
		if apierrors.IsForbidden(err) {
			p.get(ctx, list)
		}
		if err != nil {
			return
		}
		p.snapshot.put(k, found)
	}
	for _, i := range list {
		answer(i, found[i.Name], p.Fact(i))
	}
}

// MarkUnreadable makes Prefetch skip the objects of APIs that are not served yet.
func (b *Builder) MarkUnreadable(list helmkube.ResourceList, apis []schema.GroupVersion) {
	for _, i := range list {
		if f := b.Fact(i); f != nil && slices.Contains(apis, i.Mapping.GroupVersionKind.GroupVersion()) {
			f.unreadable = true
		}
	}
}

// AssumeAbsent makes the Infos of unreadable objects answer GETs with not found, for planning. The
// checks of preflight report missing permissions.
func (b *Builder) AssumeAbsent(list helmkube.ResourceList) {
	for _, i := range list {
		if f := b.Fact(i); f != nil && f.unreadable {
			answer(i, nil, f)
			f.before, f.seen = Before{Known: f.Late}, Seen{}
		}
	}
}

// listMetadata calls each with the metadata of all objects of a kind in a namespace.
func (b *Builder) listMetadata(ctx context.Context, k listKey, labels string, each func(*metav1.PartialObjectMetadata)) error {
	return connect.EachObject(ctx, b.client.Metadata.Resource(k.gvr).Namespace(k.namespace), labels, each)
}

// answer makes an Info answer GETs with the metadata found, or with not found if that is nil, and
// records the state of the object in f.
func answer(i *resource.Info, found *metav1.PartialObjectMetadata, f *Fact) {
	if found != nil && found.Name == "" {
		found = nil
	}
	client := &prefetchedClient{RESTClient: i.Client, mapping: i.Mapping, name: i.Name, found: found}
	i.Client, f.prefetched = client, client
	f.setBefore(found)
	if f.seen.Migrates {
		f.prefetched = nil
	}
}

// setBefore records the state of the object before the operation, nil if it does not exist.
func (f *Fact) setBefore(found *metav1.PartialObjectMetadata) {
	if f.SetAbsent(); found != nil {
		f.seen = SeenAs(found)
		f.before = Before{
			Known: true, Version: found.ResourceVersion, Terminating: found.DeletionTimestamp != nil,
			uid: found.UID, generation: found.Generation, fields: entriesOfHelm(found), owned: ownedByHelm(found), readAt: time.Now(),
		}
	}
}

// ReadLate reads the state of a late object before its apply, once its kind is served. The state
// remains unknown if that fails.
func (b *Builder) ReadLate(ctx context.Context, i *resource.Info) {
	found, err := b.client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found, err = nil, nil
	}
	if err == nil {
		b.Fact(i).setBefore(found)
	}
}

// Look reads what the next write of an object must find (Fact.Seen).
func (b *Builder) Look(ctx context.Context, i *resource.Info) error {
	found, err := b.client.Metadata.Resource(i.Mapping.Resource).Namespace(i.Namespace).Get(ctx, i.Name, metav1.GetOptions{})
	switch f := b.Fact(i); {
	case err == nil:
		f.see(found)
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		f.see(nil)
	default:
		return fmt.Errorf("read the owner of %s: %w", i.ObjectName(), err)
	}
	return nil
}

// updatedByHelm reports whether Helm manages fields of an object by an update instead of
// server-side apply. Helm then migrates them and needs the whole object.
func updatedByHelm(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == connect.FieldManager && m.Operation == metav1.ManagedFieldsOperationUpdate
	})
}

// Recall makes an object's Infos answer GETs from the prefetched metadata again, for one apply: Helm
// only checks whether the object exists and how it was applied, and the apply requires that the
// object is still the same (Require). If the object was updated without server-side apply, GETs go to
// the server. The caller must call done after the apply.
func (f *Fact) Recall(infos ...*resource.Info) (done func()) {
	prefetched := f.prefetched
	f.prefetched = nil
	if prefetched == nil {
		return func() {}
	}
	for _, i := range infos {
		client := *prefetched
		client.RESTClient = i.Client
		i.Client = &client
	}
	return func() { DropPrefetched(infos) }
}

// DropPrefetched makes the Infos of the lists send GETs to the server again.
func DropPrefetched(lists ...helmkube.ResourceList) {
	for _, l := range lists {
		for _, i := range l {
			if c, ok := i.Client.(*prefetchedClient); ok {
				i.Client = c.RESTClient
			}
		}
	}
}

// prefetchedClient is a REST client that answers GETs from memory.
type prefetchedClient struct {
	resource.RESTClient
	mapping *meta.RESTMapping
	name    string
	found   *metav1.PartialObjectMetadata // nil for not found
	whole   *unstructured.Unstructured    // set if the whole object was read; answered instead of found
}

// Get returns a request that is answered in the process. Nothing encodes or decodes the answer,
// because Helm may request each of a thousand objects two or three times.
func (c *prefetchedClient) Get() *rest.Request {
	return rest.NewRequestWithClient(&url.URL{Scheme: "https", Host: "known.invalid"}, "/",
		rest.ClientContentConfig{ContentType: runtime.ContentTypeJSON, GroupVersion: c.mapping.GroupVersionKind.GroupVersion(), Negotiator: prefetchedAnswer{c}},
		&http.Client{Transport: c})
}

// RoundTrip returns a response with an empty object. prefetchedAnswer.Decode ignores it and returns the
// metadata.
func (c *prefetchedClient) RoundTrip(r *http.Request) (*http.Response, error) {
	code := http.StatusOK
	if c.found == nil && c.whole == nil {
		code = http.StatusNotFound
	}
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// prefetchedAnswer is the negotiator and the decoder of a prefetchedClient's responses.
type prefetchedAnswer struct{ client *prefetchedClient }

func (a prefetchedAnswer) Encoder(string, map[string]string) (runtime.Encoder, error) {
	return nil, errOnlyGet
}

func (a prefetchedAnswer) Decoder(string, map[string]string) (runtime.Decoder, error) { return a, nil }

func (a prefetchedAnswer) StreamDecoder(string, map[string]string) (runtime.Decoder, runtime.Serializer, runtime.Framer, error) {
	return nil, nil, nil, errOnlyGet
}

var errOnlyGet = errors.New("prefetched metadata can only answer GET requests")

// Decode returns the metadata as the API server would. Helm needs nothing else to check the
// owners of objects and fields.
func (a prefetchedAnswer) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if whole := a.client.whole; whole != nil {
		return whole.DeepCopy(), &a.client.mapping.GroupVersionKind, nil
	}
	if a.client.found == nil {
		missing := apierrors.NewNotFound(a.client.mapping.Resource.GroupResource(), a.client.name).Status()
		return &missing, &schema.GroupVersionKind{Version: "v1", Kind: "Status"}, nil
	}
	gvk, found := a.client.mapping.GroupVersionKind, a.client.found.DeepCopy()
	found.SetGroupVersionKind(gvk)
	return found, &gvk, nil
}

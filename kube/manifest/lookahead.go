package manifest

import (
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"

	"lockstep/kube/connect"
)

// worthListing is the number of objects of one kind and namespace from which
// on one list costs less than a GET for each.
const worthListing = 4

// atOnce is how many objects are asked for at the same time.
const atOnce = 32

// Snapshot is what lists have told of the objects of kinds and namespaces. Helm has a
// manifest built to see whether it is valid, then what is there, then what is to be,
// and only then does something: one list tells all three how it is. Its zero value is
// ready to use; nil keeps nothing.
type Snapshot struct {
	mu     sync.Mutex
	places map[place]map[string]*metav1.PartialObjectMetadata
}

// place is where objects are looked for.
type place struct {
	gvr       schema.GroupVersionResource
	namespace string
}

func (s *Snapshot) of(p place) map[string]*metav1.PartialObjectMetadata {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[p]
}

func (s *Snapshot) keep(p place, found map[string]*metav1.PartialObjectMetadata) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil {
		s.places = map[place]map[string]*metav1.PartialObjectMetadata{}
	}
	s.places[p] = found
}

// LookAhead asks once per kind and namespace for the metadata of all objects
// (of a few objects, or where listing is forbidden, for each, side by side) and answers from it the GETs that
// Helm sends one after the other to see who owns an object. Where that is
// forbidden, the GETs go to the server as ever. What has been listed in the snapshot is
// not listed again. There are no objects of a kind that the cluster does not know yet, and
// a GET would be about a resource that is only guessed: the user may have no right to it.
//
// Unlook undoes it: from then on GETs see the cluster.
func (b *Builder) LookAhead(ctx context.Context, list helmkube.ResourceList, snapshot *Snapshot) {
	infos := map[place]helmkube.ResourceList{}
	for _, i := range list {
		f := b.Fact(i)
		if f == nil || f.Generated || f.hidden {
			continue
		}
		if f.Late {
			answer(i, nil, f)
			f.before = Before{}
			continue
		}
		p := place{i.Mapping.Resource, i.Namespace}
		infos[p] = append(infos[p], i)
	}
	var wg sync.WaitGroup
	free := make(chan struct{}, atOnce)
	get := func(p place, list helmkube.ResourceList) {
		for _, i := range list {
			wg.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				found, err := b.client.Metadata.Resource(p.gvr).Namespace(p.namespace).Get(ctx, i.Name, metav1.GetOptions{})
				if b.Fact(i).hidden = apierrors.IsForbidden(err); err == nil || apierrors.IsNotFound(err) {
					answer(i, found, b.Fact(i))
				}
			})
		}
	}
	for p, list := range infos {
		if len(list) < worthListing {
			get(p, list)
			continue
		}
		wg.Go(func() {
			found, err := snapshot.of(p), error(nil)
			if found == nil {
				found, err = b.listMetadata(ctx, p)
			}
			switch {
			case apierrors.IsForbidden(err):
				get(p, list)
				return
			case err != nil:
				return
			}
			snapshot.keep(p, found)
			for _, i := range list {
				answer(i, found[i.Name], b.Fact(i))
			}
		})
	}
	wg.Wait()
}

// Hide notes that objects of APIs cannot be looked at, since nobody serves them yet.
func (b *Builder) Hide(list helmkube.ResourceList, apis []schema.GroupVersion) {
	for _, i := range list {
		if f := b.Fact(i); f != nil && slices.Contains(apis, i.Mapping.GroupVersionKind.GroupVersion()) {
			f.hidden = true
		}
	}
}

// SupposeAbsent answers the GETs of objects that cannot be looked at as if they were
// not there, for who only plans: rights that are missing are told later, all at once.
func (b *Builder) SupposeAbsent(list helmkube.ResourceList) {
	for _, i := range list {
		if f := b.Fact(i); f != nil && f.hidden {
			answer(i, nil, f)
			f.before = Before{Known: f.Late}
		}
	}
}

// listMetadata returns the metadata of all objects of a kind in a namespace.
func (b *Builder) listMetadata(ctx context.Context, p place) (map[string]*metav1.PartialObjectMetadata, error) {
	out := map[string]*metav1.PartialObjectMetadata{}
	opts := metav1.ListOptions{Limit: 1000}
	for {
		l, err := b.client.Metadata.Resource(p.gvr).Namespace(p.namespace).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for i := range l.Items {
			out[l.Items[i].Name] = &l.Items[i]
		}
		if opts.Continue = l.Continue; opts.Continue == "" {
			return out, nil
		}
	}
}

// answer makes an Info's GET answer with the metadata found, nil for not found.
func answer(i *resource.Info, found *metav1.PartialObjectMetadata, f *Fact) {
	if found != nil && found.Name == "" {
		found = nil
	}
	known := &knownClient{RESTClient: i.Client, mapping: i.Mapping, name: i.Name, found: found}
	i.Client, f.seen = known, nil
	f.before, f.Owner = Before{Known: true}, ""
	if found == nil {
		return
	}
	f.before.Version, f.Owner = found.ResourceVersion, OwnerOf(found)
	f.before.helms, f.before.at = entriesOfHelm(found), time.Now()
	if !updatedByHelm(found) {
		f.seen = known
	}
}

// updatedByHelm reports whether some fields of an object are Helm's by another way
// than server-side apply: it moves them, for which it has to see the whole object.
func updatedByHelm(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == connect.FieldManager && m.Operation == metav1.ManagedFieldsOperationUpdate
	})
}

// Recall answers the GETs of an object's Infos as LookAhead did, once, for who is
// about to apply it: Helm asks whether it is there, and how it has come there, and
// does nothing else with the answer. Where it was not there, or has changed hands,
// the GETs go to the server. The caller calls done before it uses the Infos again.
func (f *Fact) Recall(infos ...*resource.Info) (done func()) {
	seen := f.seen
	if f.seen = nil; seen == nil {
		return func() {}
	}
	for _, i := range infos {
		k := *seen
		k.RESTClient = i.Client
		i.Client = &k
	}
	return func() { Unlook(infos) }
}

// Unlook gives the Infos of the lists their clients back.
func Unlook(lists ...helmkube.ResourceList) {
	for _, l := range lists {
		for _, i := range l {
			if k, ok := i.Client.(*knownClient); ok {
				i.Client = k.RESTClient
			}
		}
	}
}

// knownClient is a REST client whose GET is answered from memory.
type knownClient struct {
	resource.RESTClient
	mapping *meta.RESTMapping
	name    string
	found   *metav1.PartialObjectMetadata // nil for not found
}

// Get returns a request that never leaves the process. What it answers is handed to
// the caller as it is: nothing is encoded, to be decoded again for each of a thousand
// objects that Helm asks for two or three times.
func (k *knownClient) Get() *rest.Request {
	return rest.NewRequestWithClient(&url.URL{Scheme: "https", Host: "known.invalid"}, "/",
		rest.ClientContentConfig{ContentType: runtime.ContentTypeJSON, GroupVersion: k.mapping.GroupVersionKind.GroupVersion(), Negotiator: knownAnswer{k}},
		&http.Client{Transport: k})
}

// RoundTrip answers that there is something to decode.
func (k *knownClient) RoundTrip(r *http.Request) (*http.Response, error) {
	code := http.StatusOK
	if k.found == nil {
		code = http.StatusNotFound
	}
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// knownAnswer stands where the decoder of an answer is looked for, and is it.
type knownAnswer struct{ of *knownClient }

func (a knownAnswer) Encoder(string, map[string]string) (runtime.Encoder, error) {
	return nil, errOnlyGet
}

func (a knownAnswer) Decoder(string, map[string]string) (runtime.Decoder, error) { return a, nil }

func (a knownAnswer) StreamDecoder(string, map[string]string) (runtime.Decoder, runtime.Serializer, runtime.Framer, error) {
	return nil, nil, nil, errOnlyGet
}

var errOnlyGet = errors.New("what is known of an object answers a GET alone")

// Decode returns what is known, as the API server would have said it, but for what is
// no metadata: neither who looks for an owner nor who looks for owners of fields, as
// Helm does, wants that.
func (a knownAnswer) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if a.of.found == nil {
		missing := apierrors.NewNotFound(a.of.mapping.Resource.GroupResource(), a.of.name).Status()
		return &missing, &schema.GroupVersionKind{Version: "v1", Kind: "Status"}, nil
	}
	gvk, found := a.of.mapping.GroupVersionKind, a.of.found.DeepCopy()
	found.SetGroupVersionKind(gvk)
	return found, &gvk, nil
}

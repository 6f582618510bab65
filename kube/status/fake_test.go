package status

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// helmLabels are the labels of an object of a release.
var helmLabels = map[string]any{"app.kubernetes.io/managed-by": "Helm"}

// server is a scripted API server for one kind.
type server struct {
	*fake.FakeDynamicClient

	mu       sync.Mutex
	version  int
	objects  map[string]*unstructured.Unstructured
	watches  []*watch.RaceFreeFakeWatcher
	requests []string
	listErr  error
	watchErr error
	getErr   error
	stalled  bool // the watches deliver nothing
}

func newServer() *server {
	s := &server{version: 100, objects: map[string]*unstructured.Unstructured{}}
	s.FakeDynamicClient = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList"})
	s.PrependReactor("list", "*", s.list)
	s.PrependReactor("get", "*", s.get)
	s.PrependWatchReactor("*", s.watch)
	return s
}

func (s *server) list(a clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := a.(clienttesting.ListAction).GetListRestrictions()
	s.requests = append(s.requests, strings.Trim("list "+l.Labels.String()+" "+l.Fields.String(), " "))
	if s.listErr != nil {
		return true, nil, s.listErr
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "PodList"}}
	list.SetResourceVersion(strconv.Itoa(s.version))
	for _, u := range s.objects {
		if l.Fields.Empty() || l.Fields.Matches(fields.Set{"metadata.name": u.GetName()}) {
			list.Items = append(list.Items, *u.DeepCopy())
		}
	}
	return true, list, nil
}

func (s *server) get(a clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := a.(clienttesting.GetAction).GetName()
	s.requests = append(s.requests, "get "+name)
	if s.getErr != nil {
		return true, nil, s.getErr
	}
	if u := s.objects[name]; u != nil {
		return true, u.DeepCopy(), nil
	}
	return true, nil, apierrors.NewNotFound(pods.GroupResource(), name)
}

func (s *server) watch(a clienttesting.Action) (bool, watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, "watch "+a.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
	if s.watchErr != nil {
		return true, nil, s.watchErr
	}
	w := watch.NewRaceFreeFake()
	s.watches = append(s.watches, w)
	return true, w, nil
}

// set changes an object, or removes it if phase is "".
func (s *server) set(name, phase string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	old := s.objects[name]
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": name, "namespace": "ns", "resourceVersion": strconv.Itoa(s.version), "labels": helmLabels},
		"status":   map[string]any{"phase": phase}}}
	if s.objects[name] = u; phase == "" {
		delete(s.objects, name)
	}
	for _, w := range s.watches {
		switch {
		case w.IsStopped(), s.stalled:
		case phase == "":
			w.Delete(u.DeepCopy())
		case old == nil:
			w.Add(u.DeepCopy())
		default:
			w.Modify(u.DeepCopy())
		}
	}
}

// fail makes all later requests of a verb fail, until nil is given.
func (s *server) fail(list, watch, get error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listErr, s.watchErr, s.getErr = list, watch, get
}

// end ends the open watches, with an error event unless err is nil.
func (s *server) end(err *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if err != nil && !w.IsStopped() {
			w.Error(&err.ErrStatus)
		}
		w.Stop()
	}
	s.watches = nil
}

// seen returns the requests since the last call.
func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

// recorder collects observations.
type recorder struct {
	mu   sync.Mutex
	seen []string
}

func (r *recorder) report(o run.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, strings.TrimSpace(o.Object.Name+" "+string(o.Status)+" "+strconv.FormatUint(o.Version, 10)+" "+o.Message))
}

func (r *recorder) notice(w plan.Warning) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, w.String())
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil
	slices.Sort(seen)
	return seen
}

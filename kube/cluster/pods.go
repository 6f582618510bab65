package cluster

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// podWatches are the watches of pods and of warnings that Signs come from: one of each
// for a namespace in which somebody listens, or for all.
type podWatches struct {
	ctx    context.Context
	cancel context.CancelFunc
	kube   kubernetes.Interface
	linger time.Duration
	wg     sync.WaitGroup

	mu      sync.Mutex          // guards the fields below
	wide    map[kindOfSign]bool // one watch serves all namespaces
	running map[feed]context.CancelFunc
	needed  map[string]int // namespaces, by how many need them
	podState
}

// podState is what the watches know of pods, and who listens.
type podState struct {
	listeners map[owner]map[*Signs]func()
	pods      map[types.NamespacedName]owner // whose they are
	reported  map[types.UID]string           // the trouble of each pod that was told last
	gone      []goneUntil                    // pods that are gone, in the order in which they went
}

// kindOfSign is what a sign is read from.
type kindOfSign string

const (
	ofPods     kindOfSign = "pods"
	ofWarnings kindOfSign = "warnings"
)

// feed is a watch; its namespace is "" for all.
type feed struct {
	of        kindOfSign
	namespace string
}

// goneUntil is a pod that is gone, and until when events about it may come.
type goneUntil struct {
	types.NamespacedName
	until time.Time
}

// eventsLate is how long after a pod has gone warnings of it are still told.
const eventsLate = 2 * time.Minute

func newPodWatches(ctx context.Context, kube kubernetes.Interface, opts WatchOptions) *podWatches {
	all := opts.AllNamespaces
	ctx, cancel := context.WithCancel(ctx)
	return &podWatches{ctx: ctx, cancel: cancel, kube: kube, linger: cmp.Or(opts.Linger, time.Minute), wide: map[kindOfSign]bool{ofPods: all, ofWarnings: all},
		running: map[feed]context.CancelFunc{}, needed: map[string]int{},
		podState: podState{listeners: map[owner]map[*Signs]func(){}, pods: map[types.NamespacedName]owner{}, reported: map[types.UID]string{}}}
}

// close ends all watches and waits for their goroutines.
func (w *podWatches) close() {
	w.mu.Lock() // nobody may be half way through starting one
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
}

// need sees to it that a namespace is watched, until as many have released it.
func (w *podWatches) need(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.needed[namespace]++
	w.start(ofPods, namespace)
	w.start(ofWarnings, namespace)
}

// start starts the watch that a namespace needs, unless it is there. The caller holds
// the lock.
func (w *podWatches) start(of kindOfSign, namespace string) {
	f := feed{of, namespace}
	if w.wide[of] {
		f.namespace = ""
	}
	if w.running[f] != nil || w.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.running[f] = cancel
	w.wg.Go(func() {
		if w.follow(ctx, f); ctx.Err() == nil && f.namespace == "" { // it may not watch all
			w.split(of)
		}
	})
}

// split watches each namespace by itself.
func (w *podWatches) split(of kindOfSign) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wide[of] = false
	for ns := range w.needed {
		w.start(of, ns)
	}
}

// release ends the watches of a namespace, after a while, where nobody else needs
// them.
func (w *podWatches) release(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.needed[namespace]--; w.needed[namespace] > 0 {
		return
	}
	delete(w.needed, namespace)
	if w.ctx.Err() == nil {
		time.AfterFunc(w.linger, w.endIdle)
	}
}

func (w *podWatches) endIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for f, cancel := range w.running {
		if f.namespace == "" && len(w.needed) == 0 || f.namespace != "" && w.needed[f.namespace] == 0 {
			cancel()
			delete(w.running, f)
		}
	}
}

func (w *podWatches) follow(ctx context.Context, f feed) {
	if f.of == ofPods {
		follow(ctx, func() (watch.Interface, error) {
			return w.kube.CoreV1().Pods(f.namespace).Watch(ctx, metav1.ListOptions{})
		}, func(e watch.Event) {
			if p, ok := e.Object.(*corev1.Pod); ok {
				w.pod(p, e.Type == watch.Deleted)
			}
		})
		return
	}
	follow(ctx, func() (watch.Interface, error) {
		return w.kube.CoreV1().Events(f.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	}, func(e watch.Event) {
		if ev, ok := e.Object.(*corev1.Event); ok && e.Type != watch.Deleted {
			w.warning(ev)
		}
	})
}

// follow watches until ctx ends or that is not allowed.
func follow(ctx context.Context, open func() (watch.Interface, error), saw func(watch.Event)) {
	for wait := time.Second; ctx.Err() == nil; {
		w, err := open()
		if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsUnauthorized(err) {
			return
		}
		if err == nil {
			wait = time.Second
			for e := range w.ResultChan() {
				saw(e)
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, 30*time.Second)
		}
	}
}

// listen calls sign at each sign of trouble with an object.
func (w *podWatches) listen(o owner, s *Signs, sign func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners[o] == nil {
		w.listeners[o] = map[*Signs]func(){}
	}
	w.listeners[o][s] = sign
}

func (w *podWatches) unlisten(o owner, s *Signs) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.listeners[o], s); len(w.listeners[o]) == 0 {
		delete(w.listeners, o)
	}
}

func (w *podWatches) pod(p *corev1.Pod, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetGone()
	if gone {
		delete(w.reported, p.UID)
		w.gone = append(w.gone, goneUntil{nameOf(p), time.Now().Add(eventsLate)})
		return
	}
	of := ownerOf(p)
	w.pods[nameOf(p)] = of
	if t := trouble(p); t != "" && t != w.reported[p.UID] && w.sign(of, time.Time{}) {
		w.reported[p.UID] = t
	}
}

// forgetGone forgets pods that have been gone for long. One of the same name that has
// come since is known again by its next change. The caller holds the lock.
func (w *podWatches) forgetGone() {
	n := 0
	for now := time.Now(); n < len(w.gone) && w.gone[n].until.Before(now); n++ {
		delete(w.pods, w.gone[n].NamespacedName)
	}
	w.gone = w.gone[n:]
}

func (w *podWatches) warning(e *corev1.Event) {
	of := owner{e.InvolvedObject.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch of.kind {
	case "Pod":
		if whose, ok := w.pods[types.NamespacedName{Namespace: of.namespace, Name: of.name}]; ok {
			of = whose
		}
	case "ReplicaSet":
		if at := strings.LastIndex(of.name, "-"); at > 0 && w.listeners[of] == nil {
			of.kind, of.name = "Deployment", of.name[:at]
		}
	}
	w.sign(of, e.CreationTimestamp.Time)
}

// sign tells whoever listens, and has begun before the sign was given (the zero time
// for now). It reports whether there was anybody. The caller holds the lock.
func (w *podWatches) sign(of owner, given time.Time) (reported bool) {
	for s, tell := range w.listeners[of] {
		if given.IsZero() || !given.Before(s.begun) {
			tell()
			reported = true
		}
	}
	return reported
}

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

// podWatches are the watches of pods and warnings for Signs: one of each for each namespace with a listener, or one for all.
type podWatches struct {
	ctx    context.Context
	cancel context.CancelFunc
	kube   kubernetes.Interface
	linger time.Duration
	wg     sync.WaitGroup

	mu      sync.Mutex       // guards the fields below
	wide    map[watched]bool // whether one watch serves all namespaces
	running map[feed]context.CancelFunc
	users   map[string]int // by namespace
	podState
}

// podState is what the watches know of pods, and who listens.
type podState struct {
	listeners map[owner]map[*Signs]func()
	owners    map[types.NamespacedName]owner // of pods
	reported  map[types.UID]string           // the last reported trouble of each pod
	deleted   []deletedPod                   // in the order of their deletion
}

// watched is what a feed watches.
type watched string

const (
	pods     watched = "pods"
	warnings watched = "warnings"
)

// feed is a watch in a namespace, or in all if that is "".
type feed struct {
	of        watched
	namespace string
}

// deletedPod is a deleted pod whose owner is remembered until a time, because warnings about it may be late.
type deletedPod struct {
	types.NamespacedName
	until time.Time
}

// lateWarnings is how long after the deletion of a pod warnings about it are still reported.
const lateWarnings = 2 * time.Minute

func newPodWatches(ctx context.Context, kube kubernetes.Interface, opts WatchOptions) *podWatches {
	all := opts.AllNamespaces
	ctx, cancel := context.WithCancel(ctx)
	return &podWatches{ctx: ctx, cancel: cancel, kube: kube, linger: cmp.Or(opts.Linger, time.Minute),
		wide: map[watched]bool{pods: all, warnings: all}, running: map[feed]context.CancelFunc{}, users: map[string]int{},
		podState: podState{listeners: map[owner]map[*Signs]func(){}, owners: map[types.NamespacedName]owner{}, reported: map[types.UID]string{}}}
}

// close ends all watches and waits for their goroutines.
func (w *podWatches) close() {
	w.mu.Lock() // waits for a watch that is being started
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
}

// acquire watches a namespace until release has been called as often.
func (w *podWatches) acquire(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users[namespace]++
	w.start(pods, namespace)
	w.start(warnings, namespace)
}

// start starts the watch for a namespace unless it runs. The caller holds the lock.
func (w *podWatches) start(of watched, namespace string) {
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
		if w.run(ctx, f); ctx.Err() == nil && f.namespace == "" { // watching all namespaces is forbidden
			w.split(of)
		}
	})
}

// split watches each namespace separately.
func (w *podWatches) split(of watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wide[of] = false
	for ns := range w.users {
		w.start(of, ns)
	}
}

// release ends the watches of a namespace, after a while, unless somebody else uses them.
func (w *podWatches) release(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users[namespace]--; w.users[namespace] > 0 {
		return
	}
	delete(w.users, namespace)
	if w.ctx.Err() == nil {
		time.AfterFunc(w.linger, w.endIdle)
	}
}

func (w *podWatches) endIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for f, cancel := range w.running {
		if f.namespace == "" && len(w.users) == 0 || f.namespace != "" && w.users[f.namespace] == 0 {
			cancel()
			delete(w.running, f)
		}
	}
}

// run runs a watch until ctx ends or it is forbidden.
func (w *podWatches) run(ctx context.Context, f feed) {
	if f.of == pods {
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

// follow opens one watch after the other, until ctx ends or watching is forbidden.
func follow(ctx context.Context, open func() (watch.Interface, error), handle func(watch.Event)) {
	for wait := time.Second; ctx.Err() == nil; {
		w, err := open()
		if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsUnauthorized(err) {
			return
		}
		if err == nil {
			wait = time.Second
			for e := range w.ResultChan() {
				handle(e)
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

func (w *podWatches) pod(p *corev1.Pod, deleted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetDeleted()
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	if deleted {
		delete(w.reported, p.UID)
		w.deleted = append(w.deleted, deletedPod{name, time.Now().Add(lateWarnings)})
		return
	}
	of := ownerOf(p)
	w.owners[name] = of
	if t := troubleOf(p); t != "" && t != w.reported[p.UID] && w.sign(of, time.Time{}) {
		w.reported[p.UID] = t
	}
}

// forgetDeleted forgets the owners of pods that were deleted long ago. If there is a new pod with the same name, its next
// change makes its owner known again. The caller holds the lock.
func (w *podWatches) forgetDeleted() {
	n := 0
	for now := time.Now(); n < len(w.deleted) && w.deleted[n].until.Before(now); n++ {
		delete(w.owners, w.deleted[n].NamespacedName)
	}
	w.deleted = w.deleted[n:]
}

func (w *podWatches) warning(e *corev1.Event) {
	of := owner{e.InvolvedObject.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch of.kind {
	case "Pod":
		of = cmp.Or(w.owners[types.NamespacedName{Namespace: of.namespace, Name: of.name}], of)
	case "ReplicaSet":
		if at := strings.LastIndex(of.name, "-"); at > 0 && w.listeners[of] == nil {
			of.kind, of.name = "Deployment", of.name[:at]
		}
	}
	w.sign(of, e.CreationTimestamp.Time)
}

// sign calls the listeners of an object that started before the sign appeared (the zero time means now). It reports whether
// there were any. The caller holds the lock.
func (w *podWatches) sign(of owner, at time.Time) (reported bool) {
	for s, report := range w.listeners[of] {
		if at.IsZero() || !at.Before(s.started) {
			report()
			reported = true
		}
	}
	return reported
}

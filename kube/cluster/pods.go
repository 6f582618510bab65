package cluster

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"lockstep/engine/run"
	"lockstep/kube/status"
)

// podWatches are the watches of pods and warnings for Signs: one of each kind for each namespace with a listener, or one for
// all namespaces.
type podWatches struct {
	ctx    context.Context
	cancel context.CancelFunc
	kube   kubernetes.Interface
	linger time.Duration
	wg     sync.WaitGroup

	mu      sync.Mutex         // guards the fields below
	wide    map[watchKind]bool // whether one watch serves all namespaces
	running map[podWatch]context.CancelFunc
	users   map[string]int // by namespace
	podState
}

// podState is the last known state of pods, and the listeners.
type podState struct {
	listeners map[owner]map[*Signs]listener
	runs      podRuns
	denied    map[string]bool                // namespaces whose pods may not be watched
	listed    map[string]bool                // namespaces of which all pods are known
	owners    map[types.NamespacedName]owner // of pods
	reported  map[types.UID]string           // the last reported trouble of each pod
	deleted   []deletedPod                   // in the order of their deletion
	// lastDeleted is the highest version at which a pod was deleted, or has ended.
	lastDeleted uint64
}

// listener gets the signs of an object; onPods may be nil.
type listener struct {
	onTrouble func()
	onPods    func(run.Pods)
}

type watchKind string

const (
	pods     watchKind = "pods"
	warnings watchKind = "warnings"
)

// podWatch is a watch in a namespace, or with "" in all namespaces.
type podWatch struct {
	kind      watchKind
	namespace string
}

// deletedPod is a deleted pod whose owner is remembered for a while, because warnings about the pod may be late.
type deletedPod struct {
	types.NamespacedName
	until time.Time
}

// lateWarningPeriod is how long lockstep still reports warnings about a pod after its deletion.
const lateWarningPeriod = 2 * time.Minute

func newPodWatches(ctx context.Context, kube kubernetes.Interface, opts WatchOptions) *podWatches {
	all := opts.AllNamespaces
	ctx, cancel := context.WithCancel(ctx)
	return &podWatches{ctx: ctx, cancel: cancel, kube: kube, linger: cmp.Or(opts.Linger, time.Minute),
		wide: map[watchKind]bool{pods: all, warnings: all}, running: map[podWatch]context.CancelFunc{}, users: map[string]int{},
		podState: podState{listeners: map[owner]map[*Signs]listener{}, runs: podRuns{}, denied: map[string]bool{}, listed: map[string]bool{}, owners: map[types.NamespacedName]owner{}, reported: map[types.UID]string{}}}
}

// close ends all watches and waits for their goroutines.
func (w *podWatches) close() {
	w.mu.Lock() // waits for a watch that is being started
	w.cancel()
	w.mu.Unlock()
	w.wg.Wait()
}

// acquire watches a namespace until release has been called as often as acquire.
func (w *podWatches) acquire(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users[namespace]++
	w.start(pods, namespace)
	w.start(warnings, namespace)
}

// start starts the watch for a namespace unless it is running. The caller holds the lock.
func (w *podWatches) start(kind watchKind, namespace string) {
	p := podWatch{kind, namespace}
	if w.wide[kind] {
		p.namespace = ""
	}
	if w.running[p] != nil || w.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	w.running[p] = cancel
	w.wg.Go(func() {
		switch w.run(ctx, p); {
		case ctx.Err() != nil:
		case p.namespace == "": // watching all namespaces is forbidden
			w.split(kind)
		case p.kind == pods:
			w.forbidden(p.namespace)
		}
	})
}

// split replaces the watch of all namespaces by one for each namespace in use.
func (w *podWatches) split(kind watchKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wide[kind] = false
	for ns := range w.users {
		w.start(kind, ns)
	}
}

// release ends the watches of a namespace after the linger time, unless they are in use then.
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
	for p, cancel := range w.running {
		if p.namespace == "" && len(w.users) == 0 || p.namespace != "" && w.users[p.namespace] == 0 {
			cancel()
			delete(w.running, p)
		}
	}
}

// run runs a watch until ctx ends or it is forbidden.
func (w *podWatches) run(ctx context.Context, p podWatch) {
	if p.kind == pods {
		opened := 0
		FollowWatch(ctx, func() (watch.Interface, error) {
			if opened++; opened > 1 {
				n := opened
				w.wg.Go(func() { w.dropUnseen(p, n) })
			}
			return w.kube.CoreV1().Pods(p.namespace).Watch(ctx, metav1.ListOptions{})
		}, func(e watch.Event) {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				w.handlePod(pod, e.Type == watch.Deleted, opened)
			}
		})
		return
	}
	FollowWatch(ctx, func() (watch.Interface, error) {
		return w.kube.CoreV1().Events(p.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	}, func(e watch.Event) {
		if ev, ok := e.Object.(*corev1.Event); ok && e.Type != watch.Deleted {
			w.handleWarning(ev)
		}
	})
}

// FollowWatch handles the events of a watch and reopens it, until ctx ends or watching is forbidden or not supported.
func FollowWatch(ctx context.Context, open func() (watch.Interface, error), handle func(watch.Event)) {
	for wait := time.Second; ctx.Err() == nil; {
		w, err := open()
		if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
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

// listen calls l at each sign of trouble with an object and each change of its pods.
func (w *podWatches) listen(o owner, s *Signs, l listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners[o] == nil {
		w.listeners[o] = map[*Signs]listener{}
	}
	w.listeners[o][s] = l
	if w.denied[o.namespace] {
		s.notifyDenied(o)
	}
	if w.runs[o] != nil {
		w.reportPods(o)
	}
}

func (w *podWatches) unlisten(o owner, s *Signs) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.listeners[o], s); len(w.listeners[o]) == 0 {
		delete(w.listeners, o)
	}
}

func (w *podWatches) handlePod(p *corev1.Pod, deleted bool, opened int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetDeleted()
	name := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	owner := ownerOf(p)
	if deleted {
		if w.runs[owner] != nil {
			before := w.runs.of(owner)
			if w.runs.remove(owner, p.UID); before != w.runs.of(owner) {
				w.reportPods(owner)
			}
		}
		delete(w.reported, p.UID)
		w.lastDeleted = max(w.lastDeleted, status.ParseVersion(p.ResourceVersion))
		w.deleted = append(w.deleted, deletedPod{name, time.Now().Add(lateWarningPeriod)})
		return
	}
	w.seePod(p, owner, opened)
}

// seePod reports what is new about a pod. The caller holds the lock.
func (w *podWatches) seePod(p *corev1.Pod, owner owner, opened int) {
	w.owners[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = owner
	_, known := w.runs[owner][p.UID]
	if w.runs.put(owner, p, opened, time.Now()) {
		w.reportPods(owner)
	}
	if _, counts := w.runs[owner][p.UID]; known && !counts {
		w.lastDeleted = max(w.lastDeleted, status.ParseVersion(p.ResourceVersion))
	}
	if t := troubleOf(p); t != "" && t != w.reported[p.UID] && w.notify(owner, time.Time{}) {
		w.reported[p.UID] = t
	}
}

// forgetDeleted forgets the owners of pods that were deleted longer ago than lateWarningPeriod. If there is a new pod with
// the same name, its next change makes its owner known again. The caller holds the lock.
func (w *podWatches) forgetDeleted() {
	n := 0
	for now := time.Now(); n < len(w.deleted) && w.deleted[n].until.Before(now); n++ {
		delete(w.owners, w.deleted[n].NamespacedName)
	}
	w.deleted = w.deleted[n:]
}

func (w *podWatches) handleWarning(e *corev1.Event) {
	owner := owner{e.InvolvedObject.Namespace, e.InvolvedObject.Kind, e.InvolvedObject.Name}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch owner.kind {
	case "Pod":
		owner = cmp.Or(w.owners[types.NamespacedName{Namespace: owner.namespace, Name: owner.name}], owner)
	case "ReplicaSet":
		if w.listeners[owner] == nil {
			owner.kind, owner.name = PodsOf(owner.kind, owner.name)
		}
	}
	w.notify(owner, e.CreationTimestamp.Time)
}

// notify calls the listeners of an object, except those of runs that started after at, the time of the sign of trouble. A
// zero at means now. It reports whether there were any. The caller holds the lock.
func (w *podWatches) notify(o owner, at time.Time) (notified bool) {
	for s, l := range w.listeners[o] {
		if at.IsZero() || !at.Before(s.started) {
			l.onTrouble()
			notified = true
		}
	}
	return notified
}

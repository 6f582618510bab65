// Package kubelet simulates the nodes of a sandbox: it writes the status and events of pods as a kubelet would,
// and serves logs and exec. Containers of lockstep's own image run as processes (package container); annotations
// control the others (package annotation). Its central types are Kubelet and pass, which computes the status of
// a pod.
package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"lockstep/kube/sandbox/container"
	"lockstep/kube/sandbox/loop"
)

const workers = 8

// Options configure a Kubelet.
type Options struct {
	Config  *rest.Config // of a user with all permissions for nodes, pods and events
	Nodes   int
	Version string // Kubernetes version that the nodes report

	// Certificate is the certificate of the server for logs and exec, Clients the authority of its clients.
	Certificate tls.Certificate
	Clients     *x509.CertPool

	// Program runs as the containers of lockstep's image, in folders below Dir. "" simulates these containers too.
	Program, Dir string
}

// Kubelet simulates all nodes of a cluster.
type Kubelet struct {
	client   kubernetes.Interface
	factory  informers.SharedInformerFactory
	pods     cache.SharedIndexInformer
	reporter *reporter
	runtime  *container.Runtime
	lastIP   atomic.Uint32   // the last two bytes of the IP last assigned to a pod
	nodes    map[string]bool // by name

	mu   sync.Mutex
	past map[types.UID]history
}

// New registers the nodes and serves logs and exec until ctx is done. Run handles pods.
func New(ctx context.Context, o Options) (*Kubelet, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	k := &Kubelet{client: client, nodes: map[string]bool{}, past: map[types.UID]history{}}
	if k.reporter, err = newReporter(ctx, o.Config); err != nil {
		return nil, err
	}
	if k.runtime, err = container.New(o.Program, o.Dir, o.Config.Host, client); err != nil {
		return nil, err
	}
	k.factory = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(stripManagedFields),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}))
	k.pods = k.factory.Core().V1().Pods().Informer()
	if _, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: loop.Deleted(k.forget)}); err != nil {
		return nil, err
	}
	port, err := k.serve(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range o.Nodes {
		name := fmt.Sprintf("node-%d", i)
		if err := k.register(ctx, name, port, o.Version); err != nil {
			return nil, err
		}
		k.nodes[name] = true
	}
	return k, nil
}

// Run handles pods until ctx is done.
func (k *Kubelet) Run(ctx context.Context) error {
	k.factory.Start(ctx.Done())
	defer k.factory.Shutdown()
	k.factory.WaitForCacheSync(ctx.Done())
	for _, o := range k.pods.GetStore().List() { // pods of an earlier run with the same data folder
		if ip := net.ParseIP(o.(*corev1.Pod).Status.PodIP).To4(); ip != nil {
			k.lastIP.Store(max(k.lastIP.Load(), uint32(ip[2])<<8|uint32(ip[3])))
		}
	}
	if err := loop.Each(ctx, k.pods, workers, k.sync); err != nil {
		return err
	}
	<-ctx.Done()
	k.runtime.Close()
	return nil
}

func (k *Kubelet) forget(pod *corev1.Pod) {
	k.mu.Lock()
	delete(k.past, pod.UID)
	k.mu.Unlock()
	k.runtime.Remove(pod.UID)
}

func (k *Kubelet) history(uid types.UID) history {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.past[uid]
}

func (k *Kubelet) remember(uid types.UID, h history) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.past[uid] = h
}

// sync updates a pod to its current state. It returns the time until the next sync, or 0 if only a change of
// the pod requires one.
func (k *Kubelet) sync(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if !k.nodes[pod.Spec.NodeName] {
		return 0, nil
	}
	s, problems := parseScript(pod)
	p := &pass{pod: pod, script: s, past: k.history(pod.UID), now: time.Now(), newIP: k.newIP}
	k.findProcess(p)
	if !p.past.warned {
		p.past.warned = true
		for _, m := range problems {
			p.addEvent(event{warning: true, reason: "SandboxAnnotation", message: m})
		}
	}
	if pod.DeletionTimestamp != nil {
		return k.stop(ctx, p)
	}
	if finished(pod) {
		return 0, nil
	}
	if s.fail == failEvicted || pod.Spec.RestartPolicy == corev1.RestartPolicyNever && s.failTimes != forever {
		p.failedSiblings = k.failedSiblings(pod)
	}
	p.obstacle, p.blockedContainer = k.findObstacle(ctx, p)
	k.warnPullSecrets(ctx, p)
	changed := p.run()
	if p.starts {
		if err := k.start(ctx, p); err != nil {
			k.reporter.report(pod, event{warning: true, reason: "FailedMount", message: err.Error()})
			return 0, err
		}
	}
	if changed {
		if err := k.update(ctx, p); err != nil {
			return 0, err
		}
	}
	k.finishPass(p)
	return p.again, nil
}

// update writes the status of a pass.
func (k *Kubelet) update(ctx context.Context, p *pass) error {
	pod := p.pod.DeepCopy()
	pod.Status = *p.status
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// finishPass stores the history of a pass and reports its events.
func (k *Kubelet) finishPass(p *pass) {
	k.remember(p.pod.UID, p.past)
	for _, e := range p.events {
		k.reporter.report(p.pod, e)
	}
}

// stop ends a pod that is being deleted.
func (k *Kubelet) stop(ctx context.Context, p *pass) (time.Duration, error) {
	pod, grace := p.pod, time.Duration(0)
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
		if *s == 0 && len(pod.Finalizers) > 0 && finished(pod) {
			return 0, nil // until the finalizers are removed
		}
	}
	if !p.past.killing {
		p.past.killing = true
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Running != nil {
				p.addEvent(event{c.Name, false, "Killing", "Stopping container " + c.Name})
			}
		}
		k.finishPass(p)
	}
	if p.process != "" {
		if k.runtime.Terminate(pod.UID, grace) {
			return processPoll, nil
		}
	} else if left := pod.DeletionTimestamp.Add(-grace).Add(min(grace, p.script.stopDuration)).Sub(p.now); left > 0 {
		return left, nil
	}
	if (len(pod.Finalizers) > 0 || p.process != "") && !finished(pod) {
		// The Job controller waits for the final phase before it counts the pod and removes its finalizer.
		p.kill()
		if err := k.update(ctx, p); err != nil {
			return 0, err
		}
	}
	zero := int64(0)
	return 0, k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// failedSiblings counts the failed pods of the pod's controller.
func (k *Kubelet) failedSiblings(pod *corev1.Pod) int {
	owner, n := metav1.GetControllerOf(pod), 0
	if owner == nil {
		return 0
	}
	for _, o := range k.pods.GetStore().List() {
		other := o.(*corev1.Pod)
		if c := metav1.GetControllerOf(other); c != nil && c.UID == owner.UID && other.Status.Phase == corev1.PodFailed {
			n++
		}
	}
	return n
}

func (k *Kubelet) newIP() string {
	n := k.lastIP.Add(1)
	return fmt.Sprintf("10.244.%d.%d", n>>8&255, n&255)
}

// stripManagedFields halves the memory of the cached pods. Updating a status without managed fields keeps them.
func stripManagedFields(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
	}
	return o, nil
}

// register creates a node, or updates the log port of an existing one.
func (k *Kubelet) register(ctx context.Context, name string, port int, version string) error {
	nodes := k.client.CoreV1().Nodes()
	_, err := nodes.Create(ctx, node(name, port, version), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch := fmt.Sprintf(`{"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, port)
	_, err = nodes.Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

func node(name string, port int, version string) *corev1.Node {
	now := metav1.Now()
	res := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("1000"), corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	cond := func(t corev1.NodeConditionType, s corev1.ConditionStatus, r string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: s, Reason: r, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH,
		}},
		Status: corev1.NodeStatus{
			Capacity: res, Allocatable: res,
			Conditions: []corev1.NodeCondition{
				cond(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				cond(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				cond(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				cond(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostIP}, {Type: corev1.NodeHostName, Address: name}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux", Architecture: runtime.GOARCH,
				ContainerRuntimeVersion: "sandbox://1", OSImage: "lockstep sandbox", KernelVersion: "simulated"},
		},
	}
}

// Package container runs the containers of lockstep's own image as processes of this machine, with the
// environment, volumes, service account token and arguments that a kubelet would provide. It uses no
// namespaces, cgroups or image layers; README.md lists the consequences. Its central types are Runtime, which has
// the processes of all pods, and Process, one attempt of a container.
package container

import (
	"context"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Image is the last path element of the images whose containers are processes.
const Image = "lockstep"

// Runtime runs containers as processes. The nil Runtime, and one without a program, runs none.
type Runtime struct {
	program    string // an absolute path
	dir        string // contains a folder for each pod
	client     kubernetes.Interface
	host, port string      // of the API server
	launches   chan func() // run on the thread that starts all processes

	mu     sync.Mutex
	pods   map[types.UID]*podRuns
	count  int // folders created so far; a short number as name leaves room for the paths of sockets
	closed bool
}

// podRuns are the processes of a pod.
type podRuns struct {
	dir       string
	processes []*Process // the last two attempts
	kill      *time.Timer
}

// New returns a runtime that runs program, with a folder below dir for each pod. It first removes dir.
func New(program, dir, server string, client kubernetes.Interface) (*Runtime, error) {
	r := &Runtime{program: program, dir: dir, client: client, launches: make(chan func()), pods: map[types.UID]*podRuns{}}
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	if r.host, r.port, err = net.SplitHostPort(u.Host); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	go func() {
		// Linux kills a process when the thread that started it ends, so one thread starts them all and never ends.
		runtime.LockOSThread()
		for launch := range r.launches {
			launch()
		}
	}()
	return r, nil
}

// ProcessContainer returns the name of the container that runs as a process, or "". It is the first one with the
// image; init containers are never processes.
func (r *Runtime) ProcessContainer(pod *corev1.Pod) string {
	if r == nil || r.program == "" {
		return ""
	}
	for _, c := range pod.Spec.Containers {
		if named, err := reference.ParseNormalizedNamed(c.Image); err == nil && path.Base(reference.Path(named)) == Image {
			return c.Name
		}
	}
	return ""
}

// Find returns an attempt of a pod's process, or nil if it has not started or is not one of the last two.
func (r *Runtime) Find(pod types.UID, attempt int) *Process {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if runs := r.pods[pod]; runs != nil {
		for _, p := range runs.processes {
			if p.attempt == attempt {
				return p
			}
		}
	}
	return nil
}

// Start starts an attempt of a container, unless it has already started. If the program cannot be executed, the
// attempt exits with code 128. After an error, a retry may succeed.
func (r *Runtime) Start(ctx context.Context, pod *corev1.Pod, name string, attempt int) error {
	if r.Find(pod.UID, attempt) != nil {
		return nil
	}
	dir := r.podDir(pod.UID)
	c := &containerRun{Runtime: r, pod: pod, dir: dir}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			c.spec = &pod.Spec.Containers[i]
		}
	}
	cmd, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := r.pods[pod.UID]
	if runs == nil || r.closed { // removed or closed in the meantime
		return os.RemoveAll(dir)
	}
	p := r.launch(cmd, attempt, c.spec.TerminationMessagePolicy)
	go c.refresh(p.done)
	runs.processes = append(runs.processes, p)
	runs.processes = runs.processes[max(0, len(runs.processes)-2):]
	return nil
}

func (r *Runtime) podDir(pod types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[pod] == nil {
		r.count++
		r.pods[pod] = &podRuns{dir: filepath.Join(r.dir, strconv.Itoa(r.count))}
	}
	return r.pods[pod].dir
}

// Terminate sends SIGTERM to a pod's process, and SIGKILL after the grace period; if that is 0, only SIGKILL.
// Later calls can only shorten the period. It reports whether the process still runs.
func (r *Runtime) Terminate(pod types.UID, grace time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := r.pods[pod]
	if runs == nil || len(runs.processes) == 0 {
		return false
	}
	p := runs.processes[len(runs.processes)-1]
	if p.Exit() != nil {
		return false
	}
	if runs.kill == nil && grace > 0 {
		p.terminate()
	}
	if end := time.Now().Add(grace); runs.kill == nil || end.Before(p.deadline) {
		if runs.kill != nil {
			runs.kill.Stop()
		}
		p.deadline, runs.kill = end, time.AfterFunc(grace, p.kill)
	}
	return true
}

// Remove kills the processes of a pod and removes its folder.
func (r *Runtime) Remove(pod types.UID) {
	if r == nil {
		return
	}
	r.mu.Lock()
	runs := r.pods[pod]
	delete(r.pods, pod)
	r.mu.Unlock()
	if runs != nil {
		go runs.remove()
	}
}

func (p *podRuns) remove() {
	if p.kill != nil {
		p.kill.Stop()
	}
	for _, process := range p.processes {
		process.kill()
		<-process.done
	}
	_ = os.RemoveAll(p.dir)
}

// Close kills all processes, like a node that loses power, and prevents new ones.
func (r *Runtime) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.closed = true
	pods := r.pods
	r.pods = map[types.UID]*podRuns{}
	r.mu.Unlock()
	var all sync.WaitGroup
	for _, runs := range pods {
		all.Go(runs.remove)
	}
	all.Wait()
}

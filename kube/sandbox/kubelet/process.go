package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lockstep/kube/sandbox/container"
)

// lostContainer is what a kubelet reports if a container has disappeared, as after a restart of the sandbox.
var lostContainer = container.Exit{Code: 137, Reason: "ContainerStatusUnknown",
	Message: "The container could not be located when the pod was terminated"}

// findProcess sets process and exit of a pass. If there is a process, the script applies to its container, but the
// process decides how it ends.
func (k *Kubelet) findProcess(p *pass) {
	if p.process = k.runtime.ProcessContainer(p.pod); p.process == "" {
		return
	}
	p.script.container = p.process
	st, _ := containerStatus(p.pod, p.process)
	if process := k.runtime.Find(p.pod.UID, int(st.RestartCount)); process != nil {
		p.exit = process.Exit()
	} else if st.State.Running != nil {
		gone := lostContainer
		gone.At = p.now
		p.exit = &gone
	}
}

// start starts the process of a pass. If writing the status fails afterwards, the next pass finds the running
// process.
func (k *Kubelet) start(ctx context.Context, p *pass) error {
	pod := p.pod.DeepCopy()
	pod.Status = *p.status
	st, _ := containerStatus(pod, p.process)
	err := k.runtime.Start(ctx, pod, p.process, int(st.RestartCount))
	if o, ok, _ := k.pods.GetStore().GetByKey(pod.Namespace + "/" + pod.Name); !ok || o.(*corev1.Pod).UID != pod.UID {
		k.runtime.Remove(pod.UID) // the pod was deleted during the start
	}
	return err
}

// processLog serves the log of a pod's process.
func (k *Kubelet) processLog(w http.ResponseWriter, r *http.Request, pod *corev1.Pod, o logOptions) {
	name := k.runtime.ProcessContainer(pod)
	st, _ := containerStatus(pod, name)
	attempt := int(st.RestartCount)
	if o.previous && st.State.Waiting == nil {
		attempt--
	}
	process := k.runtime.Find(pod.UID, attempt)
	if process == nil {
		http.Error(w, fmt.Sprintf("unable to retrieve container logs for %s", st.ContainerID), http.StatusInternalServerError)
		return
	}
	lines, next, changed := process.Log.From(0)
	past, _ := selectLines(lines, o, time.Now())
	out := &logWriter{w: w, timestamps: o.timestamps, left: o.limit}
	flush := http.NewResponseController(w).Flush
	for {
		for _, l := range past {
			if !out.print(l) {
				return
			}
		}
		if !o.follow || changed == nil || flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		past, next, changed = process.Log.From(next)
	}
}

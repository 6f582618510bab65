package helmclient

import (
	"io"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"lockstep/engine/event"
)

// Helm prints a failed hook's logs at once, and those of successful hooks in reverse order after all hooks
// of the event (helm.sh/hook-output-log-policy). For each hook it lists the pods, then requests their
// logs. Only the list request shows which hook the logs belong to.

// GetPodList calls Helm's client, and records which hook the pods belong to. It returns no pods for a
// hook in the plan: it may not have run yet, so its pods would be those of a previous run.
func (c *Client) GetPodList(namespace string, opts metav1.ListOptions) (*corev1.PodList, error) {
	hook := listedHook(opts)
	unit, scoped := c.hooks.startedUnit(hook)
	if unit == nil && scoped {
		return &corev1.PodList{}, nil
	}
	pods, err := c.cfg.Inner.GetPodList(namespace, opts)
	if err == nil && unit != nil {
		c.hooks.recordPods(unit, pods)
	}
	return pods, err
}

// listedHook returns the hook whose pods Helm lists, "Job/name" or "Pod/name".
func listedHook(opts metav1.ListOptions) string {
	if set, err := labels.ConvertSelectorToLabelsMap(opts.LabelSelector); err == nil && set["job-name"] != "" {
		return "Job/" + set["job-name"]
	}
	if s, err := fields.ParseSelector(opts.FieldSelector); err == nil {
		if name, ok := s.RequiresExactMatch("metadata.name"); ok {
			return "Pod/" + name
		}
	}
	return ""
}

// startedUnit returns the latest unit of a hook that has started, or nil. scoped is set if the hook is in the
// plan. hook is as in listedHook.
func (q *hookQueue) startedUnit(hook string) (unit *hookUnit, scoped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range q.units {
		if u.run != nil && hookName(u.hook) == hook {
			unit = u
		}
	}
	return unit, slices.ContainsFunc(q.scoped, func(s *scopedHook) bool { return hookName(s.Hook) == hook })
}

func hookName(h *release.Hook) string { return h.Kind + "/" + h.Name }

// recordPods records which hook created pods.
func (q *hookQueue) recordPods(u *hookUnit, pods *corev1.PodList) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range pods.Items {
		q.pods[podKey{p.Namespace, p.Name}] = u
	}
}

// podKey names a pod.
type podKey struct{ namespace, name string }

// unitOfPod returns the hook that created a pod, or nil.
func (q *hookQueue) unitOfPod(namespace, name string) *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pods[podKey{namespace, name}]
}

// OutputContainerLogsForPodList calls Helm's client, then flushes incomplete lines.
func (c *Client) OutputContainerLogsForPodList(pods *corev1.PodList, namespace string, to func(namespace, pod, container string) io.Writer) error {
	var lines []*lineWriter
	err := c.cfg.Inner.OutputContainerLogsForPodList(pods, namespace, func(namespace, pod, container string) io.Writer {
		w := to(namespace, pod, container)
		if l, ok := w.(*lineWriter); ok {
			lines = append(lines, l)
		}
		return w
	})
	for _, l := range lines {
		l.flush()
	}
	return err
}

// Output returns the writer for the logs of a hook's container. Lines become events about the
// object of the hook, with the pod and container as message.
func (c *Client) Output(namespace, pod, container string) io.Writer {
	ev := event.Event{Kind: event.KindLog, Source: &event.Source{Pod: pod, Container: container}, Message: "Pod/" + pod + " " + container}
	if u := c.hooks.unitOfPod(namespace, pod); u != nil {
		ev.Phase, ev.Group = u.phase, u.group.ID
		if len(u.group.Objects) > 0 {
			obj := u.group.Objects[0]
			ev.Object = &obj
		}
	}
	return &lineWriter{emit: func(lines []string) {
		ev.Lines = lines
		c.cfg.Engine.Publish(ev)
	}}
}

// maxLine limits how much of an incomplete line lineWriter keeps, in bytes. It emits a longer one in pieces.
const maxLine = 64 << 10

// lineWriter emits complete lines.
type lineWriter struct {
	emit func([]string)
	rest string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	text := w.rest + string(p)
	i := strings.LastIndexByte(text, '\n')
	w.rest = text[i+1:]
	if i >= 0 {
		w.emit(strings.Split(text[:i], "\n"))
	}
	if len(w.rest) > maxLine {
		w.flush()
	}
	return len(p), nil
}

// flush emits an incomplete line.
func (w *lineWriter) flush() {
	if w.rest != "" {
		w.emit([]string{w.rest})
		w.rest = ""
	}
}

package helmclient

import (
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"lockstep/engine/event"
)

// Helm prints the logs of hooks (helm.sh/hook-output-log-policy) when all of an
// event have run, last first, or when one has failed. It asks for the pods of a
// hook, then for their logs: that is where the hook is known from.

// GetPodList returns Helm's own. Whose pods they are is remembered.
func (c *Client) GetPodList(namespace string, opts metav1.ListOptions) (*corev1.PodList, error) {
	pods, err := c.cfg.Inner.GetPodList(namespace, opts)
	if err == nil {
		c.hooks.queue.printing(printed(opts), pods)
	}
	return pods, err
}

// printed returns the hook whose pods Helm asks for, "Job/name" or "Pod/name".
func printed(opts metav1.ListOptions) string {
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

// printing ties pods to the hook that has made them: the latest of its name.
func (q *hookQueue) printing(hook string, pods *corev1.PodList) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range slices.Backward(q.units) {
		if u.run == nil || u.hook.Kind+"/"+u.hook.Name != hook {
			continue
		}
		for _, p := range pods.Items {
			q.pods[podKey{p.Namespace, p.Name}] = u
		}
		return
	}
}

// podKey names a pod.
type podKey struct{ namespace, name string }

// ofPod returns the unit that has made a pod, or nil.
func (q *hookQueue) ofPod(namespace, name string) *hookUnit {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pods[podKey{namespace, name}]
}

// OutputContainerLogsForPodList returns Helm's own. A last line without an end is
// told as well.
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
		l.end()
	}
	return err
}

// Output returns the writer for what Helm prints of hooks' logs: the lines become
// events about the hook's own object, which name the pod.
func (h *Hooks) Output(namespace, pod, container string) io.Writer {
	ev := event.Event{Kind: event.KindLog, Message: "Pod/" + pod + " " + container}
	if u := h.queue.ofPod(namespace, pod); u != nil {
		ev.Phase, ev.Group = u.phase, u.group.ID
		if len(u.group.Objects) > 0 {
			obj := u.group.Objects[0]
			ev.Object = &obj
		}
	}
	return &lineWriter{emit: func(lines []string) {
		ev.Lines = lines
		h.cfg.Engine.Publish(ev)
	}}
}

// longestLine is where a line is cut that does not end.
const longestLine = 64 << 10

// lineWriter cuts what is written into lines.
type lineWriter struct {
	emit func([]string)
	rest string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	text := w.rest + string(p)
	i := strings.LastIndexByte(text, '\n')
	switch {
	case i < 0 && len(text) > longestLine:
		w.rest = ""
		w.emit([]string{text})
		return len(p), nil
	case i < 0:
		w.rest = text
		return len(p), nil
	}
	w.rest = text[i+1:]
	w.emit(strings.Split(text[:i], "\n"))
	return len(p), nil
}

// end emits a last line that has no end.
func (w *lineWriter) end() {
	if w.rest != "" {
		w.emit([]string{w.rest})
		w.rest = ""
	}
}

package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"lockstep/kube/sandbox/container"
)

type line = container.Line

// logOptions are the query parameters of a kubelet's log endpoint.
type logOptions struct {
	follow, previous, timestamps bool
	tail                         int // -1 for all
	limit                        int // in bytes, -1 for none
	since                        time.Time
}

func parseLogOptions(q url.Values, now time.Time) (logOptions, error) {
	o := logOptions{tail: -1, limit: -1}
	o.follow, o.previous, o.timestamps = q.Get("follow") == "true", q.Get("previous") == "true", q.Get("timestamps") == "true"
	var err error
	number := func(name string, to *int) {
		if s := q.Get(name); s != "" && err == nil {
			if *to, err = strconv.Atoi(s); err != nil || *to < 0 {
				err = fmt.Errorf("%s: %q is not a number from 0 up", name, s)
			}
		}
	}
	seconds := -1
	number("tailLines", &o.tail)
	number("limitBytes", &o.limit)
	number("sinceSeconds", &seconds)
	if seconds >= 0 {
		o.since = now.Add(-time.Duration(seconds) * time.Second)
	}
	if s := q.Get("sinceTime"); s != "" && err == nil {
		o.since, err = time.Parse(time.RFC3339, s)
	}
	return o, err
}

// attemptTimes are the start and the end of an attempt of a container.
type attemptTimes struct {
	begin time.Time
	end   time.Time // zero while it runs
}

// loggedAttempt returns the times of the attempt whose log is requested, or an error with a kubelet's message.
func loggedAttempt(pod *corev1.Pod, container string, previous bool, h history) (attemptTimes, error) {
	c, ok := containerStatus(pod, container)
	last := c.LastTerminationState.Terminated
	switch {
	case !ok:
		return attemptTimes{}, fmt.Errorf("container %q in pod %q is not available", container, pod.Name)
	case previous && last == nil:
		return attemptTimes{}, fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	case previous:
		return attemptTimes{last.StartedAt.Time, last.FinishedAt.Time}, nil
	case c.State.Running != nil:
		return attemptTimes{begin: exactTime(h.begin, c.State.Running.StartedAt.Time)}, nil
	case c.State.Terminated != nil:
		t := c.State.Terminated
		return attemptTimes{exactTime(h.begin, t.StartedAt.Time), exactTime(h.end, t.FinishedAt.Time)}, nil
	case last != nil:
		return attemptTimes{exactTime(h.begin, last.StartedAt.Time), exactTime(h.end, last.FinishedAt.Time)}, nil
	case c.State.Waiting == nil:
		return attemptTimes{}, fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", container, pod.Name)
	}
	why := c.State.Waiting.Reason
	switch why {
	case "ErrImagePull":
		why = "image can't be pulled"
	case "ImagePullBackOff":
		why = "trying and failing to pull image"
	}
	return attemptTimes{}, fmt.Errorf("container %q in pod %q is waiting to start: %s", container, pod.Name, why)
}

// exactTime returns the remembered time if it matches the reported one, which is truncated to seconds.
func exactTime(remembered, reported time.Time) time.Time {
	if d := remembered.Sub(reported); d >= 0 && d < time.Second {
		return remembered
	}
	return reported
}

func containerStatus(pod *corev1.Pod, name string) (corev1.ContainerStatus, bool) {
	return podutil.GetContainerStatus(slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses), name)
}

// logLines returns the whole output of an attempt. If the container exits by itself, the lines are spread over its
// duration.
func logLines(pod *corev1.Pod, container string, s script, a attemptTimes) []line {
	text := strings.TrimSuffix(s.log, "\n")
	if text == "" || !s.appliesTo(container) {
		text = fmt.Sprintf("container %s of pod %s is simulated, so it has no output", container, pod.Name)
	}
	texts := strings.Split(text, "\n")
	length := time.Duration(0)
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || s.exitCode != 0 {
		length = s.runDuration
	}
	if !a.end.IsZero() {
		length = min(length, a.end.Sub(a.begin))
	}
	lines := make([]line, len(texts))
	for i, t := range texts {
		lines[i] = line{At: a.begin.Add(length * time.Duration(i) / time.Duration(len(texts))), Text: t}
	}
	return lines
}

// selectLines returns the requested lines up to now, and the later lines.
func selectLines(lines []line, o logOptions, now time.Time) (past, future []line) {
	for i, l := range lines {
		if l.At.After(now) {
			future = lines[i:]
			break
		}
		if !l.At.Before(o.since) {
			past = append(past, l)
		}
	}
	if o.tail >= 0 && len(past) > o.tail {
		past = past[len(past)-o.tail:]
	}
	return past, future
}

// logWriter prints lines until its limit is reached.
type logWriter struct {
	w          io.Writer
	timestamps bool
	left       int // bytes, -1 for no limit
}

// print returns false once nothing more can be written.
func (l *logWriter) print(x line) bool {
	text := x.Text + "\n"
	if l.timestamps {
		text = x.At.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " " + text
	}
	if l.left >= 0 {
		text = text[:min(len(text), l.left)]
		l.left -= len(text)
	}
	_, err := io.WriteString(l.w, text)
	return err == nil && l.left != 0
}

// followPeriod is the interval at which a followed log checks whether its container still runs.
const followPeriod = 100 * time.Millisecond

// serve serves the kubelet API for logs and exec, and returns its port.
func (k *Kubelet) serve(ctx context.Context, o Options) (int, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(hostIP, "0"))
	if err != nil {
		return 0, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("POST /exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the sandbox simulates logs and exec only: no attach or port-forward", http.StatusNotImplemented)
	})
	// A client can be faster than a sandbox that still reads the pods of its data folder.
	synced := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cache.WaitForCacheSync(r.Context().Done(), k.pods.HasSynced)
		mux.ServeHTTP(w, r)
	})
	srv := &http.Server{Handler: synced, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{o.Certificate}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: o.Clients,
	}}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() { _ = srv.ServeTLS(ln, "", "") }()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

func (k *Kubelet) logs(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	o, err := parseLogOptions(r.URL.Query(), now)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, container := k.pod(r), r.PathValue("container")
	if pod == nil {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	a, err := loggedAttempt(pod, container, o.previous, k.history(pod.UID))
	if err != nil { // the cache may be older than the status that the client has seen
		if latest, getErr := k.client.CoreV1().Pods(pod.Namespace).Get(r.Context(), pod.Name, metav1.GetOptions{}); getErr == nil {
			pod = latest
			a, err = loggedAttempt(pod, container, o.previous, k.history(pod.UID))
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if container == k.runtime.ProcessContainer(pod) {
		k.processLog(w, r, pod, o)
		return
	}
	s, _ := parseScript(pod)
	past, future := selectLines(logLines(pod, container, s, a), o, now)
	out := &logWriter{w: w, timestamps: o.timestamps, left: o.limit}
	for _, l := range past {
		if !out.print(l) {
			return
		}
	}
	if o.follow && !o.previous && a.end.IsZero() {
		k.follow(w, r, a, future, out)
	}
}

// follow prints each line at its time, until the attempt ends or the client disconnects.
func (k *Kubelet) follow(w http.ResponseWriter, r *http.Request, a attemptTimes, lines []line, out *logWriter) {
	flush := http.NewResponseController(w).Flush
	if flush() != nil {
		return
	}
	t := time.NewTicker(followPeriod)
	defer t.Stop()
	for {
		pod := k.pod(r)
		if pod == nil {
			return
		}
		current, err := loggedAttempt(pod, r.PathValue("container"), false, k.history(pod.UID))
		over := err != nil || !current.end.IsZero() || !current.begin.Equal(a.begin)
		due := time.Now()
		if over && err == nil && current.begin.Equal(a.begin) {
			due = current.end
		}
		for len(lines) > 0 && !lines[0].At.After(due) {
			if !out.print(lines[0]) {
				return
			}
			lines = lines[1:]
		}
		if over || flush() != nil {
			return
		}
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
}

// pod returns the pod of a request, or nil.
func (k *Kubelet) pod(r *http.Request) *corev1.Pod {
	o, ok, err := k.pods.GetStore().GetByKey(r.PathValue("namespace") + "/" + r.PathValue("pod"))
	if err != nil || !ok {
		return nil
	}
	return o.(*corev1.Pod)
}

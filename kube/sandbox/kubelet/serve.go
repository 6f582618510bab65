package kubelet

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// followPeriod is how often a followed log looks whether its container still runs.
const followPeriod = 100 * time.Millisecond

// serve answers what the API server asks of kubelets, as far as it is simulated: the logs of containers.
// It returns its port.
func (k *Kubelet) serve(ctx context.Context, o Options) (int, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(hostIP, "0"))
	if err != nil {
		return 0, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the sandbox simulates logs only: no exec, attach or port-forward", http.StatusNotImplemented)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, TLSConfig: &tls.Config{
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
	a, err := logged(pod, container, o.previous, k.history(pod.UID))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s, _ := parseScript(pod)
	past, future := selected(logLines(pod, container, s, a), o, now)
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

// follow prints lines as they come, until the container's run is over or the client goes away.
func (k *Kubelet) follow(w http.ResponseWriter, r *http.Request, a attempt, lines []line, out *logWriter) {
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
		is, err := logged(pod, r.PathValue("container"), false, k.history(pod.UID))
		over := err != nil || !is.end.IsZero() || !is.begin.Equal(a.begin)
		due := time.Now()
		if over && err == nil && is.begin.Equal(a.begin) {
			due = is.end // what it printed up to its end is still to come out
		}
		for len(lines) > 0 && !lines[0].at.After(due) {
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

// pod returns the pod that a request is about, nil if there is none.
func (k *Kubelet) pod(r *http.Request) *corev1.Pod {
	o, ok, err := k.pods.GetStore().GetByKey(r.PathValue("namespace") + "/" + r.PathValue("pod"))
	if err != nil || !ok {
		return nil
	}
	return o.(*corev1.Pod)
}

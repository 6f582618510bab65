package diagnose

import (
	"bufio"
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/kube/status"
)

// shownLines is how many past lines Logs starts with.
const shownLines = 500

// Logs reads the last 500 lines that a container has written and, with follow,
// what it writes from now on. An empty name stands for the container with the
// problem. The caller closes the result, which also ends with ctx. The text is
// raw: use status.CleanText on each line.
func (d *Diagnoser) Logs(ctx context.Context, pod Pod, container string, follow bool) (io.ReadCloser, error) {
	if container == "" {
		container = pod.culprit
	}
	lines := int64(shownLines)
	r, err := d.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name,
		&corev1.PodLogOptions{Container: container, Follow: follow, TailLines: &lines}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read logs of pod %s: %w", pod.Name, err)
	}
	return r, nil
}

// tail reads the last n lines of a container. If it has been restarted and runs,
// they are those of the previous run, which is the one that failed.
func (d *Diagnoser) tail(ctx context.Context, p Pod, container string, n int) ([]string, error) {
	previous := false
	for _, c := range p.Containers {
		if c.Name == container {
			previous = c.State == "running" && c.Restarts > 0
		}
	}
	lines, err := d.lastLines(ctx, p, container, n, previous)
	if previous && (len(lines) == 0 || apierrors.IsBadRequest(err) || apierrors.IsNotFound(err)) {
		return d.lastLines(ctx, p, container, n, false)
	}
	return lines, err
}

func (d *Diagnoser) lastLines(ctx context.Context, p Pod, container string, n int, previous bool) ([]string, error) {
	tail, limit := int64(n), int64(256<<10)
	r, err := d.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: container, TailLines: &tail, LimitBytes: &limit, Previous: previous,
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var lines []string
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, int(limit)+1)
	for scan.Scan() {
		if text := status.CleanText(scan.Text()); text != "" {
			lines = append(lines, text)
		}
	}
	return lines, scan.Err()
}

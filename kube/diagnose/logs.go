package diagnose

import (
	"bufio"
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lockstep/kube/status"
)

// shownLines is how many past lines of a container FollowLogs starts with.
const shownLines = 500

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

package stepjob

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"lockstep/engine/parallel"
	"lockstep/kube/program"
)

// maxFailures limits how often the log of a container that has ended is tried to be read.
const maxFailures = 5

// follow waits until the Job has ended, and copies the log of its pod to out. It returns why the Job failed.
func (j Job) follow(ctx context.Context, kube kubernetes.Interface, job *batchv1.Job, out io.Writer, waiting func()) error {
	copied, failures, read := int64(0), 0, false
	for {
		pod, err := j.pod(ctx, kube, job)
		if err != nil {
			return err
		}
		switch {
		case pod == nil || !started(pod):
			waiting()
		case !read:
			n, err := copyLog(ctx, kube, pod, copied, out)
			copied += n
			if read = err == nil && ended(pod); err != nil && ended(pod) { // else it may have more
				failures++
			}
			if failures == maxFailures || apierrors.IsForbidden(err) {
				fmt.Fprintf(out, "the log of pod %s/%s cannot be read: %v\n", pod.Namespace, pod.Name, err)
				read = true
			}
		}
		now, err := kube.BatchV1().Jobs(j.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != job.UID:
			return fmt.Errorf("Job %s/%s was deleted by somebody else", j.Namespace, job.Name)
		case err != nil:
			return fmt.Errorf("read Job %s/%s: %w", j.Namespace, job.Name, err)
		}
		if over, failed := result(now); over && (read || pod == nil || !started(pod)) {
			return explain(pod, failed)
		}
		if err := parallel.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// pod returns the pod of the Job, nil if there is none.
func (j Job) pod(ctx context.Context, kube kubernetes.Interface, job *batchv1.Job) (*corev1.Pod, error) {
	pods, err := kube.CoreV1().Pods(j.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + string(job.UID)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of Job %s/%s: %w", j.Namespace, job.Name, err)
	}
	if len(pods.Items) == 0 {
		return nil, nil
	}
	return &pods.Items[0], nil
}

// state returns the state of the container of the step. Others, such as a sidecar that a webhook has added, do not count.
func state(pod *corev1.Pod) corev1.ContainerState {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return s.State
		}
	}
	return corev1.ContainerState{}
}

func started(pod *corev1.Pod) bool { return state(pod).Running != nil || ended(pod) }

func ended(pod *corev1.Pod) bool { return state(pod).Terminated != nil }

// copyLog copies the log of the container, without what was copied before, until it ends or the connection is cut.
func copyLog(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod, copied int64, out io.Writer) (int64, error) {
	log, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container, Follow: true}).Stream(ctx)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	lines := bufio.NewReader(log)
	if _, err := io.CopyN(io.Discard, lines, copied); err == io.EOF { // the kubelet has rotated it
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	return io.Copy(out, lines)
}

// explain returns the error of a Job that has ended: the exit code of its container, if there is one.
func explain(pod *corev1.Pod, failed error) error {
	if failed == nil {
		return nil
	}
	if pod != nil {
		if t := state(pod).Terminated; t != nil && t.ExitCode != 0 {
			return &program.ExitError{Code: int(t.ExitCode)}
		}
		if pod.Status.Message != "" { // evicted
			failed = errors.New(pod.Status.Message)
		}
	}
	return failed
}

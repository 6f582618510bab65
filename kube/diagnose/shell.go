package diagnose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/muesli/cancelreader"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/kubectl/pkg/util/interrupt"
	"k8s.io/kubectl/pkg/util/term"
	"k8s.io/streaming/pkg/httpstream"

	"lockstep/engine/inspect"
	"lockstep/engine/plan"
)

// notRunning returns the error about the chosen pod and container, or about all if they are "".
func notRunning(pod, container string) inspect.Unavailable {
	switch {
	case pod == "" && container == "":
		return "none of its containers is running"
	case container == "":
		return inspect.Unavailable(fmt.Sprintf("no container of pod %s is running", pod))
	case pod == "":
		return inspect.Unavailable(fmt.Sprintf("container %s is not running", container))
	}
	return inspect.Unavailable(fmt.Sprintf("container %s of pod %s is not running", container, pod))
}

// Shell is a shell in a container.
type Shell struct {
	Pod, Container string
	executor       remotecommand.Executor
}

// Shell prepares a shell in a running container of an object's pods, without starting it. An empty pod or container means
// the one with the worst problem. It fails if no matching container is running or exec is not permitted.
func (d *Diagnoser) Shell(ctx context.Context, o plan.Object, pod, container string) (*Shell, error) {
	pods, err := d.Pods(ctx, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("cannot open a shell: %s does not exist", o)
	case errors.Is(err, ErrNoPods):
		return nil, fmt.Errorf("cannot open a shell: %s has no containers", o)
	case err != nil:
		return nil, err
	}
	p, c := runningContainer(pods, pod, container)
	if c == "" {
		return nil, fmt.Errorf("open a shell in %s: %w", o, notRunning(pod, container))
	}
	if err := d.mayExec(ctx, p); err != nil {
		return nil, err
	}
	config, err := d.clients.StreamConfig()
	if err != nil {
		return nil, err
	}
	options := &corev1.PodExecOptions{
		Container: c,
		Command:   []string{"sh", "-c", "command -v bash >/dev/null && exec bash || exec sh"},
		Stdin:     true, Stdout: true, TTY: true,
	}
	request := d.kube.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("exec").
		VersionedParams(options, scheme.ParameterCodec)
	executor, err := newExecutor(config, request)
	if err != nil {
		return nil, fmt.Errorf("open a shell in pod %s: %w", p.Name, err)
	}
	return &Shell{Pod: p.Name, Container: c, executor: executor}, nil
}

// runningContainer returns the first pod with a running container, and that container: the pod's culprit if it is
// running. pod and container limit the choice unless they are "".
func runningContainer(pods []Pod, pod, container string) (Pod, string) {
	for _, p := range pods {
		if pod != "" && p.Name != pod {
			continue
		}
		best := ""
		for _, c := range p.Containers {
			switch {
			case c.State != "running", container != "" && c.Name != container:
			case best == "", c.Name == p.culprit:
				best = c.Name
			}
		}
		if best != "" {
			return p, best
		}
	}
	return Pod{}, ""
}

// mayExec returns an error if the user is not permitted to exec into a pod.
func (d *Diagnoser) mayExec(ctx context.Context, p Pod) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: p.Namespace, Verb: "create", Resource: "pods", Subresource: "exec", Name: p.Name}}}
	answer, err := d.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("check the permission for a shell in pod %s: %w", p.Name, err)
	case !answer.Status.Allowed:
		return fmt.Errorf("a shell needs permission to create pods/exec in namespace %s", p.Namespace)
	}
	return nil
}

// newExecutor uses WebSocket and, like kubectl, falls back to SPDY for old servers.
func newExecutor(config *rest.Config, request *rest.Request) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	if err != nil {
		return nil, err
	}
	socket, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// Run runs the shell on a terminal until it exits or ctx is done. It sets the terminal to raw mode and restores it. It
// handles no signals, and leaves unread input to later readers.
func (s *Shell) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	cancellable, err := cancelreader.NewReader(in)
	if err != nil {
		return fmt.Errorf("read the terminal: %w", err)
	}
	stdin := &endingReader{CancelReader: cancellable}
	defer stdin.end()
	tty := term.TTY{In: in, Out: out, Raw: true, Parent: interrupt.New(func(os.Signal) {})}
	var size remotecommand.TerminalSizeQueue
	if queue := tty.MonitorSize(tty.GetSize()); queue != nil { // nil: not a terminal
		size = sizeQueue{queue}
	}
	if _, err := fmt.Fprintf(out, "shell in pod %s, container %s; exit returns to lockstep\n", s.Pod, s.Container); err != nil {
		return err
	}
	return tty.Safe(func() error {
		err := s.executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: out, Tty: true, TerminalSizeQueue: size})
		if exited := new(exec.CodeExitError); errors.As(err, exited) && exited.Code != 126 && exited.Code != 127 { // 126, 127: the shell did not start
			return nil // the exit code of the last command, not an error
		}
		if err != nil {
			return fmt.Errorf("shell in pod %s, container %s: %w", s.Pod, s.Container, err)
		}
		return nil
	})
}

// endingReader is a reader whose last Read has returned before end does, so that it takes nothing from later readers.
type endingReader struct {
	cancelreader.CancelReader
	reading sync.Mutex
}

func (r *endingReader) Read(p []byte) (int, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	return r.CancelReader.Read(p)
}

func (r *endingReader) end() {
	if r.Cancel() { // else nothing can interrupt the Read
		r.reading.Lock()
		defer r.reading.Unlock()
	}
	_ = r.Close()
}

// sizeQueue adapts kubectl's queue of terminal sizes to client-go's.
type sizeQueue struct{ term.TerminalSizeQueue }

func (s sizeQueue) Next() *remotecommand.TerminalSize {
	return (*remotecommand.TerminalSize)(s.TerminalSizeQueue.Next())
}

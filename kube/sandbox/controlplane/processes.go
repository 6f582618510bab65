package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"lockstep/kube/sandbox/command"
	"lockstep/kube/sandbox/pki"
)

// killAfter is how long a component may take to end.
const killAfter = 4 * time.Second

// Processes are the components of another Kubernetes version, each a process.
type Processes struct {
	Program string // its first argument names the component, the rest are that component's own
	LogFile string // what they print is appended to it
}

// StartAPIServer is that of Embedded.
func (p Processes) StartAPIServer(ctx context.Context, c APIServerConfig) (<-chan error, error) {
	args, err := apiServerArgs(c)
	if err != nil {
		return nil, err
	}
	// The port was only held for it.
	if err := c.Listener.Close(); err != nil {
		return nil, err
	}
	args = append(args, "--secure-port="+strconv.Itoa(c.Listener.Addr().(*net.TCPAddr).Port))
	done := make(chan error, 1)
	go func() { done <- p.run(ctx, "kube-apiserver", args) }()
	return done, nil
}

// RunControllerManager is that of Embedded.
func (p Processes) RunControllerManager(ctx context.Context, kubeconfig string, k *pki.PKI) error {
	// Older versions look at a HorizontalPodAutoscaler only after that period, 15 s if not given.
	args := append(controllerManagerArgs(kubeconfig, k, leftOutAlways), "--horizontal-pod-autoscaler-sync-period=1s")
	return p.run(ctx, "kube-controller-manager", args)
}

// RunScheduler is that of Embedded.
func (p Processes) RunScheduler(ctx context.Context, kubeconfig string) error {
	return p.run(ctx, "kube-scheduler", schedulerArgs(kubeconfig))
}

// run runs a component until ctx ends and it has ended too.
func (p Processes) run(ctx context.Context, component string, args []string) error {
	// It is told of the death of the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.Program, append([]string{component}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = command.EndWithParent()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", p.Program, err)
	}
	return nil
}

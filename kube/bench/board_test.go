package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/creack/pty"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// board compares a large install with and without the screen.
func (s *session) board() error {
	chart, err := s.chart("large", chained(300, 33, grouped))
	if err != nil {
		return err
	}
	const without, with = "large-without", "large-with"
	used, err := s.run(lockstep, command(lockstep, "install", chart, without, "--timeout", "10m")...)
	if err != nil {
		return err
	}
	s.figure("install without the screen", "s", 0).add(lockstep, used.seconds())
	s.figure("memory without the screen", "MB", 400).add(lockstep, used.peak)
	took, used, err := s.onScreen("install", "r", chart, "-n", with, "--create-namespace", "--timeout", "10m")
	if err != nil {
		return err
	}
	seen := s.figure("install with the screen vs. without", "×", 1.1)
	seen.add(lockstep, took.Seconds()/s.figure("install without the screen", "s", 0).value(lockstep))
	s.figure("memory with the screen", "MB", 400).add(lockstep, used.peak)
	return nil
}

// onScreen runs lockstep in a terminal until the release is deployed, then quits the screen. took is the time until the
// release was deployed.
func (s *session) onScreen(args ...string) (took time.Duration, used processUsage, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(s.ctx, s.programs[lockstep], args...)
	cmd.Env = s.env
	start := time.Now()
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		return 0, used, fmt.Errorf("open a terminal: %w", err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, screen) // fails when the process exits
	}()
	go func() {
		<-drained // the process has exited
		cancel()
	}()
	err = s.deployed(ctx, args[4])
	took = time.Since(start)
	for range 40 { // the screen ignores q until it has received the end of the run
		if _, werr := screen.Write([]byte("q")); werr != nil {
			break
		}
		select {
		case <-drained:
		case <-time.After(250 * time.Millisecond):
			continue
		}
		break
	}
	_ = screen.Close()
	err = errors.Join(err, cmd.Wait())
	used.record(cmd)
	return took, used, err
}

// deployed waits until the first revision of the release in a namespace is deployed.
func (s *session) deployed(ctx context.Context, namespace string) error {
	for {
		found, err := s.client.Resource(secretGVR).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,status=deployed"})
		if err != nil {
			return fmt.Errorf("look for the release: %w", err)
		}
		if len(found.Items) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the release in %s: %w", namespace, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

package helmfile

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// expand runs helmfile build on a file with templates. at is the position of the first template.
func (r *reader) expand(at position) ([]*node, error) {
	if at.path == "-" {
		return nil, at.errorf("standard input has helmfile templates; pipe the expanded file: %s", pipeHelmfile)
	}
	program, err := exec.LookPath("helmfile")
	if err != nil {
		return nil, at.errorf("templates need helmfile, which is not in PATH; install it, or expand the file on a machine that has it: helmfile build --embed-values > expanded.yaml")
	}
	args := []string{"-f", at.path, "-e", r.Environment, "--quiet"}
	for _, file := range r.StateValuesFiles {
		args = append(args, "--state-values-file", file)
	}
	for _, set := range r.StateValuesSet {
		args = append(args, "--state-values-set", set)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(r.ctx, program, append(args, "build", "--embed-values")...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && stderr.Len() > 0 {
			err = errors.New(strings.TrimSpace(stderr.String()))
		}
		return nil, fmt.Errorf("%s: helmfile build: %w", at, err)
	}
	docs, err := parse(at.path, stdout.Bytes())
	if err != nil {
		return nil, fmt.Errorf("read the output of helmfile build: %w", err)
	}
	return docs, nil
}

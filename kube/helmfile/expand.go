package helmfile

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// expand runs helmfile build on a file with templates. at is the position of the first one.
func (r *reader) expand(at position) ([]*node, error) {
	const pipe = "helmfile build --embed-values | lockstep up -f -"
	if at.path == "-" {
		return nil, at.errorf("standard input has helmfile templates; pipe the expanded file: %s", pipe)
	}
	program, err := exec.LookPath("helmfile")
	if err != nil {
		return nil, at.errorf("templates need helmfile, which is not in PATH; install it, or pipe the expanded file: %s", pipe)
	}
	args := []string{"-f", at.path, "-e", r.Environment, "--quiet"}
	for _, file := range r.StateValuesFiles {
		args = append(args, "--state-values-file", file)
	}
	for _, set := range r.StateValuesSet {
		args = append(args, "--state-values-set", set)
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(r.ctx, program, append(args, "build", "--embed-values")...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && problems.Len() > 0 {
			err = errors.New(strings.TrimSpace(problems.String()))
		}
		return nil, fmt.Errorf("%s: helmfile build: %w", at, err)
	}
	docs, err := parse(at.path, out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("read the output of helmfile build: %w", err)
	}
	return docs, nil
}

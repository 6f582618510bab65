//go:build !unix

package cli

import (
	"errors"
	"os"
	"os/exec"
)

// become runs another program in place of this one.
func become(path string, argv []string) error {
	cmd := &exec.Cmd{Path: path, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return exitWith(ended.ExitCode(), nil)
	}
	return err
}

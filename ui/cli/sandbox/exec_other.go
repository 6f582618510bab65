//go:build !unix

package sandbox

import (
	"errors"
	"os"
	"os/exec"

	"lockstep/ui/cli/command"
)

// replaceProcess runs another program and returns its exit code.
func replaceProcess(path string, argv []string) error {
	cmd := &exec.Cmd{Path: path, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return command.Exit(ended.ExitCode(), nil)
	}
	return err
}

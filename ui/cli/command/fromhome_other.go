//go:build !unix

package command

import "os/exec"

// TellHome does nothing: home only knows the exit code.
func TellHome(string) {}

// startForHome starts a command. wait waits for its end, and returns how it failed.
func startForHome(cmd *exec.Cmd) (wait func() string, err error) {
	return func() string {
		if err := cmd.Wait(); err != nil {
			return err.Error()
		}
		return ""
	}, cmd.Start()
}

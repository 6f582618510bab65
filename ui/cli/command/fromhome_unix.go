//go:build unix

package command

import (
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// homePipe is the file descriptor of toHome: the first one after the standard streams.
const homePipe = 3

// toHome takes what home says about the end of this command. Home reads it until it is closed, because the command has ended or
// has dropped the terminal. It is nil if home has not started this process.
var toHome = func() *os.File {
	if startedByHome == "" {
		return nil
	}
	unix.CloseOnExec(homePipe)
	return os.NewFile(homePipe, "home")
}()

// TellHome tells home the error of this command, if home has started it.
func TellHome(failure string) {
	if toHome != nil {
		_, _ = toHome.WriteString(failure) // home may have ended; the error is printed, too
	}
}

// startForHome starts a command. wait returns what it tells home.
func startForHome(cmd *exec.Cmd) (wait func() string, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{to}
	err = cmd.Start()
	_ = to.Close()
	if err != nil {
		_ = from.Close()
		return nil, err
	}
	return func() string {
		defer from.Close()
		told, _ := io.ReadAll(from)    // an error ends it, too
		go func() { _ = cmd.Wait() }() // whether it has failed is told
		return string(told)
	}, nil
}

package command

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// byHomeVar is set in the environment of a process whose command home has started.
const byHomeVar = "LOCKSTEP_STARTED_BY_HOME"

// startedByHome is where home returns to after this process: "home", "the history"; "" if home has not started it. The processes
// that this one starts do not inherit it.
var startedByHome = func() string {
	defer func() { _ = os.Unsetenv(byHomeVar) }() // fails only for an invalid name
	return os.Getenv(byHomeVar)
}()

// RunFromHome runs a command line of lockstep in another process until it ends, or no longer needs the terminal: a run that
// the user leaves continues in that process, also after home has ended. returnTo is what is shown then, "home" or a part of it. It returns the error that the command has printed, "" for none.
func RunFromHome(args []string, returnTo string) (failure string) {
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), byHomeVar+"="+returnTo)
	wait, err := startForHome(cmd)
	if err != nil {
		return err.Error()
	}
	defer relayTerminate(cmd.Process)()
	return wait()
}

// relayTerminate passes SIGTERM on to a process until stop is called. Other signals come from the terminal, which sends them
// to both processes.
func relayTerminate(p *os.Process) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for sig := range signals {
			_ = p.Signal(sig) // fails if it has ended
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

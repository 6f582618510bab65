package deploy

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// TestLateInterruptEndsTheCommand interrupts an uninstallation of several
// releases when the first is over: the others stay, and it says so.
func TestLateInterruptEndsTheCommand(t *testing.T) {
	a := &app{command.NewApp(command.NewSignals(t.Context()))}
	var said strings.Builder
	var done []string
	uninstalls := execute{writes: true, job: func(cmd *cobra.Command, j job) error {
		if err := a.Signals.Steer(&obedient{}, command.OnSignal{}, report.NewNotices(report.Stream{Writer: &said})); err != nil {
			return err
		}
		defer a.Signals.Finished()
		done = append(done, j.release)
		a.Signals.Handle(os.Interrupt) // after the closing event: nobody answers
		return nil
	}}
	cmd := a.newUninstall(uninstalls)
	cmd.SetArgs([]string{"a", "b", "c", "--no-tui"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(a.Signals.Context)
	if command.ExitCode(err) != command.ExitAborted || err.Error() != "interrupted; not uninstalled: b, c" || len(done) != 1 {
		t.Errorf("%v is uninstalled, and the error is %v", done, err)
	}
	if said.String() != "interrupt: too late, the operation has ended\n" {
		t.Errorf("it says %q", said.String())
	}
	if a.Signals.Context.Err() == nil || context.Cause(a.Signals.Context) != command.ErrInterrupted {
		t.Error("what comes next is not told to end")
	}
}

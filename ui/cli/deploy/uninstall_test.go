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

// TestSignalAfterFirstUninstall: a signal after the first of several releases is uninstalled
// keeps the others, and the error names them.
func TestSignalAfterFirstUninstall(t *testing.T) {
	a := &app{command.NewApp(command.NewSignals(t.Context()))}
	var said strings.Builder
	var done []string
	uninstalls := executor{writes: true, run: func(cmd *cobra.Command, spec operationSpec) error {
		if err := a.Signals.Bind(&fakeOperation{}, command.SignalPolicy{}, new(report.NewNotices(report.Stream{Writer: &said}))); err != nil {
			return err
		}
		defer a.Signals.Unbind()
		done = append(done, spec.release)
		a.Signals.Handle(os.Interrupt) // after the last event, so there is no reply
		return nil
	}}
	cmd := a.newUninstall(uninstalls)
	cmd.SetArgs([]string{"a", "b", "c", "--no-tui"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(a.Signals.Context)
	if command.ExitCode(err) != command.ExitAborted || err.Error() != "interrupted; not uninstalled: b, c" || len(done) != 1 {
		t.Errorf("uninstalled %v, error %v", done, err)
	}
	if said.String() != "Ctrl-C: too late, the operation has ended\n" {
		t.Errorf("printed %q", said.String())
	}
	if a.Signals.Context.Err() == nil || context.Cause(a.Signals.Context) != command.ErrInterrupted {
		t.Error("the context is not cancelled")
	}
}

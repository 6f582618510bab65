// Package runs holds the commands about runs: live ones (attach, ctl) and recorded
// ones (runs, replay).
package runs

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// app gives this package's commands what all commands share.
type app struct{ *command.App }

// Commands are the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{a.newAttach(), a.newCtl(), a.newRuns(), a.newReplay()}
}

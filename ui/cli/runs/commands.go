// Package runs implements the commands for runs: attach and ctl for live ones, runs and replay
// for recorded ones. Only ui/cli and its packages import it.
package runs

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

type app struct{ *command.App }

// Commands returns the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{a.newAttach(), a.newCtl(), a.newRuns(), a.newReplay()}
}

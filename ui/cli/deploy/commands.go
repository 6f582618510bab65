// Package deploy holds the commands that change a release, and plan. Flags are parsed
// into a job; execute runs it, on the screen or as lines, or previews it.
package deploy

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// app gives this package's commands what all commands share.
type app struct{ *command.App }

// Commands are the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	run := execute{job: a.operate, writes: true}
	return []*cobra.Command{
		a.newInstall(run), a.newUpgrade(run), a.newRollback(run), a.newUninstall(run), a.newTest(run), a.newPlan(), a.newRBAC(), a.newRecover(), a.newManifests(), a.newUp(), a.newDown(),
	}
}

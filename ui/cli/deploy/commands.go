// Package deploy implements the commands that change releases, and plan. A command parses its
// flags into a job; an executor runs the job, on the screen or as lines, or previews it. Only
// ui/cli imports it.
package deploy

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

type app struct{ *command.App }

// Commands returns the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	run := executor{run: a.operate, writes: true}
	return []*cobra.Command{
		a.newInstall(run), a.newUpgrade(run), a.newRollback(run), a.newUninstall(run), a.newTest(run), a.newPlan(), a.newRBAC(), a.newRecover(), a.newManifests(), a.newUp(), a.newDown(),
	}
}

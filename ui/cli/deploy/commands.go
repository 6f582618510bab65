// Package deploy implements the commands that change or test releases, and plan, rbac and manifests. For one
// release, a command turns its flags into an operationSpec, and an executor runs or previews it, on the
// screen or as lines. up and down run a kube.Stack instead. Only ui/cli imports it.
package deploy

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

type app struct{ *command.App }

// Commands returns the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	exec := executor{run: a.prepareAndRun, writes: true}
	return []*cobra.Command{
		a.newInstall(exec), a.newUpgrade(exec), a.newRollback(exec), a.newUninstall(exec), a.newTest(exec),
		a.newUp(), a.newDown(),
		a.newPlan(), a.newRBAC(), a.newRecover(), a.newManifests(),
	}
}

// Package releases implements the commands that read releases: status, watch, drift, and history, list
// and get, which print what Helm's commands print. Packages ui/cli and ui/cli/deploy import it.
package releases

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

type app struct {
	*command.App
	repair Repair
}

// Commands returns the commands of this package.
func Commands(shared *command.App, repair Repair) []*cobra.Command {
	a := &app{shared, repair}
	return []*cobra.Command{a.newWatch(), a.newStatus(), a.newDrift(), a.newHistory(), a.newList(), a.newGet()}
}

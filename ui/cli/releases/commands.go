// Package releases implements the commands that read releases: status, watch, and history, list
// and get, which print what Helm's commands print. Packages ui/cli and ui/cli/deploy import it.
package releases

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

type app struct{ *command.App }

// Commands returns the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{a.newWatch(), a.newStatus(), a.newHistory(), a.newList(), a.newGet()}
}

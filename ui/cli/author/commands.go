// Package author holds the commands that need a chart and no cluster: dag, suggest,
// template and lint.
package author

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// app gives this package's commands what all commands share.
type app struct{ *command.App }

// Commands are the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{a.newDag(), a.newSuggest(), a.newTemplate(), a.newLint()}
}

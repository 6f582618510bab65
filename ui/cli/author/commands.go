// Package author implements the commands for chart authors, which need no cluster: dag, suggest,
// template, lint, and images, which also reads releases. Only ui/cli imports it.
package author

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

type app struct{ *command.App }

// Commands returns the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{a.newDag(), a.newSuggest(), a.newTemplate(), a.newLint(), a.newImages(), a.newValues()}
}

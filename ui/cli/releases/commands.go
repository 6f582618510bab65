// Package releases holds the commands that read a release: status, watch, and those
// that print what Helm's do.
package releases

import (
	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

// app gives this package's commands what all commands share.
type app struct{ *command.App }

// Commands are the commands of this package.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{a.newWatch(), a.newStatus(), a.newHistory(), a.newList(), a.newGet()}
}

package cli

import (
	"time"

	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
)

var (
	reads     = command.Bound{Limit: 2 * time.Minute}
	renders   = command.Bound{Limit: 10 * time.Minute, Charts: true}
	operates  = command.Bound{Operation: true}
	byTimeout = command.Bound{Flag: true}
	local     = command.Bound{Local: true}
)

// completionLimit limits completions, which may ask the API server or download a chart, because the shell waits for them.
const completionLimit = 10 * time.Second

// bounds are how long commands may take without the screen (R54). Help pages wait for nobody.
var bounds = map[string]command.Bound{
	"install": operates, "upgrade": operates, "rollback": operates, "uninstall": operates, "test": operates, "up": operates, "down": operates,
	"recover": {Limit: 5 * time.Minute}, "drift": operates,
	"plan": byTimeout, "plan install": byTimeout, "plan upgrade": byTimeout, "plan rollback": byTimeout, "plan uninstall": byTimeout, "plan show": local, "rbac": byTimeout,
	"manifests": byTimeout,
	"status":    reads, "list": reads, "history": reads, "get": reads, "get all": reads, "get values": reads, "get manifest": reads, "get notes": reads,
	"get hooks": reads, "get metadata": reads,
	"watch": byTimeout, "attach": byTimeout, "ctl": byTimeout,
	"replay": reads, "runs": reads, "runs show": reads, "runs diff": reads, "runs rm": local,
	"values diff": renders, "template": renders, "lint": renders, "images": renders, "dag": renders, "suggest": renders,
	"home":    {Endless: "until you quit"},
	"sandbox": {Endless: "until you interrupt it"},
	"version": local, "schema": local, "events": local, "rules": local,
}

// setBounds gives all commands their bounds.
func setBounds(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if b, known := bounds[command.Path(cmd)]; known {
			command.SetBound(cmd, b, "answers of the API server, a registry or another process")
		}
		setBounds(cmd)
	}
}

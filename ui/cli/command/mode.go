package command

import (
	"os"

	"github.com/spf13/cobra"

	"lockstep/ui/report"
)

// OutputFormat returns the format that -o of a command selects: JSON or YAML, or else text.
func OutputFormat(cmd *cobra.Command) report.Mode {
	if f := cmd.Flag("output"); f != nil {
		switch mode := report.Mode(f.Value.String()); mode {
		case report.ModeJSON, report.ModeYAML:
			return mode
		}
	}
	return report.ModeText
}

// UseScreen reports whether a command shows a run on the screen: on a suitable terminal, unless
// --no-tui or -o says otherwise.
func UseScreen(cmd *cobra.Command) bool {
	f := cmd.Flag("no-tui")
	return ScreenSupported() && OutputFormat(cmd) == report.ModeText && (f == nil || f.Value.String() == "false")
}

// ScreenSupported reports whether the terminal and the environment allow the screen. ACCESSIBLE
// disables it because screen readers cannot use it.
func ScreenSupported() bool {
	return IsTerminal(os.Stdout) && IsTerminal(os.Stdin) && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == "" && os.Getenv("ACCESSIBLE") == ""
}

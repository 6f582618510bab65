package command

import (
	"os"

	"lockstep/ui/report"
)

// Mode is the way in which an operation is shown.
type Mode string

const (
	ModeScreen Mode = "screen"
	modeText   Mode = "text"
	modeJSON   Mode = "json"
)

// Report returns the mode of output without a screen.
func (m Mode) Report() report.Mode {
	if m == modeJSON {
		return report.ModeJSON
	}
	return report.ModeText
}

// ModeFor returns the mode for the values of -o and --no-tui, the terminal and the environment.
// ACCESSIBLE disables the screen because screen readers cannot use it.
func ModeFor(output string, noTUI bool) Mode {
	switch {
	case output == "json":
		return modeJSON
	case noTUI, !IsTerminal(os.Stdout), !IsTerminal(os.Stdin), os.Getenv("TERM") == "dumb", os.Getenv("CI") != "", os.Getenv("ACCESSIBLE") != "":
		return modeText
	}
	return ModeScreen
}

package command

import (
	"os"

	"lockstep/ui/report"
)

// Mode is how an operation is shown.
type Mode string

const (
	ModeScreen Mode = "screen"
	modeText   Mode = "text"
	modeJSON   Mode = "json"
)

// Report is the mode of output without a screen.
func (m Mode) Report() report.Mode {
	if m == modeJSON {
		return report.ModeJSON
	}
	return report.ModeText
}

// ModeFor chooses how to show something from -o, --no-tui, the terminal and the
// environment. ACCESSIBLE means a screen reader, so lines are printed.
func ModeFor(output string, noTUI bool) Mode {
	switch {
	case output == "json":
		return modeJSON
	case noTUI, !IsTerminal(os.Stdout), !IsTerminal(os.Stdin), os.Getenv("TERM") == "dumb", os.Getenv("CI") != "", os.Getenv("ACCESSIBLE") != "":
		return modeText
	}
	return ModeScreen
}

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

// Report is how what is shown without a screen is.
func (m Mode) Report() report.Mode {
	if m == modeJSON {
		return report.ModeJSON
	}
	return report.ModeText
}

// ModeFor is how something is shown: by the format that -o asks for, and by
// whether there is a terminal that somebody looks at. With ACCESSIBLE somebody has
// it read to them, so that lines are written and nothing is drawn.
func ModeFor(output string, noTUI bool) Mode {
	switch {
	case output == "json":
		return modeJSON
	case noTUI, !IsTerminal(os.Stdout), !IsTerminal(os.Stdin), os.Getenv("TERM") == "dumb", os.Getenv("CI") != "", os.Getenv("ACCESSIBLE") != "":
		return modeText
	}
	return ModeScreen
}

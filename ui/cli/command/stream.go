package command

import (
	"io"
	"os"

	"golang.org/x/term"

	"lockstep/theme"
	"lockstep/ui/report"
)

// StyleOf is how text looks on a stream: with colour on terminals, unless
// mode ("never", "always", "auto"), NO_COLOR or TERM=dumb say otherwise.
func StyleOf(f *os.File, mode string) report.Style {
	o, err := theme.FromEnv(os.Getenv)
	if err != nil {
		o = theme.Options{Depth: o.Depth, ASCII: o.ASCII, Still: o.Still} // the screen warns about it
	}
	codes := IsTerminal(f) && o.Depth != theme.None && os.Getenv("TERM") != "dumb"
	switch mode {
	case "always":
		codes = true
	case "never":
		codes = false
	}
	// The terminal's own colours are readable on any background.
	o.Depth = theme.Basic
	return report.Style{Theme: theme.New(o), Codes: codes}
}

// StreamOf is w, which leads to f.
func StreamOf(w io.Writer, f *os.File, mode string) report.Stream {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil { // not a terminal
		width = 0
	}
	return report.Stream{Writer: w, Style: StyleOf(f, mode), Terminal: IsTerminal(f), Width: width, CI: report.CIFromEnv(os.Getenv)}
}

// SaveTerminal returns a function that restores the terminal's current state.
func SaveTerminal() (restore func()) {
	fd := int(os.Stdin.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return func() {} // not a terminal
	}
	return func() { _ = term.Restore(fd, state) }
}

func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

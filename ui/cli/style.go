package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"lockstep/theme"
	"lockstep/ui/report"
)

// streamStyle is how text looks on a stream: with colour on terminals, unless
// mode ("never", "always", "auto"), NO_COLOR or TERM=dumb say otherwise.
func streamStyle(f *os.File, mode string) report.Style {
	o, err := theme.FromEnv(os.Getenv)
	if err != nil {
		o = theme.Options{Depth: o.Depth, ASCII: o.ASCII, Still: o.Still} // the screen tells about it
	}
	codes := isTerminal(f) && o.Depth != theme.None && os.Getenv("TERM") != "dumb"
	switch mode {
	case "always":
		codes = true
	case "never":
		codes = false
	}
	// The terminal's own colours can be read on whatever its background is.
	o.Depth = theme.Basic
	return report.Style{Theme: theme.New(o), Codes: codes}
}

// stream is w, which leads to f.
func stream(w io.Writer, f *os.File, mode string) report.Stream {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil { // it is none
		width = 0
	}
	return report.Stream{Writer: w, Style: streamStyle(f, mode), Terminal: isTerminal(f), Width: width, CI: report.CIFromEnv(os.Getenv)}
}

// terminalNow returns what brings the terminal back to how it is now.
func terminalNow() (restore func()) {
	fd := int(os.Stdin.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return func() {} // it is none
	}
	return func() { _ = term.Restore(fd, state) }
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

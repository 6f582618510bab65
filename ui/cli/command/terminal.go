package command

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lockstep/theme"
	"lockstep/ui/report"
)

// NewStyle returns the style of text on f. It has colours on terminals, unless mode ("never",
// "always" or "auto"), NO_COLOR or TERM=dumb says otherwise.
func NewStyle(f *os.File, mode string) report.Style {
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

// NewStream returns a stream that writes to w and has the style and width of f.
func NewStream(w io.Writer, f *os.File, mode string) report.Stream {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil { // not a terminal
		width = 0
	}
	return report.Stream{Writer: w, Style: NewStyle(f, mode), Terminal: IsTerminal(f), Width: width, CI: report.CIFromEnv(os.Getenv)}
}

// SaveTerminal returns a function that restores the current state of the terminal.
func SaveTerminal() (restore func()) {
	fd := int(os.Stdin.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return func() {} // not a terminal
	}
	return func() { _ = term.Restore(fd, state) }
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

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
	return CheckScreen() == nil && OutputFormat(cmd) == report.ModeText && (f == nil || f.Value.String() == "false")
}

// CheckScreen returns an error if the terminal or the environment does not allow the screen.
func CheckScreen() error {
	switch {
	case !IsTerminal(os.Stdout) || !IsTerminal(os.Stdin):
		return errors.New("the screen needs a terminal: stdin or stdout is redirected")
	case os.Getenv("TERM") == "dumb":
		return errors.New("the screen needs a terminal that can move the cursor: TERM is dumb")
	}
	for _, name := range []string{"CI", "ACCESSIBLE"} { // screen readers cannot read the screen
		if os.Getenv(name) != "" {
			return fmt.Errorf("the screen is disabled by the environment variable %s: unset it", name)
		}
	}
	return nil
}

package screen

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"lockstep/theme"
	"lockstep/ui/board/canvas"
	"lockstep/ui/board/keys"
)

// look is the theme that was asked for, of which the terminal may support less, and its pens.
type look struct {
	asked theme.Options
	pens  *canvas.Pens
}

// SetTheme sets the theme that the user asked for.
func (s *Screen) SetTheme(o theme.Options) {
	s.look.asked = o
	s.useTheme(o)
}

func (s *Screen) useTheme(o theme.Options) {
	s.Theme = theme.New(o)
	s.pens = canvas.NewPens(s.Theme)
}

// AskBackground asks the terminal for its background if the theme depends on it.
func (s *Screen) AskBackground() tea.Cmd {
	if s.Theme.Background == theme.Detect && s.Theme.Depth != theme.None {
		return tea.RequestBackgroundColor
	}
	return nil
}

// setBackground takes the terminal's answer.
func (s *Screen) setBackground(isDark bool) {
	o := s.Theme.Options
	if o.Background != theme.Detect {
		return
	}
	o.Background = theme.Light
	if isDark {
		o.Background = theme.Dark
	}
	s.useTheme(o)
}

// setDepth takes the colours that the terminal supports.
func (s *Screen) setDepth(p colorprofile.Profile) {
	o := s.Theme.Options
	switch {
	case o.Depth == theme.None:
		return
	case p <= colorprofile.ASCII:
		o.Depth = theme.None
	case p == colorprofile.ANSI:
		o.Depth = theme.Basic
	default:
		o.Depth = s.look.asked.Depth
	}
	s.useTheme(o)
}

// Take takes a message about the terminal, or the end of a flash message. It reports whether msg is one.
func (s *Screen) Take(msg tea.Msg) bool {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.W, s.H = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		s.setBackground(msg.IsDark())
	case tea.ColorProfileMsg:
		s.setDepth(msg.Profile)
	case FlashOver:
		if int(msg) == s.Flash.N {
			s.Flash.Text = ""
		}
	default:
		return false
	}
	return true
}

// Clear empties the canvas for a new frame, in the size of the terminal.
func (s *Screen) Clear() {
	if s.Canvas == nil {
		s.Canvas = canvas.New(s.W, s.H, s.pens)
	}
	s.Canvas.Reset(s.W, s.H, s.pens)
	s.Buttons = s.Buttons[:0]
}

// DrawNeededSize draws what a terminal that is too small needs.
func (s *Screen) DrawNeededSize() {
	s.Canvas.PutFit(0, 0, s.W, theme.Text, fmt.Sprintf("enlarge the terminal to %d×%d", SmallestWidth, SmallestHeight))
}

// DrawFooter draws the filter and as many hints as fit, or the line that the user is typing. The last hint, the key for help,
// always fits. query and matches are those of the filter, "" without one.
func (s *Screen) DrawFooter(hints []keys.Hint, query, matches string) {
	y, cv := s.H-1, s.Canvas
	if line, ok := s.Modes.Top().(keys.Line); ok {
		input, status, hints := line.Line()
		x := cv.Put(1, y, theme.Key, line.Prompt())
		x = cv.PutFit(x, y, s.W-x-1, theme.Text, input.Value())
		for _, hint := range hints {
			if canvas.Width(status+"  "+hint) <= s.W-1-x-2 {
				status += "  " + hint
			}
		}
		cv.PutRight(s.W-1, y, theme.Quiet, canvas.Fit(status, s.W-1-x-2, s.Theme.Lines.Ellipsis))
		return
	}
	x, end := 1, s.W-1
	if query != "" {
		text := "  " + matches + "  esc clear"
		query := canvas.Fit("/"+query, max(s.W*2/3-canvas.Width(text), 1), s.Theme.Lines.Ellipsis)
		end = cv.PutRight(end, y, theme.Stopped, query+text) - 2
	}
	if h := len(hints) - 1; h > 0 {
		hints = slices.Clone(hints)
		hints[h].Pinned = true // help is always visible
	}
	for _, h := range keys.Fit(hints, end-x, 2) {
		x = s.PutHint(x, y, h, theme.Quiet) + 2
	}
}

// DrawFlash draws the flash message above the keys, wrapped.
func (s *Screen) DrawFlash() {
	if s.Flash.Text == "" || s.TooSmall() {
		return
	}
	lines := canvas.Wrap(s.Flash.Text, s.W-2)
	top := max(s.H-1-len(lines), 2)
	lines = lines[:min(len(lines), s.H-1-top)]
	s.Canvas.Blank(canvas.Rect{X: 0, Y: top, W: s.W, H: len(lines)})
	for i, l := range lines {
		s.Canvas.Put(1, top+i, s.Flash.Role, l)
	}
}

// KeyName returns the name of a binding's key in the footer.
func (s *Screen) KeyName(b keys.Binding) string {
	switch l := s.Theme.Lines; b.Key() {
	case "enter":
		return l.Enter
	case "left":
		return l.Left
	case "right":
		return l.Right
	}
	return b.FirstName()
}

// Frame returns what the terminal shows: a drawn frame, with the cursor of the topmost mode.
func (s *Screen) Frame(drawn string) tea.View {
	v := tea.NewView(drawn)
	v.AltScreen = true
	if !s.Theme.Still {
		v.MouseMode = tea.MouseModeCellMotion
	}
	if top, ok := s.Modes.Top().(keys.Cursor); ok && !s.TooSmall() {
		v.Cursor = top.Cursor()
	}
	return v
}

package theme

// Lines are the characters to draw with. Each is one cell wide, except for the
// ASCII forms of keys.
type Lines struct {
	// Light and Heavy hold the character for each combination of arms: up 1,
	// right 2, down 4, left 8.
	Light, Heavy [16]string
	// Round are the corners of a card: top left, top right, bottom left,
	// bottom right.
	Round [4]string
	// Arrow points at a card, More and Less show that there are columns out of
	// view, Open marks what is unfolded, Cursor the selected line, Break a
	// breakpoint, Next the unit that a step lets go.
	Arrow, More, Less, Open, Cursor, Break, Next string
	// Bar, Half and Rest draw the progress bar.
	Bar, Half, Rest string
	// Ellipsis ends text that was cut, Dot separates, Enter, Left and Right are the
	// signs of keys.
	Ellipsis, Dot, Enter, Left, Right string
	// Undo marks the columns of a rollback.
	Undo string
}

var unicodeLines = Lines{
	Light: [16]string{" ", "│", "─", "└", "│", "│", "┌", "├", "─", "┘", "─", "┴", "┐", "┤", "┬", "┼"},
	Heavy: [16]string{" ", "┃", "━", "┗", "┃", "┃", "┏", "┣", "━", "┛", "━", "┻", "┓", "┫", "┳", "╋"},
	Round: [4]string{"╭", "╮", "╰", "╯"},
	Arrow: "▶", More: "▸", Less: "◂", Open: "▾", Cursor: "▸", Break: "●", Next: "▷",
	Bar: "━", Half: "╸", Rest: "─",
	Ellipsis: "…", Dot: "·", Enter: "↵", Left: "←", Right: "→", Undo: "↩",
}

var asciiLines = Lines{
	Light: [16]string{" ", "|", "-", "+", "|", "|", "+", "+", "-", "+", "-", "+", "+", "+", "+", "+"},
	Heavy: [16]string{" ", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#", "#"},
	Round: [4]string{"+", "+", "+", "+"},
	Arrow: ">", More: ">", Less: "<", Open: ":", Cursor: ">", Break: "*", Next: "@",
	Bar: "#", Half: "#", Rest: "-",
	Ellipsis: "~", Dot: "-", Enter: "enter", Left: "left", Right: "right", Undo: "u",
}

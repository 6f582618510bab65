package theme

// Lines are the characters that pictures are drawn with. Every one of them is
// one cell wide.
type Lines struct {
	// Light and Heavy hold the character for each combination of the arms
	// up, right, down, left (1, 2, 4, 8).
	Light, Heavy [16]string
	// Round are the corners of a card: top left, top right, bottom left,
	// bottom right.
	Round [4]string
	// Arrow enters a card, More and Less tell of columns out of view, Open
	// marks what is unfolded, Cursor the selected line, Break a breakpoint.
	Arrow, More, Less, Open, Cursor, Break string
	// Bar, Half and Rest draw the progress bar.
	Bar, Half, Rest string
	// Ellipsis ends what was cut off, Dot separates, Enter is the key.
	Ellipsis, Dot, Enter string
	// Undo marks the columns of a rollback.
	Undo string
}

var unicodeLines = Lines{
	Light: [16]string{" ", "│", "─", "└", "│", "│", "┌", "├", "─", "┘", "─", "┴", "┐", "┤", "┬", "┼"},
	Heavy: [16]string{" ", "┃", "━", "┗", "┃", "┃", "┏", "┣", "━", "┛", "━", "┻", "┓", "┫", "┳", "╋"},
	Round: [4]string{"╭", "╮", "╰", "╯"},
	Arrow: "▶", More: "▸", Less: "◂", Open: "▾", Cursor: "▸", Break: "●",
	Bar: "━", Half: "╸", Rest: "─",
	Ellipsis: "…", Dot: "·", Enter: "↵", Undo: "↩",
}

var asciiLines = Lines{
	Light: [16]string{" ", "|", "-", "+", "|", "|", "+", "+", "-", "+", "-", "+", "+", "+", "+", "+"},
	Heavy: [16]string{" ", "#", "=", "#", "#", "#", "#", "#", "=", "#", "=", "#", "#", "#", "#", "#"},
	Round: [4]string{"+", "+", "+", "+"},
	Arrow: ">", More: ">", Less: "<", Open: "v", Cursor: ">", Break: "*",
	Bar: "#", Half: "#", Rest: "-",
	Ellipsis: "~", Dot: "-", Enter: "enter", Undo: "<",
}

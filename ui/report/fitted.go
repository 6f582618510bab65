package report

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// fitted writes lines so that they fit a terminal: what is too long goes on below,
// a little further in, and what is quoted goes on as a quotation. Each call writes
// whole lines.
type fitted struct {
	w    io.Writer
	wide int    // 0: it is no terminal
	bar  string // stands before what is quoted
}

// leastText is how many columns of a line are text at the least, however narrow the
// terminal is.
const leastText = 20

func (f fitted) Write(p []byte) (int, error) {
	if f.wide <= 0 {
		return f.w.Write(p)
	}
	var b strings.Builder
	for line := range strings.Lines(string(p)) {
		b.WriteString(strings.Join(f.lines(strings.TrimSuffix(line, "\n")), "\n") + "\n")
	}
	if _, err := io.WriteString(f.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lines are those that a line is broken into.
func (f fitted) lines(line string) []string {
	if ansi.StringWidth(line) <= f.wide {
		return []string{line}
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	first, more := indent, indent+"  "
	if strings.HasPrefix(ansi.Strip(line[len(indent):]), f.bar+" ") {
		at := strings.Index(line, f.bar)
		end := at + len(f.bar)
		if space := strings.IndexByte(line[end:], ' '); space >= 0 {
			end += space + 1
		}
		first, more = line[:end], line[:end]
	}
	room := max(f.wide-ansi.StringWidth(more), leastText)
	out := strings.Split(ansi.Wrap(line[len(first):], room, ""), "\n")
	for n, l := range out {
		if n == 0 {
			out[n] = first + l
			continue
		}
		out[n] = more + strings.TrimLeft(l, " ")
	}
	return out
}

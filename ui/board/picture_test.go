package board

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	uv "github.com/charmbracelet/ultraviolet"

	"lockstep/theme"
	"lockstep/ui/golden"
)

// pictures are moments of runs that were recorded on the sandbox, drawn as SVG. To draw them again:
// go test ./ui/board -run Pictures -update
var pictures = []struct {
	file  string
	view  view
	w, h  int
	look  theme.Options
	shows []string // texts that the screen must contain
}{
	{"diff", view{run: "sandbox-upgrade", n: 100, keys: "enter", opts: []func(*Options){changesOfUpgrade}, asks: true}, 110, 26, dark, []string{"diff", "example/shop-api:1.0.0", "example/shop-api:1.1.0"}},
	{"held", view{run: "sandbox-held"}, 100, 26, light, []string{"held", "A re-check", "R retry", "cannot be pulled"}},
	{"narrow", view{run: "sandbox-install", n: 84}, 60, 20, dark, []string{"running", "pause"}},
}

const picturesDir = "../../testdata/pictures"

// TestPictures checks that the pictures show what the screen shows.
func TestPictures(t *testing.T) {
	for _, p := range pictures {
		t.Run(p.file, func(t *testing.T) {
			s := p.view.open(t, p.w, p.h, p.look)
			s.settle()
			s.shows(t, p.shows...)
			s.showsNot(t, "asking the cluster", "preparing")
			got := drawSVG(s.View().Content, p.w, p.h, p.look.Background == theme.Light)
			keep(t, p.file, got)
		})
	}
}

// keep compares a picture with the file; with -update it writes the file.
func keep(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(picturesDir, name+".svg")
	if *golden.Update {
		if err := os.MkdirAll(picturesDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the screen; draw it again with -update", path)
	}
}

// The size of a cell and of the margin in pixels.
const (
	cellWidth, cellHeight = 8.4, 18
	margin                = 12
)

// drawSVG draws a screen as SVG: a rectangle for each run of background, a text for each run of one
// style.
func drawSVG(content string, w, h int, light bool) []byte {
	fg, bg := groundOf(light)
	var out bytes.Buffer
	begin(&out, w, float64(h*cellHeight), bg)
	fmt.Fprint(&out, strings.Join(draw(content, w, h, fg, bg), ""))
	fmt.Fprintln(&out, "</g>\n</svg>")
	return out.Bytes()
}

// groundOf returns the default colours of text and background.
func groundOf(light bool) (fg, bg string) {
	if light {
		return "#1e1e1e", "#ffffff"
	}
	return "#d4d4d4", "#171717"
}

// begin starts a picture that is w cells wide.
func begin(out *bytes.Buffer, w int, high float64, bg string) {
	width, height := float64(w)*cellWidth+2*margin, high+2*margin
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">`+"\n", width, height, width, height)
	fmt.Fprintf(out, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", bg)
	fmt.Fprintln(out, `<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" xml:space="preserve">`)
}

// draw returns the elements of a screen, one per run of cells of one style.
func draw(content string, w, h int, fg, bg string) (out []string) {
	screen := uv.NewScreenBuffer(w, h)
	uv.NewStyledString(content).Draw(screen, screen.Bounds())
	for y := range h {
		for x := 0; x < w; {
			n := runLength(screen, x, y, w)
			var b bytes.Buffer
			drawRun(&b, screen, x, y, n, fg, bg)
			if b.Len() > 0 {
				out = append(out, b.String())
			}
			x += n
		}
	}
	return out
}

// runLength returns how many cells starting at x have the same style.
func runLength(s uv.ScreenBuffer, x, y, w int) int {
	first := s.CellAt(x, y)
	n := 1
	for x+n < w {
		c := s.CellAt(x+n, y)
		if (c == nil) != (first == nil) || c != nil && !c.Style.Equal(&first.Style) {
			break
		}
		n++
	}
	return n
}

func drawRun(out *bytes.Buffer, s uv.ScreenBuffer, x, y, n int, fg, bg string) {
	first := s.CellAt(x, y)
	if first == nil {
		return
	}
	style := first.Style
	front, back := hex(style.Fg, fg), hex(style.Bg, bg)
	if style.Attrs&uv.AttrReverse != 0 {
		front, back = back, front
	}
	left, top := margin+float64(x)*cellWidth, margin+y*cellHeight
	if back != bg {
		fmt.Fprintf(out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", left, top, float64(n)*cellWidth, cellHeight, back)
	}
	var text strings.Builder
	for i := range n {
		if c := s.CellAt(x+i, y); c != nil {
			text.WriteString(c.Content)
		}
	}
	if strings.TrimSpace(text.String()) == "" {
		return
	}
	more := ""
	if style.Attrs&uv.AttrBold != 0 {
		more += ` font-weight="bold"`
	}
	if style.Attrs&uv.AttrFaint != 0 {
		more += ` opacity="0.6"`
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" fill="%s"%s>%s</text>`+"\n",
		left, top+14, float64(n)*cellWidth, front, more, escapeXML(text.String()))
}

// hex formats a colour for SVG.
func hex(c color.Color, otherwise string) string {
	if c == nil {
		return otherwise
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

// escapeXML also preserves spaces, which XML would collapse.
func escapeXML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", " ", "\u00a0").Replace(s)
}

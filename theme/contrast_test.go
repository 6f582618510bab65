package theme

import (
	"image/color"
	"math"
	"testing"
)

// TestContrast checks the contrast of all text: 4.5 to 1 (WCAG AA) on the usual backgrounds and on the
// selected line, 7 to 1 in high contrast. Faint is not for text.
func TestContrast(t *testing.T) {
	backgrounds := map[Background][]color.Color{
		Dark:  {color.RGBA{0x00, 0x00, 0x00, 0xff}, color.RGBA{0x1e, 0x1e, 0x1e, 0xff}, color.RGBA{0x28, 0x2c, 0x34, 0xff}},
		Light: {color.RGBA{0xff, 0xff, 0xff, 0xff}, color.RGBA{0xfa, 0xfa, 0xfa, 0xff}},
	}
	for _, look := range []Look{Standard, HighContrast, ColourBlind} {
		for bg, on := range backgrounds {
			least := 4.5
			p := paletteFor(Options{Look: look, Background: bg})
			if look == HighContrast {
				least, on = 7, on[:1]
			}
			for name, fg := range map[string]color.Color{"quiet": p[Quiet], "accent": p[Accent], "good": p[Good], "busy": p[Busy],
				"stopped": p[Stopped], "bad": p[Bad], "never": p[Never], "key": p[Key]} {
				for _, b := range on {
					if c := contrast(fg, b); c < least {
						t.Errorf("%s %s: %s on %v has a contrast of %.1f", look, bg, name, b, c)
					}
				}
				if c := contrast(fg, p[Selected]); c < 4.5 {
					t.Errorf("%s %s: %s on the selected line has a contrast of %.1f", look, bg, name, c)
				}
			}
		}
	}
}

// contrast returns the WCAG contrast ratio of two colours.
func contrast(a, b color.Color) float64 {
	l := func(c color.Color) float64 {
		r, g, b, _ := c.RGBA()
		part := func(v uint32) float64 {
			f := float64(v) / 0xffff
			if f <= 0.03928 {
				return f / 12.92
			}
			return math.Pow((f+0.055)/1.055, 2.4)
		}
		return 0.2126*part(r) + 0.7152*part(g) + 0.0722*part(b)
	}
	la, lb := l(a), l(b)
	return (math.Max(la, lb) + 0.05) / (math.Min(la, lb) + 0.05)
}

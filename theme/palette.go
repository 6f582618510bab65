package theme

import (
	"image/color"

	"charm.land/lipgloss/v2"
)

// palette holds the colours of a look on one background; nil is the terminal's
// own text colour.
type palette struct {
	quiet, faint, accent, good, busy, stopped, bad, never, key, selected color.Color
}

func paletteFor(o Options) palette {
	light := o.Background == Light
	switch {
	case o.Depth == None:
		return palette{}
	case o.Depth == Basic:
		return basicPalette(o.Look, light)
	case o.Look == HighContrast && light:
		return hex("#303030", "#6C6C6C", "#0000C0", "#005F00", "#004C8C", "#7A4A00", "#B00000", "#5F005F", "#0000C0", "#D7E3FF")
	case o.Look == HighContrast:
		return hex("#D8D8D8", "#9A9A9A", "#FFFFFF", "#5CFF5C", "#5CE1FF", "#FFE14D", "#FF8585", "#FF9CFF", "#FFFFFF", "#26334D")
	case o.Look == ColourBlind && light:
		return hex("#5A6472", "#9AA4B2", "#3B3B98", "#006DAB", "#756500", "#9A5600", "#B23C00", "#8F4A75", "#3B3B98", "#E6EDF8")
	case o.Look == ColourBlind:
		return hex("#8E99AB", "#58626F", "#D6DEEB", "#56B4E9", "#F0E442", "#E69F00", "#FF7A45", "#D283AE", "#D6DEEB", "#20293C")
	case light:
		return hex("#5F6B7A", "#9AA4B2", "#2F55C8", "#2B7A38", "#0670B0", "#8F5A00", "#C0271F", "#77578F", "#2F55C8", "#E6EDFB")
	}
	return hex("#8B96AA", "#5C677B", "#8AB4FF", "#8CC570", "#62C8E8", "#E8B85A", "#FF7B72", "#AA92C8", "#8AB4FF", "#212B43")
}

// basicPalette uses the terminal's own 16 colours, which are readable on its
// background. Bright black is not used for text: it is often too close to the
// background.
func basicPalette(l Look, light bool) palette {
	p := palette{
		faint: lipgloss.BrightBlack, accent: lipgloss.BrightBlue, good: lipgloss.Green, busy: lipgloss.Cyan,
		stopped: lipgloss.Yellow, bad: lipgloss.Red, never: lipgloss.Magenta, key: lipgloss.BrightBlue,
	}
	if light {
		p.accent, p.key = lipgloss.Blue, lipgloss.Blue
		p.faint = lipgloss.White
	}
	switch l {
	case HighContrast:
		p.faint = nil
	case ColourBlind:
		p.good, p.busy, p.accent, p.key = lipgloss.Blue, lipgloss.Yellow, nil, nil
		p.stopped = lipgloss.Magenta
	}
	return p
}

func hex(quiet, faint, accent, good, busy, stopped, bad, never, key, selected string) palette {
	c := func(s string) color.Color { return lipgloss.Color(s) }
	return palette{c(quiet), c(faint), c(accent), c(good), c(busy), c(stopped), c(bad), c(never), c(key), c(selected)}
}

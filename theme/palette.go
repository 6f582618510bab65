package theme

import (
	"cmp"
	"image/color"

	"charm.land/lipgloss/v2"
)

// palette holds the colours of a look on one background: text colours, and for Selected a background
// colour. Roles without a colour use that of the terminal's text.
type palette map[Role]color.Color

// colours are the palettes for 24-bit colour.
var colours = map[Look]map[Background]palette{
	Standard: {
		Dark:  hex("#8B96AA", "#5C677B", "#8AB4FF", "#8CC570", "#62C8E8", "#E8B85A", "#FF7B72", "#AA92C8", "#212B43"),
		Light: hex("#5F6B7A", "#9AA4B2", "#2F55C8", "#2B7A38", "#0670B0", "#8F5A00", "#C0271F", "#77578F", "#E6EDFB"),
	},
	HighContrast: {
		Dark:  hex("#D8D8D8", "#9A9A9A", "#FFFFFF", "#5CFF5C", "#5CE1FF", "#FFE14D", "#FF8585", "#FF9CFF", "#26334D"),
		Light: hex("#303030", "#6C6C6C", "#0000C0", "#005F00", "#004C8C", "#7A4A00", "#B00000", "#5F005F", "#D7E3FF"),
	},
	ColourBlind: {
		Dark:  hex("#8E99AB", "#58626F", "#D6DEEB", "#56B4E9", "#F0E442", "#E69F00", "#FF7A45", "#D283AE", "#20293C"),
		Light: hex("#5A6472", "#9AA4B2", "#3B3B98", "#006DAB", "#756500", "#9A5600", "#B23C00", "#8F4A75", "#E6EDF8"),
	},
}

func hex(quiet, faint, accent, good, busy, stopped, bad, never, selected string) palette {
	p := palette{}
	for role, c := range map[Role]string{Quiet: quiet, Faint: faint, Accent: accent, Good: good, Busy: busy, Stopped: stopped,
		Bad: bad, Never: never, Selected: selected, Idle: quiet, Key: accent} {
		p[role] = lipgloss.Color(c)
	}
	return p
}

func paletteFor(o Options) palette {
	background := cmp.Or(o.Background, Dark)
	switch o.Depth {
	case None:
		return nil
	case Basic:
		return basicPalette(o.Look, background)
	}
	return colours[cmp.Or(o.Look, Standard)][background]
}

// basicPalette uses the terminal's own 16 colours, which are readable on its background. It does not use
// bright black for text: it is often too close to the background.
func basicPalette(l Look, background Background) palette {
	p := palette{
		Faint: lipgloss.BrightBlack, Accent: lipgloss.BrightBlue, Good: lipgloss.Green, Busy: lipgloss.Cyan,
		Stopped: lipgloss.Yellow, Bad: lipgloss.Red, Never: lipgloss.Magenta,
	}
	if background == Light {
		p[Faint], p[Accent] = lipgloss.White, lipgloss.Blue
	}
	switch l {
	case HighContrast:
		p[Faint] = nil
	case ColourBlind:
		p[Good], p[Busy], p[Accent], p[Stopped] = lipgloss.Blue, lipgloss.Yellow, nil, lipgloss.Magenta
	}
	p[Key] = p[Accent]
	return p
}

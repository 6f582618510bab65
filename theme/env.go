package theme

import (
	"fmt"
	"strings"
)

// FromEnv reads the options from the environment:
//
//	LOCKSTEP_THEME   what Parse takes
//	NO_COLOR         any non-empty value: no colour (no-color.org)
//	LOCKSTEP_ASCII   any non-empty value: ASCII characters only; so does a
//	                 locale (LC_ALL, LC_CTYPE, LANG, the first one set) that
//	                 is not UTF-8
//	ACCESSIBLE       any non-empty value: no animation
//
// getenv is os.Getenv. The only error is about LOCKSTEP_THEME; the other options
// are valid even then.
func FromEnv(getenv func(string) string) (Options, error) {
	o, err := Parse(getenv("LOCKSTEP_THEME"))
	if err != nil {
		err = fmt.Errorf("LOCKSTEP_THEME: %w", err)
	}
	if getenv("NO_COLOR") != "" {
		o.Depth = None
	}
	o.ASCII = getenv("LOCKSTEP_ASCII") != "" || !utf8Locale(getenv)
	o.Still = getenv("ACCESSIBLE") != ""
	return o, err
}

// utf8Locale reports whether the locale is UTF-8, which it also is if none is
// set: in containers none is, but the terminal is that of the machine outside.
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// Parse reads a theme: words from auto, dark, light, high-contrast and
// colour-blind, with commas between them ("light,high-contrast"). Empty is auto.
func Parse(s string) (Options, error) {
	var o Options
	for word := range strings.SplitSeq(s, ",") {
		switch strings.TrimSpace(strings.ToLower(word)) {
		case "", "auto":
		case "dark":
			o.Background = Dark
		case "light":
			o.Background = Light
		case "high-contrast":
			o.Look = HighContrast
		case "colour-blind", "color-blind":
			o.Look = ColourBlind
		default:
			return Options{}, fmt.Errorf("there is no theme %q: take auto, dark, light, high-contrast or colour-blind", word)
		}
	}
	return o, nil
}

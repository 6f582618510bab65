package inspect

// FieldLine is a line of changes as people read them, field by field: the path of a parent, without a Sign, or a line of a field.
type FieldLine struct {
	// Sign is - for old, + for new, a blank for context, @ for the line number in a long text.
	Sign, Text string
}

// Shown returns the sign to print before the text.
func (l FieldLine) Shown() string {
	if l.Sign == "@" {
		return " "
	}
	return l.Sign
}

// FieldLines returns changes field by field, each path above its fields.
func FieldLines(fields []Field) (lines []FieldLine) {
	in := ""
	for _, f := range fields {
		if f.In != in {
			in = f.In
			lines = append(lines, FieldLine{Text: in})
		}
		for _, l := range f.Lines {
			if l != "" {
				lines = append(lines, FieldLine{l[:1], l[1:]})
			}
		}
	}
	return lines
}

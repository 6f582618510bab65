package theme

var diffRoles = map[string]Role{"+": Good, "-": Bad, "~": Busy, "!": Stopped, "@": Quiet}

// DiffRole returns the role of a line in a diff or a list of changes by its first character; Text for
// unchanged lines.
func DiffRole(sign string) Role { return diffRoles[sign] }

package theme

var diffRoles = map[string]Role{"+": Good, "-": Bad, "~": Busy, "!": Stopped, "@": Quiet}

// DiffRole returns the role of a line of a diff or a list of changes by its sign, its first
// character; Text for unchanged lines. palette.go has the colour of each role.
func DiffRole(sign string) Role { return diffRoles[sign] }

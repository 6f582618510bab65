package form

import (
	"strings"
)

// The operations that have a form.
const (
	Install   = "install"
	Upgrade   = "upgrade"
	Rollback  = "rollback"
	Uninstall = "uninstall"
	Test      = "test"
)

// Field is a field of a form.
type Field int

const (
	Name Field = iota
	Chart
	Version
	Values
	Keep // whether the values of the last revision are kept although there are new ones
	Namespace
	Revision
)

// fieldsOf are the fields of each operation.
var fieldsOf = map[string][]Field{
	Install:   {Name, Chart, Version, Values, Namespace},
	Upgrade:   {Name, Chart, Version, Values, Keep, Namespace},
	Rollback:  {Name, Namespace, Revision},
	Uninstall: {Name, Namespace},
	Test:      {Name, Namespace},
}

var labels = map[Field]string{
	Name: "release", Chart: "chart", Version: "version", Values: "values", Keep: "old values", Namespace: "namespace", Revision: "revision",
}

// needed reports whether the command cannot run without the field.
func (f Field) needed() bool { return f == Name || f == Chart || f == Revision || f == Namespace }

// Input is what is known about a command.
type Input struct {
	Operation string
	Name      string
	Chart     string
	Version   string
	Values    string // files, separated by commas; "revision 3" stands for the values of that revision
	Keep      bool   // --reuse-values
	Namespace string
	Revision  string
	// NewNamespace means that the namespace does not exist.
	NewNamespace bool
	// Flags are further flags of the command, as words. Shown are the same words without secrets.
	Flags, Shown []string
}

// RevisionPrefix begins the text that stands for the values of a revision.
const RevisionPrefix = "revision "

// ValuesFrom splits the values into the revision that they start from, "" for none, and the files on top.
func (in *Input) ValuesFrom() (revision, files string) {
	var rest []string
	for part := range strings.SplitSeq(in.Values, ",") {
		if n, ok := strings.CutPrefix(strings.TrimSpace(part), RevisionPrefix); ok && in.Operation == Upgrade {
			revision = strings.TrimSpace(n)
		} else {
			rest = append(rest, part)
		}
	}
	return revision, strings.Join(rest, ",")
}

// yes is the value of Keep while it is set.
const yes = "kept"

// Get returns the text of a field.
func (in *Input) Get(f Field) string {
	if f == Keep {
		if in.Keep {
			return yes
		}
		return ""
	}
	return *in.text(f)
}

// Set sets a field.
func (in *Input) Set(f Field, value string) {
	if f == Keep {
		in.Keep = value == yes
		return
	}
	*in.text(f) = strings.TrimSpace(value)
}

func (in *Input) text(f Field) *string {
	switch f {
	case Name:
		return &in.Name
	case Chart:
		return &in.Chart
	case Version:
		return &in.Version
	case Values:
		return &in.Values
	case Namespace:
		return &in.Namespace
	}
	return &in.Revision
}

// canKeep reports whether the user chooses what happens to the values of the last revision: without new values, an
// upgrade keeps them, and a flag may have decided it.
func (in *Input) canKeep() bool {
	return in.Operation == Upgrade && in.hasValues() && !in.HasFlag("--reuse-values", "--reset-values", "--reset-then-reuse-values")
}

// hasValues reports whether the command sets values.
func (in *Input) hasValues() bool {
	return in.Values != "" || in.HasFlag("--values-from-revision", "--set", "--set-string", "--set-file", "--set-json", "--set-literal")
}

// HasFlag reports whether one of the flags is given.
func (in *Input) HasFlag(names ...string) bool {
	for _, word := range in.Flags {
		name, _, _ := strings.Cut(word, "=")
		for _, n := range names {
			if name == n {
				return true
			}
		}
	}
	return false
}

// Args returns the command line, without the name of the program.
func (in Input) Args() []string { return in.args(in.Flags) }

// ShownArgs returns the command line for display, without secrets.
func (in Input) ShownArgs() []string { return in.args(in.Shown) }

func (in *Input) args(flags []string) []string {
	args := []string{in.Operation}
	add := func(words ...string) {
		if words[len(words)-1] != "" {
			args = append(args, words...)
		}
	}
	add(in.Name)
	if in.Operation == Install || in.Operation == Upgrade {
		add(in.Chart)
		add("--version", in.Version)
		revision, files := in.ValuesFrom()
		add("--values-from-revision", revision)
		add("-f", files)
		if in.Keep && in.canKeep() {
			add("--reuse-values")
		}
	}
	if in.Operation == Rollback {
		add(in.Revision)
	}
	add("-n", in.Namespace)
	if in.NewNamespace && !in.HasFlag("--create-namespace") {
		add("--create-namespace")
	}
	return append(args, flags...)
}

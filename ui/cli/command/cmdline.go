package command

import (
	"encoding/csv"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/engine/text"
	"lockstep/kube/charts"
	"lockstep/kube/mask"
)

// NotifyFlag is the flag with the URLs of notices, which are secrets.
const NotifyFlag = "notify"

// SelectsCluster reports whether a flag selects the cluster or the user.
func SelectsCluster(cmd *cobra.Command, flag string) bool {
	return strings.HasPrefix(flag, "kube") && cmd.InheritedFlags().Lookup(flag) != nil
}

// VisitSetFlags calls visit for each flag set on the command line, with the words that set it. Secret
// values in them are hidden.
func VisitSetFlags(cmd *cobra.Command, visit func(name string, words []string), m *mask.Mask) {
	visitSetFlags(cmd, visit, func(f *pflag.Flag) func(string) string {
		switch f.Name {
		case "set-file":
			return m.Path
		case NotifyFlag:
			return func(string) string { return mask.Ellipsis }
		}
		return func(value string) string { return m.Argument(f.Name, value) }
	})
}

// VisitFlagWords is like VisitSetFlags, but hides nothing: the words are for another command line, not for display.
func VisitFlagWords(cmd *cobra.Command, visit func(name string, words []string)) {
	visitSetFlags(cmd, visit, func(*pflag.Flag) func(string) string { return func(value string) string { return value } })
}

func visitSetFlags(cmd *cobra.Command, visit func(name string, words []string), show func(*pflag.Flag) func(string) string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" && f.NoOptDefVal == "" {
			name = "-" + f.Shorthand
		}
		var words []string
		for _, value := range flagValues(f, show(f)) {
			switch {
			case f.NoOptDefVal == "":
				words = append(words, name, value)
			case value == f.NoOptDefVal:
				words = append(words, name)
			default: // pflag would take a separate word for an argument
				words = append(words, name+"="+value)
			}
		}
		visit(f.Name, words)
	})
}

// flagValues returns the values of a flag, one for each time that it must be set. show hides the
// secrets in a value.
func flagValues(f *pflag.Flag, show func(string) string) []string {
	kind := f.Value.Type()
	switch kind {
	case "bool":
		return []string{f.Value.String()}
	case "stringToString":
		return pairValues(f, show)
	}
	values := slices.Clone(Values(f))
	for i, v := range values {
		if values[i] = show(v); kind == "stringSlice" {
			values[i] = QuoteCSV(values[i])
		}
	}
	return values
}

// pairValues returns the values of a flag of the type stringToString, sorted.
func pairValues(f *pflag.Flag, show func(string) string) []string {
	list := f.Value.String()
	list = list[1 : len(list)-1] // without brackets
	all, err := csv.NewReader(strings.NewReader(list)).Read()
	if err != nil {
		all = []string{list}
	}
	slices.Sort(all)
	for i, pair := range all {
		if pair = show(pair); strings.Count(pair, "=") != 1 { // pflag reads these as CSV
			pair = QuoteCSV(pair)
		}
		all[i] = pair
	}
	return all
}

// QuoteCSV quotes a value for flags that pflag splits at commas.
func QuoteCSV(value string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{value}) // writes to memory do not fail
	w.Flush()
	return b.String()[:b.Len()-1] // without the end of the line
}

// ShellJoin quotes words for a shell and joins them with spaces.
func ShellJoin(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = text.ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// CheckNamespace returns an error if the namespace is not a valid name.
func CheckNamespace(cmd *cobra.Command) error {
	f := cmd.Flag("namespace")
	if f == nil {
		return nil
	}
	source := "HELM_NAMESPACE"
	if f.Changed {
		source = FlagSource(f)
	}
	return charts.CheckNamespace(source, f.Value.String())
}

// Values returns the values of a flag, several if it is a list.
func Values(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// ConnectionArgs returns the flags that select the cluster of a command, for another command that this process runs. show hides
// secrets in a value; without it, the flags must not be shown.
func ConnectionArgs(cmd *cobra.Command, show func(flag, value string) string) (args []string) {
	cmd.InheritedFlags().Visit(func(f *pflag.Flag) {
		for _, v := range Values(f) {
			if show != nil {
				v = show(f.Name, v)
			}
			if f.Name != "namespace" {
				args = append(args, "--"+f.Name+"="+v)
			}
		}
	})
	return args
}

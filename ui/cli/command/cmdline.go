package command

import (
	"encoding/csv"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/kube"
)

// GivenFlags calls visit for each flag set on the command line with the words that set it
// again, without secret values.
func GivenFlags(cmd *cobra.Command, visit func(name string, words []string), m *kube.Mask) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" && f.NoOptDefVal == "" {
			name = "-" + f.Shorthand
		}
		show := func(value string) string { return m.Argument(f.Name, value) }
		if f.Name == "set-file" {
			show = m.Path
		}
		var words []string
		for _, value := range valuesOf(f, show) {
			switch {
			case f.NoOptDefVal == "":
				words = append(words, name, value)
			case value == f.NoOptDefVal:
				words = append(words, name)
			default: // a separate word would be an argument
				words = append(words, name+"="+value)
			}
		}
		visit(f.Name, words)
	})
}

// valuesOf are the values that reproduce a flag, one for each time it was given. show hides
// secrets in each element.
func valuesOf(f *pflag.Flag, show func(string) string) []string {
	elements, ok := f.Value.(pflag.SliceValue)
	switch f.Value.Type() {
	case "bool":
		return []string{f.Value.String()}
	case "stringToString":
		return pairs(f, show)
	case "stringSlice":
		var values []string
		for _, e := range elements.GetSlice() {
			values = append(values, Quoted(show(e)))
		}
		return values
	}
	if !ok {
		return []string{show(f.Value.String())}
	}
	values := slices.Clone(elements.GetSlice())
	for i, e := range values {
		values[i] = show(e)
	}
	return values
}

// pairs are the values of a flag of the type stringToString, sorted.
func pairs(f *pflag.Flag, show func(string) string) []string {
	text := strings.TrimSuffix(strings.TrimPrefix(f.Value.String(), "["), "]")
	all, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		all = []string{text}
	}
	slices.Sort(all)
	for i, pair := range all {
		if pair = show(pair); strings.Count(pair, "=") != 1 { // pflag reads these as CSV
			pair = Quoted(pair)
		}
		all[i] = pair
	}
	return all
}

// Quoted is a value as CSV because pflag splits it at commas.
func Quoted(value string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write([]string{value}) // to memory
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// ShellWords quotes words for a shell and joins them.
func ShellWords(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !strings.ContainsRune(safe, r) }) {
			shown[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(shown, " ")
}

const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,^"

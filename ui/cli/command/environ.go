package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// EnvironmentVariable returns the variable that sets a flag, "" if none does: --version is the version of a chart, but images and
// CI systems keep that of lockstep itself in LOCKSTEP_VERSION.
func EnvironmentVariable(flag string) string {
	if flag == "help" || flag == "version" {
		return ""
	}
	return "LOCKSTEP_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// ReadEnvironment lets root and its commands read LOCKSTEP_<FLAG> for flags that the command line does not set, before cobra checks
// the arguments.
func ReadEnvironment(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		ReadEnvironment(cmd)
		if cmd.DisableFlagParsing { // another program reads its flags
			continue
		}
		check := cmd.Args
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			set, err := setFromEnvironment(cmd)
			if err == nil {
				err = check(cmd, args)
			}
			if usage, ok := err.(UsageError); ok && len(set) > 0 {
				return UsageError(fmt.Sprintf("%s (set in the environment: %s)", usage, strings.Join(set, ", ")))
			}
			return err
		}
	}
}

// setFromEnvironment sets flags of cmd and returns the variables that it used. Hidden flags of cmd have no use or are older names.
// A flag on the command line also wins over variables of those that exclude it.
func setFromEnvironment(cmd *cobra.Command) (set []string, err error) {
	var given []*pflag.Flag
	cmd.Flags().Visit(func(f *pflag.Flag) { given = append(given, f) })
	local := cmd.LocalNonPersistentFlags()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := EnvironmentVariable(f.Name)
		value := os.Getenv(name)
		excluded := slices.ContainsFunc(given, func(other *pflag.Flag) bool { return f == other || excludes(f, other) })
		if err != nil || value == "" || excluded || f.Hidden && local.Lookup(f.Name) != nil {
			return
		}
		values := []string{value}
		if _, isList := f.Value.(pflag.SliceValue); isList {
			values = strings.Split(strings.TrimSpace(value), "\n")
		}
		set = append(set, name)
		for _, v := range values {
			if err == nil {
				err = cmd.Flags().Set(f.Name, v)
			}
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[sourceAnnotation] = []string{name}
	})
	return set, err
}

const (
	sourceAnnotation  = "lockstep_environment"                // of a flag: the variable that has set it
	excludeAnnotation = "cobra_annotation_mutually_exclusive" // of a flag: groups of names, by cobra's MarkFlagsMutuallyExclusive
)

// excludes reports whether two flags are mutually exclusive.
func excludes(a, b *pflag.Flag) bool {
	return slices.ContainsFunc(a.Annotations[excludeAnnotation], func(group string) bool {
		return slices.Contains(b.Annotations[excludeAnnotation], group)
	})
}

// FlagSource returns what has set a flag, for messages: the flag or its variable.
func FlagSource(f *pflag.Flag) string {
	if source := f.Annotations[sourceAnnotation]; source != nil {
		return source[0]
	}
	return "--" + f.Name
}

package cli

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/engine/plan"
	"lockstep/ui/cli/command"
)

// explainUsage adds the next step to a usage error. args is the command line. It returns other
// errors unchanged.
func explainUsage(root *cobra.Command, args []string, err error) error {
	cmd, _, _ := root.Find(args) // the root command if there is no such command
	help := root.DisplayName() + " --help"
	if path := command.Path(cmd); path != "" {
		help = root.DisplayName() + " help " + path
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if flag := similarFlag(cmd, unknown); flag != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, flag)
		}
		return fmt.Errorf("%w; list the flags of the command with: %s; list connection flags with: %s help flags", err, help, root.DisplayName())
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("%w; for details: %s", explainValue(invalid), help)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("--%s needs a value; for details: %s", missing.GetFlag().Name, help)
	}
	if text, similar, ok := strings.Cut(err.Error(), "\n\nDid you mean this?\n"); ok {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(strings.Fields(similar), " or "))
	}
	if given := exclusiveFlags.FindStringSubmatch(err.Error()); given != nil {
		flags := strings.Fields(given[1])
		for i, name := range flags {
			flags[i] = command.FlagSource(cmd.Flags().Lookup(name))
		}
		err = command.UsageError(fmt.Sprintf("%s cannot be combined with %s", flags[0], strings.Join(flags[1:], " or ")))
	}
	if isUsageError(err) {
		return fmt.Errorf("%w; for details: %s", err, help)
	}
	return err
}

// isUsageError reports whether an error is about the arguments. Cobra has no type for its own.
func isUsageError(err error) bool {
	_, ok := errors.AsType[command.UsageError](err)
	_, syntax := errors.AsType[*pflag.InvalidSyntaxError](err)
	return ok || syntax || strings.HasPrefix(err.Error(), "unknown command ")
}

// exclusiveFlags matches cobra's error about flags that exclude each other. $1 lists those given.
var exclusiveFlags = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)

// explainValue returns the error about an invalid value of a flag. Errors of Go's parsers are explained.
func explainValue(invalid *pflag.InvalidValueError) error {
	flag, why := command.FlagSource(invalid.GetFlag()), invalid.Unwrap().Error()
	example := flag + " "
	if !strings.HasPrefix(flag, "--") {
		example = flag + "="
	}
	switch kind := invalid.GetFlag().Value.Type(); kind {
	case "duration":
		_, number := strconv.ParseFloat(invalid.GetValue(), 64)
		_, unparsed := time.ParseDuration(invalid.GetValue())
		switch {
		case unparsed == nil || unparsed.Error() != why: // the flag has its own error
		case number == nil:
			why = fmt.Sprintf("add a unit, for example %s%ss", example, invalid.GetValue())
		default:
			why = "must be a duration, for example " + example + "30s"
		}
	case "stringToString":
		if _, bad := errors.AsType[*csv.ParseError](invalid); !bad {
			why = "use key=value"
		}
	default:
		if _, bad := errors.AsType[*strconv.NumError](invalid); bad {
			why = cmp.Or(map[string]string{"bool": "must be true or false", "float64": "must be a number"}[kind], "must be a whole number")
		}
	}
	return fmt.Errorf("invalid %s %q: %s", flag, invalid.GetValue(), why)
}

// similarFlag returns the name of a listed flag of cmd that is similar to an unknown one, or "".
func similarFlag(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return similarName(unknown.GetSpecifiedName(), names)
}

// similarName returns the name that is most similar to a word, or "" if none is.
func similarName(word string, names []string) string {
	return plan.Nearest(word, names, len(word)/3)
}

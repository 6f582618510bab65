package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/kube"
)

// Choice is the value of a flag that accepts only certain words.
type Choice struct {
	value   *string
	Allowed []string
	// Unlisted maps words that are accepted, but not documented, to the values that they set.
	Unlisted map[string]string
}

func (c *Choice) String() string { return *c.value }
func (c *Choice) Type() string   { return "string" }

func (c *Choice) Set(s string) error {
	if meant, ok := c.Unlisted[s]; ok {
		s = meant
	} else if !slices.Contains(c.Allowed, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Allowed, ", "))
	}
	*c.value = s
	return nil
}

// AddChoice adds a flag that accepts only the allowed words. The first one is the default. usage
// explains them.
func AddChoice(cmd *cobra.Command, value *string, name, short, usage string, allowed ...string) *Choice {
	*value = allowed[0]
	c := &Choice{value: value, Allowed: allowed}
	cmd.Flags().VarP(c, name, short, usage)
	// Fails only if the flag is not defined.
	_ = cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return c.Allowed, cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// The values of --dry-run.
const (
	DryRunNone   = "none"
	DryRunClient = "client"
	DryRunServer = "server"
)

// AddDryRun adds --dry-run with some of its values, of which the first one is the default. Like Helm's, it also takes true and false.
func AddDryRun(cmd *cobra.Command, value *string, usage string, allowed ...string) {
	c := AddChoice(cmd, value, "dry-run", "", usage, allowed...)
	c.Unlisted = map[string]string{}
	for word, means := range map[string]string{"1 t T true True TRUE": DryRunClient, "0 f F false False FALSE": DryRunNone} {
		for word := range strings.FieldsSeq(word) {
			if slices.Contains(allowed, means) {
				c.Unlisted[word] = means
			}
		}
	}
	cmd.Flags().Lookup("dry-run").NoOptDefVal = DryRunClient
}

// alias is the value of a flag that gives another flag one of its values.
type alias struct {
	value *string
	means string
}

func (a alias) String() string { return strconv.FormatBool(a.value != nil && *a.value == a.means) }
func (a alias) Type() string   { return "bool" }

func (a alias) Set(s string) error {
	set, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("must be true or false")
	}
	if set {
		*a.value = a.means
	}
	return nil
}

// AddAlias adds a flag without a value that gives the flag of, whose value is in value, the value means.
func AddAlias(cmd *cobra.Command, value *string, name, means, of string) {
	cmd.Flags().Var(alias{value, means}, name, "alias of --"+of+"="+means)
	cmd.Flags().Lookup(name).NoOptDefVal = "true"
}

// count is the value of a flag for a number that must not be negative.
type count struct{ value *int }

func (c count) String() string {
	if c.value == nil { // pflag compares a zero value
		return "0"
	}
	return strconv.Itoa(*c.value)
}

func (c count) Type() string { return "int" }

func (c count) Set(s string) error {
	n, err := strconv.ParseInt(s, 0, strconv.IntSize)
	if err == nil && n < 0 {
		err = errors.New("must not be negative")
	}
	*c.value = int(n)
	return err
}

// AddCount adds a flag for a number that must not be negative.
func AddCount(f *pflag.FlagSet, value *int, name, short string, preset int, usage string) {
	*value = preset
	f.VarP(count{value}, name, short, usage)
}

// jobs is the value of --wait-for-jobs.
type jobs struct{ value *kube.Jobs }

func (j jobs) String() string {
	if j.value == nil { // pflag compares a zero value
		return ""
	}
	return string(*j.value)
}

func (j jobs) Type() string { return "bool" }

func (j jobs) Set(s string) error {
	all, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("must be true or false")
	}
	*j.value = kube.StartedJobs
	if all {
		*j.value = kube.AllJobs
	}
	return nil
}

// AddWaitForJobs adds --wait-for-jobs, which has a third value if it is not given (R22).
func AddWaitForJobs(f *pflag.FlagSet, value *kube.Jobs) {
	f.Var(jobs{value}, "wait-for-jobs", "wait until all Jobs complete, or with =false only until they start (default: those that other groups wait for must complete)")
	f.Lookup("wait-for-jobs").NoOptDefVal = "true"
}

// AddOutput adds -o, which OutputFormat reads. Without formats it accepts text and json.
func AddOutput(cmd *cobra.Command, formats ...string) {
	if formats == nil {
		formats = []string{"text", "json"}
	}
	AddChoice(cmd, new(string), "output", "o", "format: "+strings.Join(formats, ", "), formats...)
}

// AddOrder adds --order (R11a, R68).
func AddOrder(cmd *cobra.Command, order *string) {
	const usage = "order of groups: declared: only what the chart declares; inferred: also what its objects imply (see lockstep suggest); " +
		"upstream: declared, with a chart's own objects after its subcharts"
	AddChoice(cmd, order, "order", "", usage, kube.OrderDeclared, kube.OrderInferred, kube.OrderUpstream)
}

// AddWait adds --wait (R27), which may be used without a value.
func AddWait(cmd *cobra.Command, wait *string, usage string) {
	c := AddChoice(cmd, wait, "wait", "", usage, string(kube.WaitOrdered), "watcher", "hookOnly", "legacy")
	c.Unlisted = map[string]string{"true": "true", "false": "false", "none": "none"}
	cmd.Flags().Lookup("wait").NoOptDefVal = "watcher"
}

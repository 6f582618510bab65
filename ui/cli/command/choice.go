package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/kube"
)

// Choice is the value of a flag that is one of some words.
type Choice struct {
	Value   string
	Allowed []string
	// Unlisted are accepted but not advertised.
	Unlisted []string
}

// TextOrJSON is the -o flag of most commands.
func TextOrJSON() Choice { return Choice{Allowed: []string{"text", "json"}} }

func (c *Choice) String() string { return c.Value }
func (c *Choice) Type() string   { return "string" }

func (c *Choice) Set(s string) error {
	if !slices.Contains(c.Allowed, s) && !slices.Contains(c.Unlisted, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Allowed, ", "))
	}
	c.Value = s
	return nil
}

// AddChoice adds a flag with the first of the allowed words as its default.
func AddChoice(cmd *cobra.Command, c *Choice, name, short, about string) {
	if c.Value == "" {
		c.Value = c.Allowed[0]
	}
	cmd.Flags().VarP(c, name, short, about+": "+strings.Join(c.Allowed, ", "))
	// Fails only if the flag is not defined, which every run would show.
	_ = cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return c.Allowed, cobra.ShellCompDirectiveNoFileComp
	})
}

// AddOrder adds --order (R68).
func AddOrder(cmd *cobra.Command, c *Choice) {
	*c = Choice{Allowed: []string{kube.OrderDeclared, kube.OrderInferred}}
	AddChoice(cmd, c, "order", "", "order to follow; inferred adds what objects reference and call")
}

// CompleteWords completes the value of a flag with words.
func CompleteWords(cmd *cobra.Command, flag string, words []string) {
	// Fails only if the flag is not defined, which every run would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// WaitChoice is the value of --wait (R27).
func WaitChoice() Choice {
	return Choice{Allowed: []string{"ordered", "watcher", "hookOnly", "legacy"}, Unlisted: []string{"true", "false", "none"}}
}

func AddWait(cmd *cobra.Command, wait *Choice, about string) {
	AddChoice(cmd, wait, "wait", "", about)
	cmd.Flags().Lookup("wait").NoOptDefVal = "watcher"
}

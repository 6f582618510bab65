package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/kube"
)

// Choice is the value of a flag that accepts only certain words.
type Choice struct {
	Value   string
	Allowed []string
	// Unlisted words are accepted but not documented.
	Unlisted []string
}

// TextOrJSON returns the value of -o of most commands.
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

// AddChoice adds a flag. Its default is c.Value, or else the first allowed word.
func AddChoice(cmd *cobra.Command, c *Choice, name, short, usage string) {
	if c.Value == "" {
		c.Value = c.Allowed[0]
	}
	cmd.Flags().VarP(c, name, short, usage+": "+strings.Join(c.Allowed, ", "))
	// Fails only if the flag is not defined.
	_ = cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return c.Allowed, cobra.ShellCompDirectiveNoFileComp
	})
}

// AddOrder adds --order (R68).
func AddOrder(cmd *cobra.Command, c *Choice) {
	*c = Choice{Allowed: []string{kube.OrderDeclared, kube.OrderInferred}}
	AddChoice(cmd, c, "order", "", "order to follow; inferred also orders objects by their references and calls")
}

// CompleteWords completes a flag with words.
func CompleteWords(cmd *cobra.Command, flag string, words []string) {
	// Fails only if the flag is not defined.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// WaitChoice returns the value of --wait (R27).
func WaitChoice() Choice {
	return Choice{Allowed: []string{"ordered", "watcher", "hookOnly", "legacy"}, Unlisted: []string{"true", "false", "none"}}
}

// AddWait adds --wait, which may be used without a value.
func AddWait(cmd *cobra.Command, wait *Choice, usage string) {
	AddChoice(cmd, wait, "wait", "", usage)
	cmd.Flags().Lookup("wait").NoOptDefVal = "watcher"
}

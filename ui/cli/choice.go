package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/kube"
)

// choice is the value of a flag that is one of some words.
type choice struct {
	value   string
	allowed []string
	// also are words that are taken and not advertised.
	also []string
}

// textOrJSON is how most commands show what they have to say.
func textOrJSON() choice { return choice{allowed: []string{"text", "json"}} }

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return "string" }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.allowed, s) && !slices.Contains(c.also, s) {
		return fmt.Errorf("use one of %s", strings.Join(c.allowed, ", "))
	}
	c.value = s
	return nil
}

// addChoice adds a flag with the first of the allowed words as its default.
func addChoice(cmd *cobra.Command, c *choice, name, short, about string) {
	if c.value == "" {
		c.value = c.allowed[0]
	}
	cmd.Flags().VarP(c, name, short, about+": "+strings.Join(c.allowed, ", "))
	// The only error is that the flag is not there, which every run would show.
	_ = cmd.RegisterFlagCompletionFunc(name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return c.allowed, cobra.ShellCompDirectiveNoFileComp
	})
}

// addOrder adds --order (R68).
func addOrder(cmd *cobra.Command, c *choice) {
	*c = choice{allowed: []string{kube.OrderDeclared, kube.OrderInferred}}
	addChoice(cmd, c, "order", "", "whose order: what annotations say, or also what the objects imply")
}

// complete completes the value of a flag with words.
func complete(cmd *cobra.Command, flag string, words []string) {
	// The only error is that the flag is not there, which every run would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

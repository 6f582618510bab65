package cli

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// kubectl runs programs of these names in PATH as the plugin "kubectl lockstep" and for its completion.
const (
	kubectlPlugin     = "kubectl-lockstep"
	kubectlCompletion = "kubectl_complete-lockstep"
)

// calledAs returns the name by which the program was called, given os.Args[0].
func calledAs(program string) string { return strings.TrimSuffix(filepath.Base(program), ".exe") }

// inExample matches the program's name where an example runs it. $1 precedes it.
var inExample = regexp.MustCompile(`(?m)(^|-- |\| )lockstep\b`)

// renameTo makes help, examples and usage errors show another name for the program.
func renameTo(root *cobra.Command, name string) {
	if root.Annotations == nil {
		root.Annotations = map[string]string{}
	}
	root.Annotations[cobra.CommandDisplayNameAnnotation] = name
	var rename func(*cobra.Command)
	rename = func(c *cobra.Command) {
		c.Example = inExample.ReplaceAllString(c.Example, "${1}"+name)
		for _, sub := range c.Commands() {
			rename(sub)
		}
	}
	rename(root)
}

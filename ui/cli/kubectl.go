package cli

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// kubectlCompletion is the name of the program in PATH that kubectl runs for the completion of the plugin "kubectl lockstep".
const kubectlCompletion = "kubectl_complete-lockstep"

// calledAs returns the name by which the program was called, given os.Args[0].
func calledAs(program string) string { return strings.TrimSuffix(filepath.Base(program), ".exe") }

// inExample matches the program's name where an example runs it. $1 precedes it.
var inExample = regexp.MustCompile(`(?m)(^|-- |\| )lockstep\b`)

// inText matches the program's name where a text has a command. $1 precedes it.
var inText = regexp.MustCompile(`("|with |see |use |as in )lockstep\b`)

// renameTo makes help, examples and usage errors show another name for the program.
func renameTo(root *cobra.Command, name string) {
	if root.Annotations == nil {
		root.Annotations = map[string]string{}
	}
	root.Annotations[cobra.CommandDisplayNameAnnotation] = name
	var rename func(*cobra.Command)
	rename = func(c *cobra.Command) {
		c.Example = inExample.ReplaceAllString(c.Example, "${1}"+name)
		c.Long = inText.ReplaceAllString(c.Long, "${1}"+name)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = inText.ReplaceAllString(f.Usage, "${1}"+name) })
		for _, sub := range c.Commands() {
			rename(sub)
		}
	}
	rename(root)
}

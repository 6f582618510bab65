package cli

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/ui/cli/command"
	"lockstep/ui/report"
)

// buildVersion is set by the linker: -X lockstep/ui/cli.buildVersion=v1.2.3.
var buildVersion string

// imageRepository is the repository of the images that "make image" builds. It names no registry,
// because no images are published yet: use --image, or load the image onto the nodes by this name.
const imageRepository = "lockstep"

// defaultImage returns the image of this version. Tags cannot contain a plus sign.
func defaultImage() string {
	v := version()
	if v == develVersion {
		v = "latest"
	}
	return imageRepository + ":" + strings.ReplaceAll(v, "+", "_")
}

const develVersion = "(devel)" // Go's version of a build without a commit

// version returns buildVersion, or the version that Go derives from the commit.
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return develVersion
}

// moduleVersions returns the versions of the program, Go, Helm and client-go.
func moduleVersions() report.Version {
	v := report.Version{Version: version(), Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "helm.sh/helm/v4":
			v.Helm = m.Version
		case "k8s.io/client-go":
			v.Client = m.Version
		}
	}
	return v
}

func (a *app) newVersion() *cobra.Command {
	short := false
	cmd := &cobra.Command{
		Use: "version", GroupID: "more", Short: "print the version",
		Long: "Print the version of lockstep, and of the Helm and Kubernetes libraries in it.",
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if short && command.OutputFormat(cmd) == report.ModeText {
				return a.Display(cmd).Lines(version())
			}
			return a.Display(cmd).Show(moduleVersions())
		},
	}
	cmd.Flags().BoolVar(&short, "short", false, "print only the version")
	command.AddOutput(cmd)
	return cmd
}

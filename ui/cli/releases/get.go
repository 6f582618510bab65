package releases

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli/output"
	rel1 "helm.sh/helm/v4/pkg/release/v1"

	"lockstep/ui/cli/command"
	"lockstep/ui/likehelm"
	"lockstep/ui/report"
)

func (a *app) newGet() *cobra.Command {
	get := &cobra.Command{
		Use: "get", GroupID: "release", Short: "print values, manifest, hooks or notes",
		Long: "Print parts of a stored release, like \"helm get\".",
		Args: command.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	get.AddCommand(a.newGetAll(),
		a.newGetPart("hooks", "print the hooks", forPrograms, a.showRecord(likehelm.Hooks)),
		a.newGetPart("manifest", "print the manifest", forPrograms, a.showRecord(likehelm.Manifest)),
		a.newGetMetadata(),
		a.newGetPart("notes", "print the notes", forPeople, a.showRecord(likehelm.Notes)),
		a.newGetValues())
	return get
}

// showPart prints part of a release's record to out.
type showPart func(cmd *cobra.Command, out *bytes.Buffer, name string) error

// audience says whether the output of a command is for people, who get it without characters that
// could deceive them, or for programs, which get it unchanged.
type audience bool

const (
	forPeople   audience = false
	forPrograms audience = true
)

// newGetPart returns a command that prints part of a release's record.
func (a *app) newGetPart(name, about string, reader audience, show showPart) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " NAME", Short: about, Long: strings.ToUpper(about[:1]) + about[1:] + " of a release.",
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteRelease(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			to := a.Display(cmd).Text()
			if reader == forPrograms && helmFormat(cmd) != output.JSON {
				to = a.DisplayAs(cmd, report.ModeText).Data()
			}
			return a.printLikeHelm(cmd, a.Settings.Namespace(), to, func(out *bytes.Buffer) error { return show(cmd, out, args[0]) })
		},
	}
	a.addRevision(cmd)
	return cmd
}

func (a *app) showRecord(show func(*bytes.Buffer, *rel1.Release)) showPart {
	return func(cmd *cobra.Command, out *bytes.Buffer, name string) error {
		r, err := a.getRelease(cmd, name)
		if err == nil {
			show(out, r)
		}
		return err
	}
}

func (a *app) getRelease(cmd *cobra.Command, name string) (*rel1.Release, error) {
	get := action.NewGet(a.Helm)
	get.Version = revisionFlag(cmd)
	found, err := get.Run(name)
	if err != nil {
		return nil, err
	}
	return command.V1Release(found)
}

func (a *app) newGetAll() *cobra.Command {
	template := ""
	cmd := a.newGetPart("all", "print values, manifest, hooks and notes", forPeople, func(cmd *cobra.Command, out *bytes.Buffer, name string) error {
		r, err := a.getRelease(cmd, name)
		switch {
		case err != nil:
			return err
		case template != "":
			return likehelm.Template(out, template, r)
		}
		return likehelm.All(out, r)
	})
	cmd.Flags().StringVar(&template, "template", "", "print with a Go template: {{.Release.Name}}")
	return cmd
}

func (a *app) newGetMetadata() *cobra.Command {
	cmd := a.newGetPart("metadata", "print name, namespace, chart and status", forPeople, func(cmd *cobra.Command, out *bytes.Buffer, name string) error {
		get := action.NewGetMetadata(a.Helm)
		get.Version = revisionFlag(cmd)
		m, err := get.Run(name)
		if err != nil {
			return err
		}
		return likehelm.Metadata(out, helmFormat(cmd), m)
	})
	command.AddOutput(cmd, output.Formats()...)
	return cmd
}

func (a *app) newGetValues() *cobra.Command {
	get := action.NewGetValues(a.Helm)
	cmd := a.newGetPart("values", "print the values", forPrograms, func(cmd *cobra.Command, out *bytes.Buffer, name string) error {
		get.Version = revisionFlag(cmd)
		values, err := get.Run(name)
		if err != nil {
			return err
		}
		return likehelm.Values(out, helmFormat(cmd), values, get.AllValues)
	})
	cmd.Flags().BoolVarP(&get.AllValues, "all", "a", false, "print all values, including chart defaults")
	command.AddOutput(cmd, output.Formats()...)
	return cmd
}

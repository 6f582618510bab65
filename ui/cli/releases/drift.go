package releases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/inspect"
	"lockstep/engine/text"
	"lockstep/kube"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
	"lockstep/ui/cli/input"
	"lockstep/ui/report"
	"lockstep/ui/report/format"
	"lockstep/ui/report/reportfile"
)

const driftLong = `Compare releases with the cluster: which fields of their objects somebody has changed since they were deployed, who has
them now (the field manager) and since when, and which objects are gone. Only fields in the record of the release count, not
defaults or fields that others have added. The replicas of a workload that a HorizontalPodAutoscaler scales do not count either,
nor do the fields that the annotation lockstep/ignore-drift lists ("lockstep help annotations").

Without RELEASE and -A, compare the releases of a helmfile: the one given with -f, or the one in the current directory.

--repair applies the objects that differ again, in the order of their groups, each group once those before it are ready. It
takes over fields from other managers, and removes those that make the restored object invalid, such as another port of the same
name. Other objects and ignored fields stay as they are, hooks do not run, and the release keeps its revision. A group that needs
an approval waits for it as long as --approval-timeout says ("lockstep help approvals"). If an object or a release cannot be
repaired, the others still are.

Exit codes: 0 compared or repaired; 1 a release or an object could not be compared, or a repair failed. With
--detailed-exitcode: 2 if something differs and was not repaired.

-o json prints one object: releases (release, namespace, context, at, revision, objects, warnings, error) and next. Each object
has object, gone, message, owner, unread and fields (field, pointer, from, to, gone, manager, subresource, at). With --repair, the
events of the repairs follow.`

type driftFlags struct {
	stack       input.HelmfileFlags
	all, repair bool
	repairs     command.Repairs
	reports     []string
}

func (a *app) newDrift() *cobra.Command {
	var flags driftFlags
	cmd := &cobra.Command{
		Use: "drift {RELEASE… | -A | -f HELMFILE}", GroupID: "release", Short: "compare releases with the cluster, and repair what differs", Long: driftLong,
		Example: `lockstep drift shop -n shop
lockstep drift -A --report sarif=drift.sarif
lockstep drift shop -n shop --repair`,
		ValidArgsFunction: a.CompleteRelease(nil),
		Args: func(cmd *cobra.Command, args []string) error {
			switch all, file := flags.all, cmd.Flags().Changed("file"); {
			case all && (file || len(args) > 0), file && len(args) > 0:
				return command.UsageError("drift takes RELEASE, -A or -f, and only one of them")
			case all:
				return nil
			}
			return input.OrHelmfile(command.Args(1, -1))(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.drift(cmd, args, &flags) },
	}
	flags.stack.Add(cmd)
	f := cmd.Flags()
	f.BoolVarP(&flags.all, "all-namespaces", "A", false, "compare the releases of all namespaces")
	f.BoolVar(&flags.repair, "repair", false, "restore what differs to the state in the record of the release")
	f.DurationVar(&flags.repairs.Timeout, "timeout", kube.DefaultTimeout, "time limit of a comparison, and of each repair")
	f.StringArrayVar(&flags.repairs.Approve, "approve", nil, "approve a group of the repair beforehand, named as in --break-on of upgrade (repeatable; only with one RELEASE)")
	f.DurationVar(&flags.repairs.ApprovalTimeout, "approval-timeout", 0, "how long a group may wait for its approval; then the repair is aborted (default: the value of --timeout)")
	a.repair.AddFlags(f)
	f.StringArrayVar(&flags.reports, "report", nil, "write a report: junit=FILE or sarif=FILE (repeatable)")
	command.AddOutput(cmd)
	command.AddDetailedExitCode(cmd, "nothing differs")
	return cmd
}

func (a *app) drift(cmd *cobra.Command, args []string, flags *driftFlags) error {
	switch r := &flags.repairs; {
	case r.Timeout <= 0:
		return errors.New("--timeout must be more than 0")
	case r.ApprovalTimeout < 0:
		return errors.New("--approval-timeout must not be negative")
	case len(r.Approve) > 0 && (!flags.repair || len(args) != 1):
		return errors.New("--approve needs --repair and one RELEASE, whose groups it names")
	case r.ApprovalTimeout == 0:
		r.ApprovalTimeout = r.Timeout
	}
	files, err := reportfile.NewScanFiles(flags.reports)
	if err != nil {
		return err
	}
	found, err := a.findDrift(cmd, args, flags)
	if err != nil {
		return command.Exit(command.ExitFailed, err)
	}
	d := a.Display(cmd)
	command.WarnIf(d.Notices, files.Drift(found))
	shown := report.Drift{Releases: found}
	drifted, incomplete := shown.Count()
	if !flags.repair && slices.ContainsFunc(found, inspect.Drift.Repairable) {
		shown.Next = repairCommand(cmd, args)
	}
	if err := d.Show(shown); err != nil {
		return err
	}
	if flags.repair {
		if err := a.repairAll(cmd, found, flags.repairs); err != nil {
			return err
		}
	}
	unrepaired := drifted > 0 && !flags.repair || slices.ContainsFunc(found, belongsToOthers)
	switch {
	case incomplete > 0 && len(found) == 1: // the result says why
		return command.Exit(command.ExitFailed, nil)
	case incomplete > 0:
		return command.Exit(command.ExitFailed, fmt.Errorf("%d of %d releases could not be compared completely", incomplete, len(found)))
	case unrepaired:
		return command.Changes(cmd)
	}
	return nil
}

// belongsToOthers reports whether an object of a release belongs to somebody else now: a repair leaves it alone.
func belongsToOthers(d inspect.Drift) bool {
	return slices.ContainsFunc(d.Objects, func(o inspect.DriftedObject) bool { return o.Owner != "" })
}

// repairCommand returns the command line that repairs what this one has found.
func repairCommand(cmd *cobra.Command, args []string) string {
	words := append([]string{text.Program, "drift"}, args...)
	command.VisitSetFlags(cmd, func(name string, set []string) {
		if name != "report" && name != "output" && name != "detailed-exitcode" {
			words = append(words, set...)
		}
	}, nil)
	return command.ShellJoin(append(words, "--repair"))
}

// repairAll repairs the releases that differ. If one cannot be repaired, the others still are; a signal stops all.
func (a *app) repairAll(cmd *cobra.Command, found []inspect.Drift, how command.Repairs) error {
	todo := slices.DeleteFunc(slices.Clone(found), func(r inspect.Drift) bool { return !r.Repairable() })
	var failed []string
	code := command.ExitAborted // unless a repair failed otherwise
	for _, r := range todo {
		if a.Signals.Interrupted() {
			failed = append(failed, format.DriftRelease(r))
			continue
		}
		err := a.Signals.Cause(a.repairDrift(cmd, r, how))
		if err == nil {
			continue
		}
		failed = append(failed, format.DriftRelease(r))
		if command.ExitCode(err) != command.ExitAborted {
			code = command.ExitFailed
		}
		why := command.ErrorToShow(err) // nil if the summary of the repair says it
		if len(todo) == 1 {
			return command.Exit(code, why)
		}
		if why != nil {
			a.Display(cmd).Warn(fmt.Sprintf("%s is not repaired: %v", format.DriftRelease(r), new(mask.Mask).Error(why)))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	if a.Signals.Interrupted() {
		code = command.ExitAborted
	}
	return command.Exit(code, fmt.Errorf("%d of %d releases were not repaired: %s", len(failed), len(todo), strings.Join(failed, ", ")))
}

// repairDrift repairs a release where it was compared.
func (a *app) repairDrift(cmd *cobra.Command, r inspect.Drift, how command.Repairs) error {
	return a.repair.Run(cmd, command.InNamespace(a.SettingsOf(r.Context), r.Namespace), r.Release, how)
}

// findDrift compares the releases that the command selects.
func (a *app) findDrift(cmd *cobra.Command, args []string, flags *driftFlags) ([]inspect.Drift, error) {
	if len(args) == 0 && !flags.all {
		return a.driftOfStack(cmd, &flags.stack)
	}
	client, err := a.Connect()
	if err != nil {
		return nil, err
	}
	var keys []kube.ReleaseKey // nil with -A
	for _, name := range args {
		keys = append(keys, kube.ReleaseKey{Namespace: a.Settings.Namespace(), Name: name})
	}
	return a.compare(cmd, func(ctx context.Context) ([]inspect.Drift, error) { return client.Drift(ctx, keys) })
}

// driftOfStack compares the releases of a helmfile, those of a context together.
func (a *app) driftOfStack(cmd *cobra.Command, flags *input.HelmfileFlags) (all []inspect.Drift, err error) {
	file, err := flags.Read(a.App, cmd)
	if err != nil {
		return nil, err
	}
	clients, err := command.Load(cmd.Context(), answers, func(ctx context.Context) ([]*kube.Client, error) {
		return kube.Connections(ctx, file, a.ConnectTo)
	})
	if err != nil {
		return nil, err
	}
	byContext := map[string][]int{}
	for i, rel := range file.Releases {
		name := cmp.Or(rel.Context, rel.FallbackContext)
		byContext[name] = append(byContext[name], i)
	}
	for _, name := range slices.Sorted(maps.Keys(byContext)) {
		var keys []kube.ReleaseKey
		var client *kube.Client // of the context
		for _, i := range byContext[name] {
			client = clients[i]
			keys = append(keys, kube.ReleaseKey{Namespace: cmp.Or(file.Releases[i].Namespace, client.Namespace()), Name: file.Releases[i].Name})
		}
		found, err := a.compare(cmd, func(ctx context.Context) ([]inspect.Drift, error) { return client.Drift(ctx, keys) })
		switch {
		case err != nil && (len(byContext) == 1 || cmd.Context().Err() != nil):
			return nil, err
		case err != nil: // a cluster that is away stops only what needs it (S8)
			found = nil
			for _, key := range keys {
				found = append(found, inspect.Drift{Release: key.Name, Namespace: key.Namespace, Error: new(mask.Mask).Error(err).Error()})
			}
		}
		for n, i := range byContext[name] {
			found[n].Context, found[n].At = name, file.Releases[i].At
		}
		all = append(all, found...)
	}
	return all, nil
}

// answers is what a comparison waits for, at most as long as --timeout says.
const answers = "answers of the API server"

// compare compares releases, until the command is cancelled, and prints the warnings about them.
func (a *app) compare(cmd *cobra.Command, do func(context.Context) ([]inspect.Drift, error)) ([]inspect.Drift, error) {
	all, err := command.Load(cmd.Context(), answers, do)
	for _, r := range all {
		a.Display(cmd).Warnings(r.Warnings)
	}
	return all, err
}

// Repair applies the objects that differ from the record of a release again.
type Repair struct {
	AddFlags func(*pflag.FlagSet) // those that all runs have
	Run      func(cmd *cobra.Command, settings *helmcli.EnvSettings, release string, how command.Repairs) error
}

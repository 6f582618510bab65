package likehelm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/cli/output"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
)

// Status prints a release with its live objects and without its chart.
func Status(out *bytes.Buffer, format output.Format, r *rel1.Release) error {
	shown := *r
	shown.Chart = nil
	return encode(out, format, &shown, func() {
		printHead(out, r)
		printState(out, r)
		if strings.EqualFold(r.Info.Description, "Dry run complete") {
			printRendered(out, r)
		}
		printNotes(out, r)
	})
}

// All prints everything in a release's record.
func All(out *bytes.Buffer, r *rel1.Release) error {
	printHead(out, r)
	fmt.Fprintf(out, "CHART: %s\nVERSION: %s\nAPP_VERSION: %s\n", r.Chart.Metadata.Name, r.Chart.Metadata.Version, r.Chart.Metadata.AppVersion)
	printState(out, r)
	computed, err := util.CoalesceValues(r.Chart, r.Config)
	err = errors.Join(err, printYAML(out, "USER-SUPPLIED VALUES:", r.Config), printYAML(out, "\nCOMPUTED VALUES:", computed.AsMap()))
	if err != nil {
		return err
	}
	fmt.Fprintln(out)
	printRendered(out, r)
	printNotes(out, r)
	return nil
}

func printHead(out *bytes.Buffer, r *rel1.Release) {
	fmt.Fprintln(out, "NAME:", r.Name)
	if at := r.Info.LastDeployed; !at.IsZero() {
		fmt.Fprintln(out, "LAST DEPLOYED:", at.Format(time.ANSIC))
	}
	fmt.Fprintln(out, "NAMESPACE:", colourNamespace(r.Namespace))
	fmt.Fprintln(out, "STATUS:", colourStatus(r.Info.Status))
	fmt.Fprintln(out, "REVISION:", r.Version)
}

// printState prints the description, objects and tests of a release.
func printState(out *bytes.Buffer, r *rel1.Release) {
	fmt.Fprintln(out, "DESCRIPTION:", r.Info.Description)
	printResources(out, r.Info.Resources)
	printTests(out, r.Hooks)
}

// printResources prints objects by kind. Unlike Helm, it sorts the kinds.
func printResources(out *bytes.Buffer, byKind map[string][]runtime.Object) {
	if len(byKind) == 0 {
		return
	}
	fmt.Fprintln(out, "RESOURCES:")
	printer := printers.NewTablePrinter(printers.PrintOptions{})
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		fmt.Fprintln(out, "==>", kind)
		for _, o := range byKind[kind] {
			if err := printer.PrintObj(decodeTable(o), out); err != nil {
				fmt.Fprintf(out, "failed to print object type %s: %v\n", kind, err)
			}
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
}

// decodeTable decodes a Table of the API server. It returns other objects unchanged.
func decodeTable(o runtime.Object) runtime.Object {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || u.GetKind() != "Table" || u.GroupVersionKind().Group != metav1.GroupName {
		return o
	}
	table := &metav1.Table{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, table); err != nil {
		return o
	}
	return table
}

// printTests prints the results of tests that have started.
func printTests(out *bytes.Buffer, hooks []*rel1.Hook) {
	found := false
	for _, h := range hooks {
		for _, event := range h.Events {
			found = found || event == rel1.HookTest
			if run := h.LastRun; event == rel1.HookTest && !run.StartedAt.IsZero() {
				fmt.Fprintf(out, "TEST SUITE:     %s\nLast Started:   %s\nLast Completed: %s\nPhase:          %s\n",
					h.Name, run.StartedAt.Format(time.ANSIC), run.CompletedAt.Format(time.ANSIC), run.Phase)
			}
		}
	}
	if !found {
		fmt.Fprintln(out, "TEST SUITE: None")
	}
}

// printRendered prints the rendered hooks and manifest.
func printRendered(out *bytes.Buffer, r *rel1.Release) {
	fmt.Fprintln(out, "HOOKS:")
	Hooks(out, r)
	fmt.Fprintf(out, "MANIFEST:\n%s\n", r.Manifest)
}

func printNotes(out *bytes.Buffer, r *rel1.Release) {
	if r.Info.Notes != "" {
		fmt.Fprintf(out, "NOTES:\n%s\n", strings.TrimSpace(r.Info.Notes))
	}
}

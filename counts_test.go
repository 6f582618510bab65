package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxFiles  = 20      // source files a folder
	maxFields = 12      // fields a struct
	maxSize   = 1 << 20 // bytes a file in git
)

// moreFiles are the folders that have more files, with how many they may have; none is
// added, and no number grows.
var moreFiles = map[string]int{}

// wideStructs are the structs outside ui/board that have more fields than maxFields, with the
// reason why they are not split.
var wideStructs = map[string]string{
	"kube/helmfile.Release":       "the keys of a helmfile's release",
	"kube/session.Common":         "options that a caller writes as one literal",
	"kube/operation.ChartOptions": "options that a caller writes as one literal",
	"kube/charts.RenderOptions":   "options that a caller writes as one literal",
	"kube/permissions.Operation":  "options that a caller writes as one literal",
	"engine/event.Event":          "a line of JSON, whose fields are a contract",
	"engine/event.Command":        "a request to a run, whose fields are a contract",
	"engine/event.Operation":      "a part of a line of JSON, whose fields are a contract",
	"engine/event.ObjectState":    "an object as the screen and JSON show it",
	"engine/event.GroupState":     "a group as the screen and JSON show it",
	"engine/event.State":          "the one state of a run that events are reduced to",
	"theme.Lines":                 "the characters of a drawing",
	"kube/cluster.Target":         "the objects of a stage, and what their requests and watches share",
	"kube/diagnose.Container":     "a container as causes read it",
	"kube/operation.shared":       "what the revisions of a run share, under one lock",
	"kube/release.Record":         "the keys of a file that is stored with a revision",
	"kube/stack.Options":          "options that a caller writes as one literal",
	"kube/stack.Stack":            "a run of many releases, under one lock",
	"kube/stack.member":           "a release of a stack, from its plan to its end",
	"engine/run.Options":          "options that a caller writes as one literal",
	"engine/run.Steering":         "what a run keeps for the process that continues it",
	"engine/plan.Group":           "a part of a line of JSON, whose fields are a contract",
	"engine/run.End":              "the closing event, as a caller writes it",
	"engine/run.machine":          "the state machine of a run, under one lock",
	"engine/run.stage":            "a phase of the machine and its units",
	"engine/run.group":            "a unit of the machine",
	"engine/run.object":           "an object of a unit: what was applied, and what was observed",
	"engine/run.Observation":      "what a watch saw of an object, compared as a whole",
	"engine/plan.chartNode":       "a chart of the tree while its order is read",
	"engine/infer.arranger":       "the working state of one inference",
	"engine/infer.reader":         "the working state of one inference",
	"ui/report.textLog":           "what the lines printed so far decide for the next",
	"kube/sandbox.sandbox":        "the parts of the cluster, each closed in its turn",
}

// TestNoProgramInGit checks that no file in git is so large that it must be a program or other
// output of a build.
func TestNoProgramInGit(t *testing.T) {
	for name := range strings.SplitSeq(string(output(t, ".", "git", "ls-files", "-z")), "\x00") {
		if f, err := os.Lstat(name); err == nil && f.Size() > maxSize {
			t.Errorf("%s has %d bytes: remove it from git", name, f.Size())
		}
	}
}

// TestCounts prints what "make lint" shows of the size of the code without its tests:
// lines, folders with many files, and structs of many fields that are no screen's.
func TestCounts(t *testing.T) {
	lines, files, wide := 0, map[string]int{}, map[string]int{}
	goFiles(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		lines += strings.Count(text, "\n")
		folder := path.Dir(filepath.ToSlash(name))
		files[folder]++
		if strings.HasPrefix(folder, "ui/board") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && fieldsOf(s) > maxFields {
				wide[folder+"."+spec.Name.Name] = fieldsOf(s)
			}
			return true
		})
	})
	fmt.Printf("%d lines of Go without tests, in %d folders\n", lines, len(files))
	for folder, n := range files {
		switch allowed := max(maxFiles, moreFiles[folder]); {
		case n > allowed:
			t.Errorf("%s has %d files, and no more than %d are allowed: split it by what changes together", folder, n, allowed)
		case n < moreFiles[folder]:
			t.Errorf("%s has %d files now: make its number in moreFiles smaller, or remove it", folder, n)
		}
	}
	fmt.Printf("%d folders with more than %d files%s\n", len(moreFiles), maxFiles, listed(moreFiles))
	for name, n := range wide {
		if wideStructs[name] == "" {
			t.Errorf("%s has %d fields, and no more than %d are allowed: split it by what changes together", name, n, maxFields)
		}
	}
	for name := range wideStructs {
		if wide[name] == 0 {
			t.Errorf("%s is not wide any more: remove it from wideStructs", name)
		}
	}
	fmt.Printf("%d structs outside ui/board with more than %d fields%s\n", len(wide), maxFields, listed(wide))
}

func fieldsOf(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names)) // an embedded one has no name
	}
	return n
}

// listed are names with their numbers, the largest first.
func listed(counts map[string]int) string {
	var out []string
	byCount := func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(counts), byCount) {
		out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}
